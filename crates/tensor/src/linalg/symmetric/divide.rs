//! Divide and conquer: eigenvalues and eigenvectors of a tridiagonal matrix.
//!
//! Cuppen's method (A divide and conquer method for the symmetric tridiagonal eigenproblem, Numer.
//! Math. 36, 1981): the matrix is two halves plus a rank-one matrix that joins them, which in the
//! eigenvectors of the halves reads `diag(d) + ρ z zᵀ`. Where z is zero, or two values are equal,
//! up to rounding, an eigenvector stays unchanged (deflation, after Dongarra and Sorensen, SIAM J.
//! Sci. Stat. Comput. 8, 1987); the others follow from the roots of the secular equation. Their
//! vectors are computed from the z for which these roots are exact instead of the given z, and are
//! orthogonal to working precision however close the roots are (Gu and Eisenstat, SIAM J. Matrix
//! Anal. Appl. 16, 1995).
//!
//! Eigenvectors are rows, so that selecting, rotating and copying them is contiguous. Nearly all
//! work is in the products of the last merge, which run in the requested precision; all else is
//! `f64`.

use super::tridiagonal::Tridiagonal;
use super::whole;
use crate::kernels::gemm::{Arg, Write, product};
use crate::kernels::instructions::vectorised;
use crate::linalg::NoConvergence;
use crate::linalg::secular::{SecularEquation, SecularRoot};
use crate::{Mat, MatMut, MatRef, Scalar, parallel};

/// Largest matrix that is not divided.
const LEAF: usize = 32;
/// Numbers below this are negligible next to one, and their inverses may overflow.
const LEAST: f64 = 1e-290;
/// Roots, or entries of z, per work item.
const PIECE: usize = 32;

/// Eigenvalues, ascending, and the rows of their eigenvectors.
pub(super) struct Parts<T> {
    pub(super) values: Vec<f64>,
    /// Row of `vectors` for each value.
    pub(super) order: Vec<usize>,
    /// Eigenvectors as rows.
    pub(super) vectors: Mat<T>,
}

/// Eigenvectors of a tridiagonal matrix whose entries are at most about one.
pub(super) fn eigenvectors<T: Scalar>(matrix: Tridiagonal) -> Result<Parts<T>, NoConvergence> {
    let Tridiagonal { mut diagonal, mut beside } = matrix;
    for number in diagonal.iter_mut().chain(&mut beside).filter(|number| number.abs() < LEAST) {
        *number = 0.0;
    }
    divided(&mut diagonal, &beside)
}

fn divided<T: Scalar>(diagonal: &mut [f64], beside: &[f64]) -> Result<Parts<T>, NoConvergence> {
    let n = diagonal.len();
    if n <= LEAF {
        return leaf(diagonal, beside);
    }
    let (upper, lower) = diagonal.split_at_mut(n / 2);
    let (above, rest) = beside.split_at(upper.len() - 1);
    let (join, below) = (rest[0], &rest[1..]);
    // Minus the diagonal contribution of the rank-one matrix.
    upper[above.len()] -= join.abs();
    lower[0] -= join.abs();
    let (upper, lower) =
        parallel::join(|| divided::<f64>(upper, above), || divided::<f64>(lower, below));
    merged(upper?, lower?, join)
}

fn leaf<T: Scalar>(diagonal: &[f64], beside: &[f64]) -> Result<Parts<T>, NoConvergence> {
    let n = diagonal.len();
    let matrix = Mat::from_fn(n, n, |i, j| match i.abs_diff(j) {
        0 => diagonal[i],
        1 => beside[i.min(j)],
        _ => 0.0,
    });
    let whole = whole(matrix.view())?;
    Ok(Parts {
        values: whole.values,
        order: (0..n).collect(),
        vectors: whole.vectors.transpose().cast(),
    })
}

/// An eigenvector of the halves: its value, its entry of z, and its two parts, which are empty if
/// zero.
#[derive(Default)]
struct Direction {
    value: f64,
    z: f64,
    halves: [Vec<f64>; 2],
}

impl Direction {
    /// Whether it belongs to the upper half only (0), to both (1) or to the lower half only (2).
    fn kind(&self) -> usize {
        match &self.halves {
            [_, lower] if lower.is_empty() => 0,
            [upper, _] if upper.is_empty() => 2,
            _ => 1,
        }
    }

