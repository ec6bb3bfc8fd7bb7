//! Sums whose bits do not depend on the order of terms.
//!
//! A sum is kept as two doubles: the rounded sum, and the sum of what rounding lost (Møller's and
//! Knuth's exact addition). Numbers in `f32` are multiples of their last digit, so both stay exact
//! while the terms of one sum, other than zero, differ by less than a factor of `2^75`; then any
//! order and any grouping gives the same total, rounded once. Beyond that the loss is rounded, too,
//! to 106 bits in all.

use super::instructions::vectorised;
use crate::Scalar;

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

/// Adds a row to sums, as [`add_wide`], and gives the sum of its squares, as a rounded sum and what
/// rounding lost: one pass.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn add_row<T: Scalar>(high: &mut [f64], low: &mut [f64], row: &[T]) -> (f64, f64) {
    let lengths = (high.len(), low.len());
    assert_eq!(lengths, (row.len(), row.len()), "two parts of a sum for each number");
    let mut squares = [[0.0; LANES]; 2];
    add_row_slice(high, low, row, &mut squares);
    total_of(squares)
}

/// As [`add`], for terms in double precision; the sum keeps 106 bits.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn add_wide(high: &mut [f64], low: &mut [f64], terms: &[f64]) {
    let lengths = (high.len(), low.len());
    assert_eq!(lengths, (terms.len(), terms.len()), "two parts of a sum for each term");
    add_wide_slice(high, low, terms);
}

/// Adds `(scale.0 + scale.1) * (of_high + of_low)`: products of sums, with 104 bits each.
///
/// # Panics
/// If the lengths differ.
#[track_caller]
pub fn add_scaled(
    high: &mut [f64],
    low: &mut [f64],
    scale: (f64, f64),
    (of_high, of_low): (&[f64], &[f64]),
) {
    let lengths = (high.len(), low.len(), of_low.len());
    assert_eq!(lengths, (of_high.len(), of_high.len(), of_high.len()), "two parts of each sum");
    add_scaled_slice(high, low, scale, of_high, of_low);
}

/// The sum of sums in lanes.
fn total_of([high, low]: [[f64; LANES]; 2]) -> (f64, f64) {
    let (mut total, mut lost) = (0.0, 0.0);
    for (of_high, of_low) in high.into_iter().zip(low) {
        add_one(&mut total, &mut lost, of_high);
        lost += of_low;
    }
    (total, lost)
}

/// Brings sums into the one form in which the first part is the total, rounded once.
pub fn normalise(high: &mut [f64], low: &mut [f64]) {
    for (high, low) in high.iter_mut().zip(low) {
        (*high, *low) = exactly(*high, *low);
    }
}

/// `(a.0 + a.1) (b.0 + b.1)`, with 104 bits.
#[must_use]
pub fn product_of((a, a_low): (f64, f64), (b, b_low): (f64, f64)) -> (f64, f64) {
    let (product, lost) = product_exactly::<true>(a, b);
    exactly(product, lost + (a * b_low + a_low * b))
}

/// `(a.0 + a.1) / by`, with 104 bits.
#[must_use]
pub fn quotient_of((a, a_low): (f64, f64), by: f64) -> (f64, f64) {
    let first = a / by;
    let (product, lost) = product_exactly::<true>(first, by);
    exactly(first, (((a - product) - lost) + a_low) / by)
}

/// Sums that are computed side by side.
const LANES: usize = 16;

/// A rounded product, and what rounding lost.
#[inline(always)]
fn product_exactly<const FUSED: bool>(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    if FUSED {
        return (product, a.mul_add(b, -product));
    }
    // Dekker's product: halves of 26 bits.
    let halves = |number: f64| {
        let scaled = 134_217_729.0 * number;
        let upper = scaled - (scaled - number);
        (upper, number - upper)
    };
    let ((a_up, a_down), (b_up, b_down)) = (halves(a), halves(b));
    let lost = ((a_up * b_up - product) + a_up * b_down + a_down * b_up) + a_down * b_down;
    (product, lost)
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
    fn add_wide_slice<const FUSED: bool>(high: &mut [f64], low: &mut [f64], terms: &[f64]) {
        for ((high, low), &term) in high.iter_mut().zip(low).zip(terms) {
            let (sum, lost) = exactly(*high, term);
            *high = sum;
            *low += lost;
        }
    }
}

