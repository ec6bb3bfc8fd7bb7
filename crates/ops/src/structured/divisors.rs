//! Divisors of feature counts, for operators that split features into equal parts.

use super::MAX_NUMBERS;
use crate::Shape;

/// The divisor of `n` nearest to its square root, by ratio; the smaller one for ties.
pub(super) fn nearest_to_root(n: usize) -> usize {
    nearest(n, n)
}

/// The common divisor of both sides nearest to the square root of the inputs, by ratio; the smaller
/// one for ties.
pub(super) fn common_near_root(shape: Shape) -> usize {
    let (mut a, mut b) = (shape.out, shape.inp);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    nearest(a, shape.inp)
}

/// Common divisors of both sides, ascending.
pub(super) fn common(shape: Shape) -> impl Iterator<Item = usize> + Clone {
    let Shape { out, inp } = shape;
    (1..=out.min(inp)).filter(move |k| out.is_multiple_of(*k) && inp.is_multiple_of(*k))
}

/// Powers of two up to `most`, at least the first.
pub(super) fn powers_of_two(most: usize) -> impl Iterator<Item = usize> {
    (0..=most.max(1).ilog2()).map(|power| 1usize << power)
}

/// The divisor of `n` nearest to the square root of `square`, by ratio; the smaller one for ties.
/// One if `n` exceeds the largest operator: a file could otherwise request an endless search.
fn nearest(n: usize, square: usize) -> usize {
    let bounded = if n as u64 > MAX_NUMBERS { 1 } else { n };
    let (mut below, mut above) = (1, bounded.max(1));
    for k in (1..=bounded.isqrt()).filter(|k| bounded.is_multiple_of(*k)) {
        for k in [k, bounded / k] {
            if (k as u128).pow(2) <= square as u128 {
                below = below.max(k);
            } else {
                above = above.min(k);
            }
        }
    }
    // The lower one is nearer if √square / below <= above / √square.
    let lower = square as u128 <= below as u128 * above as u128;
    if lower || (above as u128).pow(2) <= square as u128 { below } else { above }
}

/// The reason why `parts` do not divide the sides of a shape, with the nearest divisible shapes;
/// none if they do. `parts` are positive and may differ between sides.
pub(super) fn refusal(shape: Shape, parts: Shape) -> Option<String> {
    let around = |n: usize, k: usize| {
        let (below, above) = (n / k * k, n.div_ceil(k).saturating_mul(k));
        if below == above { vec![n] } else { vec![above, below] }
    };
    let sides = [(shape.out, parts.out), (shape.inp, parts.inp)];
    let wrong: Vec<String> = sides
        .iter()
        .filter(|(n, k)| !n.is_multiple_of(*k))
        .map(|(n, k)| format!("{n} is not a multiple of {k}"))
        .collect();
    if wrong.is_empty() {
        return None;
    }
    let (out, inp) = (around(shape.out, parts.out), around(shape.inp, parts.inp));
    let near: Vec<String> = out
        .iter()
        .flat_map(|&out| inp.iter().map(move |&inp| (out, inp)))
        .filter(|&(out, inp)| out > 0 && inp > 0)
        .map(|(out, inp)| format!("{out} x {inp}"))
        .collect();
    Some(format!("{}; nearest: {}", wrong.join(" and "), near.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_the_nearest_ones() {
        let roots = [0, 1, 2, 7, 12, 36, 2048, 11_008].map(nearest_to_root);
        assert_eq!(roots, [1, 1, 1, 1, 3, 6, 32, 86]);
        assert_eq!(nearest_to_root(usize::MAX), 1, "without a search");
        let common = |out, inp| common_near_root(Shape { out, inp });
        assert_eq!([common(12, 8), common(7, 5), common(2048, 2048)], [2, 1, 32]);
        assert_eq!(
            [common(512, 2048), common(4, 2048), common(0, 9), common(50, 30)],
            [32, 4, 3, 5]
        );
    }

    #[test]
    fn refusals_name_the_nearest_shapes() {
        let say = |out, inp, k| refusal(Shape { out, inp }, Shape { out: k, inp: k });
        assert_eq!(say(12, 8, 4), None);
        let said = "10 is not a multiple of 4; nearest: 12 x 12 or 12 x 8";
        assert_eq!(say(12, 10, 4).unwrap(), said);
        let said = "3 is not a multiple of 4 and 5 is not a multiple of 4; nearest: 4 x 8 or 4 x 4";
        assert_eq!(say(3, 5, 4).unwrap(), said);
    }
}