    /// Rotation of two directions by an angle, as a matrix (c, s; -s, c).
    fn turn(&mut self, other: &mut Self, c: f64, s: f64) {
        for (a, b) in self.halves.iter_mut().zip(&mut other.halves) {
            let len = a.len().max(b.len());
            a.resize(len, 0.0);
            b.resize(len, 0.0);
            for (a, b) in a.iter_mut().zip(b) {
                (*a, *b) = (c * *a + s * *b, c * *b - s * *a);
            }
        }
    }
}

/// Merges the halves; `join` is the off-diagonal entry between them.
fn merged<T: Scalar>(
    upper: Parts<f64>,
    lower: Parts<f64>,
    join: f64,
) -> Result<Parts<T>, NoConvergence> {
    let sides = [upper.values.len(), lower.values.len()];
    let n = sides[0] + sides[1];
    // z has norm one.
    let rho = 2.0 * join.abs();
    let (kept, settled) = deflated(directions(upper, lower, join), rho);
    let poles: Vec<f64> = kept.iter().map(|direction| direction.value).collect();
    let weights: Vec<f64> = kept.iter().map(|direction| rho * direction.z * direction.z).collect();
    debug_assert!(poles.is_sorted_by(|a, b| a < b), "poles rise");
    let (roots, differences) = roots(&poles, &weights)?;
    let z = exact_z(&poles, &kept, &differences);
    // Vectors of the upper half only, of both, and of the lower half only: each half of the result
    // needs a contiguous range.
    let mut places: Vec<usize> = (0..kept.len()).collect();
    places.sort_by_key(|place| kept[*place].kind());
    let turns = turns(&z, differences, &places);

    let mut vectors = Mat::zeros(n, n);
    combine(&kept, &places, sides, turns.view(), vectors.view_mut());
    for (at, direction) in settled.iter().enumerate() {
        let (upper, lower) = vectors.row_mut(kept.len() + at).split_at_mut(sides[0]);
        round(&direction.halves[0], upper);
        round(&direction.halves[1], lower);
    }
    let values: Vec<f64> = roots
        .iter()
        .map(|root| poles[root.pole] + root.offset)
        .chain(settled.iter().map(|direction| direction.value))
        .collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    Ok(Parts { values: order.iter().map(|row| values[*row]).collect(), order, vectors })
}

fn round<T: Scalar>(from: &[f64], to: &mut [T]) {
    from.iter().zip(to).for_each(|(from, to)| *to = T::from_f64(*from));
}

/// The eigenvectors of both halves, sorted by value.
fn directions(upper: Parts<f64>, lower: Parts<f64>, join: f64) -> Vec<Direction> {
    let half = std::f64::consts::FRAC_1_SQRT_2;
    let of_half = |parts: Parts<f64>, side: usize| -> Vec<Direction> {
        let pairs = parts.values.iter().zip(&parts.order);
        let direction = |(value, row): (&f64, &usize)| {
            let row = parts.vectors.row(*row);
            let z = if side == 0 { row[row.len() - 1] } else { row[0] * join.signum() };
            let mut halves = [Vec::new(), Vec::new()];
            halves[side] = row.to_vec();
            Direction { value: *value, z: half * z, halves }
        };
        pairs.map(direction).collect()
    };
    let mut directions = of_half(upper, 0);
    directions.extend(of_half(lower, 1));
    directions.sort_by(|a, b| a.value.total_cmp(&b.value));
    directions
}

/// Deflation: the directions that change, and those that are already eigenvectors of the whole.
fn deflated(directions: Vec<Direction>, rho: f64) -> (Vec<Direction>, Vec<Direction>) {
    let largest = |of: fn(&Direction) -> f64| {
        directions.iter().fold(0.0, |most: f64, direction| most.max(of(direction).abs()))
    };
    let negligible = 8.0
        * f64::EPSILON
        * largest(|direction| direction.value).max(largest(|direction| direction.z));
    let (mut kept, mut settled): (Vec<Direction>, Vec<Direction>) = (Vec::new(), Vec::new());
    for mut direction in directions {
        if rho * direction.z.abs() <= negligible {
            settled.push(direction);
            continue;
        }
        if let Some(before) = kept.last_mut() {
            let length = direction.z.hypot(before.z);
            let (c, s) = (direction.z / length, -before.z / length);
            let apart = direction.value - before.value;
            if (apart * c * s).abs() <= negligible {
                // The whole entry of z moves to one of the two; the other is deflated.
                before.turn(&mut direction, c, s);
                let values = (before.value, direction.value);
                // Weighted means of both, which rounding must not reorder.
                let mean = |c: f64, s: f64| {
                    (values.0 * c * c + values.1 * s * s).clamp(values.0, values.1)
                };
                before.value = mean(c, s);
                direction.value = mean(s, c);
                (before.z, direction.z) = (0.0, length);
                settled.push(std::mem::replace(before, direction));
                continue;
            }
        }
        kept.push(direction);
    }
    (kept, settled)
}