vectorised! {
    fn add_scaled_slice<const FUSED: bool>(
        high: &mut [f64],
        low: &mut [f64],
        scale: (f64, f64),
        of_high: &[f64],
        of_low: &[f64],
    ) {
        let sums = high.iter_mut().zip(low);
        for ((high, low), (&other, &other_low)) in sums.zip(of_high.iter().zip(of_low)) {
            let (product, rest) = product_exactly::<FUSED>(scale.0, other);
            let (sum, lost) = exactly(*high, product);
            *high = sum;
            *low += lost + (rest + (scale.0 * other_low + scale.1 * other));
        }
    }
}

vectorised! {
    fn add_row_slice<const FUSED: bool, T: Scalar>(
        high: &mut [f64],
        low: &mut [f64],
        row: &[T],
        squares: &mut [[f64; LANES]; 2],
    ) {
        let [of_high, of_low] = squares;
        let mut add = |high: &mut [f64], low: &mut [f64], row: &[T]| {
            let sums = high.iter_mut().zip(low).zip(row);
            for (((high, low), number), square) in
                sums.zip(of_high.iter_mut().zip(of_low.iter_mut()))
            {
                let number = number.to_f64();
                let (sum, lost) = exactly(*high, number);
                *high = sum;
                *low += lost;
                let (product, rest) = product_exactly::<FUSED>(number, number);
                let (sum, lost) = exactly(*square.0, product);
                *square.0 = sum;
                *square.1 += lost + rest;
            }
        };
        let (high, last_high) = high.as_chunks_mut::<LANES>();
        let (low, last_low) = low.as_chunks_mut::<LANES>();
        let (row, last_row) = row.as_chunks::<LANES>();
        for ((high, low), row) in high.iter_mut().zip(low).zip(row) {
            add(high, low, row);
        }
        add(last_high, last_low, last_row);
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

    #[test]
    fn a_row_is_added_with_its_squares_in_one_pass() {
        let mut stream = RngKey::new(2).stream();
        for len in [0, 1, 15, 16, 37, 64] {
            let row: Vec<f32> = stream.normals(len, 3.0);
            let wide: Vec<f64> = row.iter().map(|number| f64::from(*number)).collect();
            let start: Vec<f64> = stream.normals(len, 1e5);
            let mut found = [start.clone(), vec![0.0; len]];
            let mut expected = found.clone();
            let ([high, low], [other, other_low]) = (&mut found, &mut expected);
            let (square, lost) = add_row(high, low, &row);
            let (mut total, mut rest) = (0.0, 0.0);
            for number in &wide {
                let (product, lost) = product_exactly::<false>(*number, *number);
                add_one(&mut total, &mut rest, product);
                rest += lost;
            }
            assert_eq!(square + lost, total + rest, "{len} numbers");
            add_wide(other, other_low, &wide);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn products_keep_what_doubles_lose() {
        let (a, b) = (1.0 + 2f64.powi(-40), 1.0 - 2f64.powi(-40));
        // (1 + e)(1 - e) = 1 - e², of which a double keeps the 1.
        for (high, low) in [product_exactly::<true>(a, b), product_exactly::<false>(a, b)] {
            assert_eq!((high, low), (1.0, -(2f64.powi(-80))));
        }
        assert_eq!(product_of((a, 0.0), (b, 0.0)), (1.0, -(2f64.powi(-80))));
        let third = quotient_of((1.0, 0.0), 3.0);
        let back = product_of(third, (3.0, 0.0));
        assert!((back.0 - 1.0 + back.1).abs() < 1e-30, "{back:?}");
        let row: Vec<f64> = (0..37).map(|i| if i % 2 == 0 { a } else { b }).collect();
        // 19 (1 + 2e + e²) + 18 (1 - 2e + e²)
        let (mut high, mut low) = add_row(&mut [0.0; 37], &mut [0.0; 37], &row);
        let rest = 2f64.powi(-39);
        let e = (std::slice::from_mut(&mut high), std::slice::from_mut(&mut low));
        add_wide(e.0, e.1, &[-37.0]);
        add_wide(e.0, e.1, &[-rest]);
        assert_eq!(high + low, 37.0 * 2f64.powi(-80));
        let (mut high, mut low) = ([5.0], [0.0]);
        add_scaled(&mut high, &mut low, (-a, 0.0), (&[b], &[0.0]));
        assert_eq!((high[0], low[0]), (4.0, 2f64.powi(-80)));
        let (mut high, mut low) = ([1.0], [3.0]);
        normalise(&mut high, &mut low);
        assert_eq!((high[0], low[0]), (4.0, 0.0));
    }
}
