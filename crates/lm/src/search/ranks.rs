//! Ranks that a search tries, and the bounds of the perplexity search.

use linwright_ops::Shape;

/// Largest ratio of perplexities from one linear layer to the next of a perplexity search.
pub const MAX_GROWTH: f64 = 1.005;

/// Ranks that a search tries for a weight, ascending, each once: 1, and tenths of the rank at which
/// factors have as many parameters as the weight. The last one stands for the weight itself.
#[must_use]
pub fn search_ranks(shape: Shape) -> Vec<usize> {
    let break_even = shape.out * shape.inp / (shape.out + shape.inp).max(1);
    // In this order of operations, as in the published code: 0.1 + 0.1 * 2 is above 0.3.
    let tenth = |j: u32| ((0.1 + 0.1 * f64::from(j)) * break_even as f64) as usize;
    let mut ranks: Vec<usize> = std::iter::once(1).chain((0..10).map(tenth)).collect();
    ranks.retain(|rank| *rank > 0);
    ranks.dedup();
    ranks
}

/// Largest perplexity allowed when a linear layer is cut: `base * growth^(linears - index)` for the
/// layer with this index of so many linear layers.
#[must_use]
pub fn allowed_perplexity(base: f64, growth: f64, linears: usize, index: usize) -> f64 {
    let steps = linears.saturating_sub(index);
    base * growth.powi(i32::try_from(steps).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_weights_have_fewer_ranks_and_each_once() {
        assert_eq!(search_ranks(Shape { out: 768, inp: 768 })[..3], [1, 38, 76]);
        assert_eq!(search_ranks(Shape { out: 16, inp: 16 }), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(search_ranks(Shape { out: 2, inp: 2 }), [1]);
    }

    #[test]
    fn the_allowance_compounds() {
        assert_eq!(allowed_perplexity(7.0, MAX_GROWTH, 224, 224), 7.0);
        assert!((allowed_perplexity(1.0, MAX_GROWTH, 224, 28) - 2.66).abs() < 0.01);
    }
}
