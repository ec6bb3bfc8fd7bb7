//! The decision for one linear layer by perplexity.
//!
//! The smallest rank whose perplexity is at most a bound, or the dense layer if none is. A rank is
//! refused as soon as the loss of the blocks so far exceeds what the bound allows in all: losses
//! are not negative.

use serde::{Deserialize, Serialize};

/// A text in blocks, and the largest allowed perplexity.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Number of blocks.
    pub blocks: usize,
    /// Number of predicted tokens of all blocks.
    pub tokens: u64,
    /// Largest perplexity that passes.
    pub allowed: f64,
}

/// A check of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Index of the rank.
    pub level: usize,
    /// Perplexity, or a lower bound of it if not all blocks were scored; none if it overflows.
    pub perplexity: Option<f64>,
    /// Number of blocks that were scored.
    pub blocks: usize,
    /// The outcome.
    pub passes: bool,
}

/// The decision for one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Index of the accepted rank; none if the layer stays dense.
    pub level: Option<usize>,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

/// Decides a layer with so many ranks, of which the last stands for the dense layer and is not
/// scored; `loss` is the sum of negative log-likelihoods at a rank in a block, in nats.
///
/// # Errors
/// Those of `loss`.
pub fn decide<E>(
    bound: &Bound,
    levels: usize,
    loss: impl FnMut(usize, usize) -> Result<f64, E>,
) -> Result<Verdict, E> {
    scan(bound, levels.saturating_sub(1), loss, true)
}

/// As [`decide`], with the steps of the published code: every block of every rank is scored.
///
/// # Errors
/// Those of `loss`.
pub fn decide_as_published<E>(
    bound: &Bound,
    levels: usize,
    loss: impl FnMut(usize, usize) -> Result<f64, E>,
) -> Result<Verdict, E> {
    let mut verdict = scan(bound, levels, loss, false)?;
    verdict.level = verdict.level.filter(|level| level + 1 < levels);
    Ok(verdict)
}

fn scan<E>(
    bound: &Bound,
    levels: usize,
    mut loss: impl FnMut(usize, usize) -> Result<f64, E>,
    stops: bool,
) -> Result<Verdict, E> {
    let perplexity = |sum: f64| (sum / bound.tokens as f64).exp();
    let mut checks = Vec::new();
    for level in 0..levels {
        let (mut sum, mut blocks) = (0.0, 0);
        for block in 0..bound.blocks {
            sum += loss(level, block)?.max(0.0);
            blocks += 1;
            if stops && perplexity(sum) > bound.allowed {
                break;
            }
        }
        let (perplexity, passes) = (perplexity(sum), perplexity(sum) <= bound.allowed);
        let perplexity = Some(perplexity).filter(|perplexity| perplexity.is_finite());
        checks.push(Check { level, perplexity, blocks, passes });
        if passes {
            return Ok(Verdict { level: Some(level), checks });
        }
    }
    Ok(Verdict { level: None, checks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;
    use std::convert::Infallible;

    #[test]
    fn early_refusals_decide_as_the_published_steps_on_random_tables() {
        let (mut dense, mut fast, mut published) = (0, 0, 0);
        for seed in 0..500 {
            let mut stream = RngKey::new(seed).stream();
            let (levels, blocks) = (1 + stream.below(11), 1 + stream.below(9));
            // Not monotone in every second table.
            let falls = if seed % 2 == 0 { 0.2 } else { 0.0 };
            let table: Vec<Vec<f64>> = (0..levels)
                .map(|level| {
                    let mean = 8.0 - falls * level as f64;
                    (0..blocks).map(|_| mean + stream.normal()).collect()
                })
                .collect();
            let allowed = 2.0f64.ln() * 1.1 * stream.uniform() + 1.0;
            let bound = Bound { blocks, tokens: 5 * blocks as u64, allowed: allowed.exp() };
            let mut count = [0, 0];
            let own = decide(&bound, levels, |level, block| {
                count[0] += 1;
                Ok::<_, Infallible>(table[level][block])
            });
            let other = decide_as_published(&bound, levels, |level, block| {
                count[1] += 1;
                Ok::<_, Infallible>(table[level][block])
            });
            let (own, other) = (own.unwrap(), other.unwrap());
            assert_eq!(own.level, other.level, "seed {seed}");
            dense += usize::from(own.level.is_none());
            (fast, published) = (fast + count[0], published + count[1]);
        }
        assert!((50..450).contains(&dense), "{dense} of 500");
        assert!(fast < published, "{fast} and {published} blocks");
    }

    #[test]
    fn the_smallest_rank_within_the_bound_is_taken() {
        let bound = Bound { blocks: 2, tokens: 4, allowed: 1.0f64.exp() };
        let losses = [[9.0, 9.0], [1.0, 4.0], [2.0, 2.0], [0.0, 0.0]];
        let loss = |level: usize, block: usize| Ok::<_, Infallible>(losses[level][block]);
        let verdict = decide(&bound, 4, loss).unwrap();
        assert_eq!(verdict.level, Some(2));
        let told: Vec<_> =
            verdict.checks.iter().map(|check| (check.blocks, check.passes)).collect();
        assert_eq!(told, [(1, false), (2, false), (2, true)]);
        // What overflows is said so, and read back.
        let bound = Bound { blocks: 1, tokens: 1, allowed: 9.0 };
        let deep = decide(&bound, 2, |_, _| Ok::<_, Infallible>(1e4)).unwrap();
        assert_eq!((deep.level, deep.checks[0].perplexity), (None, None));
        let text = serde_json::to_string(&deep).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), deep, "{text}");
        let bound = Bound { blocks: 2, tokens: 4, allowed: 1.0f64.exp() };
        // The largest rank stands for the dense layer.
        assert_eq!(decide(&bound, 3, loss).unwrap().level, None);
        assert_eq!(decide_as_published(&bound, 3, loss).unwrap().level, None);
    }
}