/// All roots, and as rows the differences of all poles to each.
fn roots(poles: &[f64], weights: &[f64]) -> Result<(Vec<SecularRoot>, Mat<f64>), NoConvergence> {
    // The last deflation may leave no direction.
    let count = poles.len();
    if count == 0 {
        return Ok((Vec::new(), Mat::zeros(0, 0)));
    }
    let equation = SecularEquation::rank_one(poles, weights);
    let mut differences = Mat::zeros(count, count);
    let pieces: Vec<_> = differences.view_mut().row_blocks(PIECE);
    let roots = parallel::map(pieces, |piece, mut rows| {
        let first = piece * PIECE + 1;
        let roots = equation.roots(first..first + rows.rows())?;
        for (row, root) in roots.iter().enumerate() {
            let origin = poles[root.pole];
            for (to, pole) in rows.row_mut(row).iter_mut().zip(poles) {
                *to = (pole - origin) - root.offset;
            }
        }
        Ok(roots)
    });
    let roots: Result<Vec<Vec<SecularRoot>>, NoConvergence> = roots.into_iter().collect();
    Ok((roots?.concat(), differences))
}

/// The z, up to a factor, for which the computed roots are exact (Löwner's formula), with the signs
/// of the given one.
fn exact_z(poles: &[f64], kept: &[Direction], differences: &Mat<f64>) -> Vec<f64> {
    let starts: Vec<usize> = (0..poles.len()).step_by(PIECE).collect();
    let pieces = parallel::map(starts, |_, start| {
        let columns = start..poles.len().min(start + PIECE);
        let mut squares = vec![-1.0; columns.len()];
        for (i, pole) in poles.iter().enumerate() {
            let row = &differences.row(i)[columns.clone()];
            // The diagonal factor has no pole to divide by.
            let diagonal =
                columns.contains(&i).then(|| (i - start, squares[i - start] * row[i - start]));
            multiply_ratios(&mut squares, row, &poles[columns.clone()], *pole);
            if let Some((at, product)) = diagonal {
                squares[at] = product;
            }
        }
        squares
    });
    let squares = pieces.into_iter().flatten();
    squares.zip(kept).map(|(square, given)| square.max(0.0).sqrt().copysign(given.z)).collect()
}

vectorised! {
    fn multiply_ratios<const FUSED: bool>(into: &mut [f64], above: &[f64], poles: &[f64], pole: f64) {
        for ((into, above), other) in into.iter_mut().zip(above).zip(poles) {
            *into *= above / (other - pole);
        }
    }
}

/// The eigenvectors of `diag(d) + ρ z zᵀ` as rows, with entries in the order of `places`.
fn turns<T: Scalar>(z: &[f64], mut differences: Mat<f64>, places: &[usize]) -> Mat<T> {
    let mut turns: Mat<T> = Mat::zeros(z.len(), z.len());
    let rows = turns.view_mut().row_blocks(PIECE);
    let differences = differences.view_mut().row_blocks(PIECE);
    parallel::for_each(rows.into_iter().zip(differences).collect(), |_, (mut rows, mut from)| {
        for i in 0..rows.rows() {
            let from = from.row_mut(i);
            from.iter_mut().zip(z).for_each(|(number, z)| *number = z / *number);
            let length = from.iter().map(|number| number * number).sum::<f64>().sqrt();
            for (to, place) in rows.row_mut(i).iter_mut().zip(places) {
                *to = T::from_f64(from[*place] / length);
            }
        }
    });
    turns
}

