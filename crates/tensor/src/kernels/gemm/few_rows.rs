//! Products of few rows with weights, as in decoding: every number of a weight is read once,
//! sequentially, and nothing is packed.

use super::{Product, Weight, Write};
use crate::kernels::instructions::vectorised;
use crate::kernels::lanes::{LANES, multiply_add};
use crate::kernels::widen::{Bf16, F16, Full, Held};
use crate::{HalfType, MatRef, parallel};
use std::ops::Range;

/// Largest number of rows: with more, tiles read the weight less often.
pub(super) const MOST: usize = 4;
/// Rows of the weight processed together, so that additions do not wait for each other.
const SIDE_BY_SIDE: usize = 4;
/// Numbers of the weight per work item.
const PIECE: usize = 1 << 16;
/// Size of weights up to which the calling thread works alone.
pub(super) const SERIAL_LIMIT: usize = 1 << 17;

/// `c = alpha x wᵀ` or `c += alpha x wᵀ` for each weight w (out, inp), of the same `x` (rows, inp);
/// on the calling thread if `alone`.
pub(super) fn products(
    alpha: f32,
    x: MatRef<'_, f32>,
    into: &mut [Product<'_, '_>],
    write: Write,
    alone: bool,
) {
    let high = (PIECE / x.cols().max(1)).next_multiple_of(SIDE_BY_SIDE);
    let pieces: Vec<(usize, Range<usize>)> = into
        .iter()
        .enumerate()
        .flat_map(|(index, (w, _))| {
            let outputs = w.rows();
            let piece = move |start: usize| (index, start..(start + high).min(outputs));
            (0..outputs).step_by(high).map(piece)
        })
        .collect();
    let piece = |(index, outputs): (usize, Range<usize>)| sums(x, into[index].0, outputs);
    let sums: Vec<Vec<f32>> = match alone {
        true => pieces.iter().cloned().map(piece).collect(),
        false => parallel::map(pieces.clone(), |_, of| piece(of)),
    };
    for ((index, outputs), sums) in pieces.into_iter().zip(sums) {
        let c = &mut into[index].1;
        for (i, sums) in sums.chunks_exact(outputs.len()).enumerate() {
            for (c, sum) in c.row_mut(i)[outputs.clone()].iter_mut().zip(sums) {
                *c = if write == Write::Add { *c + alpha * sum } else { alpha * sum };
            }
        }
    }
}

/// Inner products (rows, outputs) of the rows of `x` with a range of rows of a weight.
fn sums(x: MatRef<'_, f32>, w: Weight<'_, f32>, outputs: Range<usize>) -> Vec<f32> {
    match w {
        Weight::Full(w) => sums_of(Full, x, |out| w.row(out), outputs),
        Weight::Half(w) => match w.half_type() {
            HalfType::Bf16 => sums_of(Bf16, x, |out| w.row(out), outputs),
            HalfType::F16 => sums_of(F16, x, |out| w.row(out), outputs),
        },
    }
}

fn sums_of<'w, H: Held>(
    of: H,
    x: MatRef<'_, f32>,
    row: impl Fn(usize) -> &'w [H::Bits],
    outputs: Range<usize>,
) -> Vec<f32> {
    let mut sums = vec![0.0; x.rows() * outputs.len()];
    for (at, out) in outputs.clone().step_by(SIDE_BY_SIDE).enumerate() {
        // Missing rows repeat the last one; their sums are ignored.
        let rows = std::array::from_fn(|k| row((out + k).min(outputs.end - 1)));
        for (x, sums) in (0..x.rows()).map(|i| x.row(i)).zip(sums.chunks_exact_mut(outputs.len())) {
            let products = dots(of, x, rows);
            sums[at * SIDE_BY_SIDE..].iter_mut().zip(products).for_each(|(s, p)| *s = p);
        }
    }
    sums
}

