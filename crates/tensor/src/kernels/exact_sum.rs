//! Sums whose bits do not depend on their order.
//!
//! A sum is kept as two doubles: the rounded sum, and the sum of what rounding lost (Møller's and
//! Knuth's exact addition). Numbers in `f32` are multiples of their last digit, so both stay exact
//! while the terms of one sum, other than zero, differ by less than a factor of `2^75`; then any
//! order and any grouping gives the same total, rounded once. Beyond that the loss is rounded, too,
//! to 106 bits in all.

use super::instructions::vectorised;

/// Adds numbers to sums, each of which is `high + low`.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn add(high: &mut [f64], low: &mut [f64], terms: &[f32]) {
    let lengths = (high.len(), low.len());
    assert_eq!(lengths, (terms.len(), terms.len()), "two parts of a sum for each term");
    add_slice(high, low, terms);
}

/// Adds sums to sums.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn merge(high: &mut [f64], low: &mut [f64], of_high: &[f64], of_low: &[f64]) {
    let lengths = (high.len(), low.len(), of_low.len());
    assert_eq!(lengths, (of_high.len(), of_high.len(), of_high.len()), "two parts of each sum");
    merge_slice(high, low, of_high, of_low);
}

/// Adds one number to a sum.
pub fn add_one(high: &mut f64, low: &mut f64, term: f64) {
    let (sum, lost) = exactly(*high, term);
    *high = sum;
    *low += lost;
}

/// A rounded sum, and what rounding lost.
#[inline(always)]
fn exactly(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let other = sum - a;
    (sum, (a - (sum - other)) + (b - other))
}

vectorised! {
    fn add_slice<const FUSED: bool>(high: &mut [f64], low: &mut [f64], terms: &[f32]) {
        for ((high, low), &term) in high.iter_mut().zip(low).zip(terms) {
            let (sum, lost) = exactly(*high, f64::from(term));
            *high = sum;
            *low += lost;
        }
    }
}

vectorised! {
    fn merge_slice<const FUSED: bool>(
        high: &mut [f64],
        low: &mut [f64],
        of_high: &[f64],
        of_low: &[f64],
    ) {
        let sums = high.iter_mut().zip(low);
        for ((high, low), (&other, &other_low)) in sums.zip(of_high.iter().zip(of_low)) {
            let (sum, lost) = exactly(*high, other);
            *high = sum;
            *low = (*low + other_low) + lost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    /// Sums over rows in an order, split into groups that are merged.
    fn sums(rows: &[Vec<f32>], order: &[usize], group: usize) -> Vec<u64> {
        let cols = rows[0].len();
        let (mut high, mut low) = (vec![0.0; cols], vec![0.0; cols]);
        for part in order.chunks(group) {
            let (mut of_high, mut of_low) = (vec![0.0; cols], vec![0.0; cols]);
            part.iter().for_each(|row| add(&mut of_high, &mut of_low, &rows[*row]));
            merge(&mut high, &mut low, &of_high, &of_low);
        }
        high.iter().zip(&low).map(|(high, low)| (high + low).to_bits()).collect()
    }

    #[test]
    fn no_order_and_no_grouping_changes_a_bit_where_plain_sums_differ() {
        let mut stream = RngKey::new(1).stream();
        let number = |stream: &mut crate::RngStream| {
            let scale = (40.0 * stream.normal()).clamp(-70.0, 70.0) / 4.0;
            (stream.normal() * scale.exp2()) as f32
        };
        let rows: Vec<Vec<f32>> =
            (0..200).map(|_| (0..37).map(|_| number(&mut stream)).collect()).collect();
        let forward: Vec<usize> = (0..200).collect();
        let backward: Vec<usize> = (0..200).rev().collect();
        let mixed: Vec<usize> = (0..200).map(|i| i * 77 % 200).collect();
        let expected = sums(&rows, &forward, 200);
        for order in [&forward, &backward, &mixed] {
            for group in [1, 3, 64, 200] {
                assert_eq!(sums(&rows, order, group), expected, "groups of {group}");
            }
        }
        let plain = |order: &[usize]| -> Vec<f64> {
            (0..37).map(|j| order.iter().map(|i| f64::from(rows[*i][j])).sum()).collect()
        };
        assert_ne!(plain(&forward), plain(&mixed), "the numbers are too easy");
        let (mut high, mut low) = (0.0, 0.0);
        [1e16, 1.0, -1e16].into_iter().for_each(|term| add_one(&mut high, &mut low, term));
        assert_eq!(high + low, 1.0);
    }
}
