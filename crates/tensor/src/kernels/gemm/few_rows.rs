//! Products of a few rows with a weight, as decoding makes them: every number of the weight is read
//! once, in the order in which it lies, and nothing is packed.

use super::Write;
use crate::kernels::instructions::vectorised;
use crate::kernels::lanes::{LANES, multiply_add};
use crate::parallel;
use crate::{MatMut, MatRef};

/// Most rows that this is worth while for: with more, tiles read the weight less often.
pub(super) const MOST: usize = 4;
/// Rows of the weight that go side by side, so that additions do not wait for each other.
const SIDE_BY_SIDE: usize = 4;
/// Numbers of the weight that one piece of work reads.
const PIECE: usize = 1 << 16;

/// `c = alpha x wᵀ` or `c += alpha x wᵀ`, of `x` (rows, inp) and `w` (out, inp); on the calling
/// thread if `alone`.
pub(super) fn product(
    alpha: f32,
    (x, w): (MatRef<'_, f32>, MatRef<'_, f32>),
    (mut c, write): (MatMut<'_, f32>, Write),
    alone: bool,
) {
    let high = (PIECE / w.cols().max(1)).next_multiple_of(SIDE_BY_SIDE);
    let starts: Vec<usize> = (0..w.rows()).step_by(high).collect();
    let piece = |start: usize| {
        let outputs = start..(start + high).min(w.rows());
        let mut sums = vec![0.0; x.rows() * outputs.len()];
        for (at, out) in outputs.clone().step_by(SIDE_BY_SIDE).enumerate() {
            // Rows beyond the last are the last once more, and their sums not used.
            let rows = std::array::from_fn(|k| w.row((out + k).min(outputs.end - 1)));
            for i in 0..x.rows() {
                let row = &mut sums[i * outputs.len()..(i + 1) * outputs.len()];
                let products = dots(x.row(i), rows);
                row[at * SIDE_BY_SIDE..].iter_mut().zip(products).for_each(|(s, p)| *s = p);
            }
        }
        sums
    };
    let sums = match alone {
        true => starts.iter().map(|&start| piece(start)).collect(),
        false => parallel::map(starts.clone(), |_, start| piece(start)),
    };
    for (start, sums) in starts.into_iter().zip(sums) {
        let wide = sums.len() / x.rows().max(1);
        for (i, sums) in sums.chunks_exact(wide.max(1)).enumerate() {
            for (c, sum) in c.row_mut(i)[start..start + wide].iter_mut().zip(sums) {
                *c = if write == Write::Add { *c + alpha * sum } else { alpha * sum };
            }
        }
    }
}

vectorised! {
    /// Inner products of one row with a few others.
    fn dots<const FUSED: bool>(x: &[f32], w: [&[f32]; SIDE_BY_SIDE]) -> [f32; SIDE_BY_SIDE] {
        let (x_groups, x_end) = x.as_chunks::<LANES>();
        let groups = w.map(|row| &row.as_chunks::<LANES>().0[..x_groups.len()]);
        let mut lanes = [[0.0f32; LANES]; SIDE_BY_SIDE];
        for at in 0..x_groups.len() {
            let x = x_groups[at];
            for k in 0..SIDE_BY_SIDE {
                let w = groups[k][at];
                for lane in 0..LANES {
                    lanes[k][lane] = multiply_add::<FUSED>(x[lane], w[lane], lanes[k][lane]);
                }
            }
        }
        let mut sums = [0.0f32; SIDE_BY_SIDE];
        for k in 0..SIDE_BY_SIDE {
            let end = &w[k][x.len() - x_end.len()..];
            for lane in 0..x_end.len() {
                lanes[k][lane] = multiply_add::<FUSED>(x_end[lane], end[lane], lanes[k][lane]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mat, RngKey};

    #[test]
    fn equals_its_naive_twin_whatever_the_shape() {
        for (rows, inp, out) in [(1, 1, 1), (1, 16, 4), (2, 37, 5), (4, 515, 700), (3, 9, 2)] {
            let random = |name: &str, rows, cols| {
                let numbers = RngKey::new(1).fold(name).stream().normals::<f32>(rows * cols, 1.0);
                Mat::from_vec(rows, cols, numbers)
            };
            let (x, w) = (random("x", rows, inp), random("w", out, inp));
            for (alone, write) in [(true, Write::Set), (false, Write::Set), (false, Write::Add)] {
                let mut c = Mat::from_fn(rows, out, |_, _| 0.25);
                product(0.5, (x.view(), w.view()), (c.view_mut(), write), alone);
                let before = if write == Write::Add { 0.25 } else { 0.0 };
                for i in 0..rows {
                    for j in 0..out {
                        let products = x.row(i).iter().zip(w.row(j));
                        let sum: f64 = products.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                        let error = (f64::from(c.at(i, j)) - before - 0.5 * sum).abs();
                        assert!(error < 1e-5 * (1.0 + (inp as f64).sqrt()), "{i}, {j}: {error}");
                    }
                }
            }
        }
    }
}