vectorised! {
    /// Inner products of one row with a few others.
    fn dots<const FUSED: bool, H: Held>(
        _of: H,
        x: &[f32],
        w: [&[H::Bits]; SIDE_BY_SIDE],
    ) -> [f32; SIDE_BY_SIDE] {
        let (x_groups, x_end) = x.as_chunks::<LANES>();
        let groups = w.map(|row| &row.as_chunks::<LANES>().0[..x_groups.len()]);
        let mut lanes = [[0.0f32; LANES]; SIDE_BY_SIDE];
        let next = SIDE_BY_SIDE * x.len();
        for at in 0..x_groups.len() {
            let x = x_groups[at];
            for k in 0..SIDE_BY_SIDE {
                // For short rows the hardware prefetcher reacts too late.
                fetch(w[k].as_ptr().wrapping_add(next + at * LANES));
                let w = groups[k][at].map(H::number);
                for lane in 0..LANES {
                    lanes[k][lane] = multiply_add::<FUSED>(x[lane], w[lane], lanes[k][lane]);
                }
            }
        }
        let mut sums = [0.0f32; SIDE_BY_SIDE];
        for k in 0..SIDE_BY_SIDE {
            let end = &w[k][x.len() - x_end.len()..];
            for lane in 0..x_end.len() {
                let w = H::number(end[lane]);
                lanes[k][lane] = multiply_add::<FUSED>(x_end[lane], w, lanes[k][lane]);
            }
            let mut width = LANES / 2;
            while width > 0 {
                for lane in 0..width {
                    lanes[k][lane] += lanes[k][lane + width];
                }
                width /= 2;
            }
            sums[k] = lanes[k][0];
        }
        sums
    }
}

/// Prefetches memory.
#[inline(always)]
#[allow(unsafe_code, reason = "an address that is only fetched need not exist")]
fn fetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: fetching reads nothing, so that any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;
    use crate::{Halves, Mat};

    fn check(x: &Mat<f32>, weights: &[(Weight<'_, f32>, Mat<f32>)], alone: bool, write: Write) {
        let before = if write == Write::Add { 0.25 } else { 0.0 };
        let rows = x.rows();
        let mut results: Vec<Mat<f32>> =
            weights.iter().map(|(_, w)| Mat::from_fn(rows, w.rows(), |_, _| 0.25)).collect();
        let mut into: Vec<_> =
            weights.iter().map(|(w, _)| *w).zip(results.iter_mut().map(Mat::view_mut)).collect();
        products(0.5, x.view(), &mut into, write, alone);
        for ((_, w), c) in weights.iter().zip(&results) {
            for (i, j) in (0..rows).flat_map(|i| (0..w.rows()).map(move |j| (i, j))) {
                let products = x.row(i).iter().zip(w.row(j));
                let sum: f64 = products.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                let error = (f64::from(c.at(i, j)) - before - 0.5 * sum).abs();
                assert!(error < 1e-5 * (1.0 + (x.cols() as f64).sqrt()), "{i}, {j}: {error}");
            }
        }
    }

    #[test]
    fn equals_its_naive_twin_whatever_the_shape_and_the_type() {
        for (rows, inp, out) in [(1, 1, 1), (1, 16, 4), (2, 37, 5), (4, 515, 700), (3, 9, 2)] {
            let (x, w, v): (_, Mat<f32>, _) =
                (random(rows, inp, 1), random(out, inp, 2), random(out + 3, inp, 3));
            let halves = HalfType::ALL.map(|of| Halves::rounded(of, &w));
            let mut weights = vec![(Weight::Full(w.view()), w.clone())];
            weights.extend(halves.iter().map(|half| (Weight::Half(half), half.to_mat())));
            weights.push((Weight::Full(v.view()), v.clone()));
            for (alone, write) in [(true, Write::Set), (false, Write::Set), (false, Write::Add)] {
                check(&x, &weights, alone, write);
            }
        }
    }

    /// Neither other products of the same call nor the held type of a weight changes a bit.
    #[test]
    fn a_weight_in_16_bits_gives_the_bits_of_the_same_in_32() {
        let (x, w): (Mat<f32>, Mat<f32>) = (random(3, 130, 1), random(90, 130, 2));
        for half in HalfType::ALL.map(|of| Halves::rounded(of, &w)) {
            let wide = half.to_mat();
            let (mut a, mut b) = (Mat::zeros(3, 90), Mat::zeros(3, 90));
            let mut both =
                [(Weight::Half(&half), a.view_mut()), (Weight::Full(wide.view()), b.view_mut())];
            products(1.0, x.view(), &mut both, Write::Set, false);
            assert_eq!(a, b);
        }
    }
}