/// The eigenvectors of the changed directions, as the first rows of `vectors`.
fn combine<T: Scalar>(
    kept: &[Direction],
    places: &[usize],
    sides: [usize; 2],
    turns: MatRef<'_, T>,
    vectors: MatMut<'_, T>,
) {
    let (mut rows, _) = vectors.split_rows(kept.len());
    for (side, first) in [(0, 0), (1, sides[0])] {
        let with = |place: &&usize| !kept[**place].halves[side].is_empty();
        let start = places.iter().take_while(|place| !with(place)).count();
        let chosen: Vec<usize> = places.iter().filter(with).copied().collect();
        let mut old = Mat::zeros(chosen.len(), sides[side]);
        for (row, place) in chosen.iter().enumerate() {
            round(&kept[*place].halves[side], old.row_mut(row));
        }
        let turns = turns.columns(start, chosen.len());
        let into = rows.reborrow().columns(first, sides[side]);
        product(T::ONE, Arg::Plain(turns), Arg::Plain(old.view()), into, Write::Set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest deviation of the rows from orthonormality, and residual `T q - w q`.
    fn errors(matrix: &Tridiagonal, parts: &Parts<f64>) -> (f64, f64) {
        let n = matrix.diagonal.len();
        let mut worst = (0.0f64, 0.0f64);
        for (value, row) in parts.values.iter().zip(&parts.order) {
            let q = parts.vectors.row(*row);
            for other in &parts.order {
                let pairs = parts.vectors.row(*other).iter().zip(q);
                let inner: f64 = pairs.map(|(a, b)| a * b).sum();
                worst.0 = worst.0.max((inner - if other == row { 1.0 } else { 0.0 }).abs());
            }
            for i in 0..n {
                let before = if i > 0 { matrix.beside[i - 1] * q[i - 1] } else { 0.0 };
                let after = if i + 1 < n { matrix.beside[i] * q[i + 1] } else { 0.0 };
                let image = before + matrix.diagonal[i] * q[i] + after;
                worst.1 = worst.1.max((image - value * q[i]).abs());
            }
        }
        worst
    }

    fn check(diagonal: Vec<f64>, beside: Vec<f64>, what: &str) {
        let given = Tridiagonal { diagonal: diagonal.clone(), beside: beside.clone() };
        let parts = eigenvectors::<f64>(Tridiagonal { diagonal, beside }).expect(what);
        assert!(parts.values.is_sorted(), "{what}");
        let (orthogonal, equation) = errors(&given, &parts);
        assert!(orthogonal < 2e-14 && equation < 2e-14, "{what}: {orthogonal:e} {equation:e}");
    }

    #[test]
    fn halves_that_need_not_be_joined_and_halves_that_are_alike() {
        let n = 131;
        let line = |i: usize| i as f64 / n as f64;
        check(vec![1.0; n], vec![0.0; n - 1], "nothing beside the diagonal");
        check((0..n).map(line).collect(), vec![0.0; n - 1], "a diagonal");
        check(vec![0.5; n], vec![0.25; n - 1], "one number and another beside it");
        check(vec![0.0; n], vec![-1.0; n - 1], "nothing on the diagonal");
        let mut one = vec![0.0; n - 1];
        one[n / 2 - 1] = 0.7;
        check((0..n).map(line).collect(), one.clone(), "one number between the halves");
        check(vec![1.0; n], one, "one number between halves that are alike");
        for glue in [1e-1, 1e-4, 1e-8, 1e-12, 1e-15] {
            let diagonal = (0..n).map(|i| ((i % 21) as f64 - 10.0).abs() / 10.0).collect();
            let beside = (1..n).map(|i| if i % 21 == 0 { glue } else { 0.1 }).collect();
            check(diagonal, beside, &format!("Wilkinson, glued by {glue:e}"));
        }
        let falling: Vec<f64> = (0..n).map(|i| 0.5f64.powi(i as i32)).collect();
        check(falling.clone(), falling[1..].to_vec(), "falling");
        let rising: Vec<f64> = falling.iter().rev().copied().collect();
        check(rising.clone(), rising[1..].to_vec(), "rising");
    }

    #[test]
    fn numbers_that_are_not_normal_count_as_zero() {
        for tiny in [5e-324, 1e-310, 1e-300] {
            let half = |i: usize| if i < 64 { 1.0 } else { tiny };
            check((0..128).map(half).collect(), vec![0.0; 127], &format!("{tiny:e}"));
            check(vec![tiny; 128], vec![tiny; 127], &format!("{tiny:e} all"));
        }
    }
}
