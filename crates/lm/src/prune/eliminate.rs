//! Columns of a weight, removed one after another with the least error, while the others are
//! refitted.
//!
//! With second moments G of the inputs and the best weight W, removing columns R and refitting the
//! others in closed form costs `tr(W_R (G⁻¹)_RR⁻¹ W_Rᵀ)`: the optimal brain surgeon (Hassibi and
//! Stork 1993) for whole columns, as ZipLM uses it (Kurtić, Frantar and Alistarh 2023,
//! arXiv:2302.04089). The Nyström form of MoDeGPT (arXiv:2408.09632) has the same refit after a
//! choice by leverage scores, which ignore the weight.

use linwright_compress::FitError;
use linwright_compress::fit::regression::multiply;
#[cfg(test)]
use linwright_compress::fit::regression::subtract;
use linwright_tensor::kernels::gemm::{Write, product};
use linwright_tensor::linalg::solve_spd;
use linwright_tensor::{Mat, MatRef};

/// Steps in which all groups could be removed: several at once in a wide layer.
const STEPS: usize = 256;

/// Removes all but `keep` groups of `size` consecutive columns of `weight` (out, inp), which is the
/// best one for inputs with the positive definite second moments `gram` (inp, inp). The others are
/// refitted, and removed columns are zero.
///
/// # Errors
/// [`FitError::Numerics`] if `gram` is not positive definite.
pub(crate) fn eliminate(
    weight: &Mat<f64>,
    gram: MatRef<'_, f64>,
    size: usize,
    keep: usize,
) -> Result<Mat<f64>, FitError> {
    let groups = weight.cols() / size;
    let mut left: Vec<usize> = (0..groups).collect();
    let mut now = Surgeon::new(weight, gram, size)?;
    let step = groups.div_ceil(STEPS);
    while left.len() > keep {
        let mut costs: Vec<(f64, usize)> = left
            .iter()
            .map(|&group| Ok((now.cost(group)?, group)))
            .collect::<Result<_, FitError>>()?;
        costs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut gone: Vec<usize> =
            costs.iter().take(step.min(left.len() - keep)).map(|(_, group)| *group).collect();
        gone.sort_unstable();
        now.remove(&gone)?;
        left.retain(|group| gone.binary_search(group).is_err());
    }
    refitted(weight, gram, &columns(&left, size))
}

/// The weight that is zero outside `kept` columns and closest to `weight` on inputs with second
/// moments `gram`: `(W G)_S G_SS⁻¹`.
///
/// # Errors
/// [`FitError::Numerics`] if `gram` is not positive definite on the kept columns.
pub(crate) fn refitted(
    weight: &Mat<f64>,
    gram: MatRef<'_, f64>,
    kept: &[usize],
) -> Result<Mat<f64>, FitError> {
    let n = weight.cols();
    let among = Mat::from_fn(n, kept.len(), |i, j| gram.at(i, kept[j]));
    let inner = Mat::from_fn(kept.len(), kept.len(), |i, j| gram.at(kept[i], kept[j]));
    let cross = multiply(weight.view().into(), among.view().into());
    let small = solve_spd(inner.view(), cross.view()).map_err(singular)?;
    let mut full = Mat::zeros(weight.rows(), n);
    for (j, &column) in kept.iter().enumerate() {
        (0..weight.rows()).for_each(|o| *full.at_mut(o, column) = small.at(o, j));
    }
    Ok(full)
}

/// Columns of groups of `size` consecutive ones.
pub(crate) fn columns(groups: &[usize], size: usize) -> Vec<usize> {
    groups.iter().flat_map(|group| group * size..(group + 1) * size).collect()
}

fn singular(error: impl std::fmt::Display) -> FitError {
    FitError::Numerics { what: "second moments of kept features", reason: error.to_string() }
}

/// Weight and inverse second moments with some columns removed.
struct Surgeon {
    /// Wᵀ (inp, out).
    weight: Mat<f64>,
    /// G⁻¹ of the columns that are left (inp, inp).
    inverse: Mat<f64>,
    size: usize,
}

impl Surgeon {
    fn new(weight: &Mat<f64>, gram: MatRef<'_, f64>, size: usize) -> Result<Self, FitError> {
        let inverse = solve_spd(gram, Mat::identity(gram.rows()).view()).map_err(singular)?;
        Ok(Self { weight: weight.transpose(), inverse, size })
    }

    /// The squared error that removing a group adds.
    fn cost(&self, group: usize) -> Result<f64, FitError> {
        let columns = columns(&[group], self.size);
        let inner = self.inner(&columns);
        if self.size == 1 {
            let row = self.weight.row(columns[0]);
            return Ok(row.iter().map(|w| w * w).sum::<f64>() / inner.at(0, 0));
        }
        let out = self.weight.cols();
        let weight = Mat::from_fn(out, self.size, |o, j| self.weight.at(columns[j], o));
        let solved = solve_spd(inner.view(), weight.view()).map_err(singular)?;
        Ok(weight.data().iter().zip(solved.data()).map(|(a, b)| a * b).sum())
    }

    /// Rows and columns of the inverse.
    fn inner(&self, columns: &[usize]) -> Mat<f64> {
        Mat::from_fn(columns.len(), columns.len(), |i, j| self.inverse.at(columns[i], columns[j]))
    }

    /// Removes groups and refits the columns that are left.
    fn remove(&mut self, groups: &[usize]) -> Result<(), FitError> {
        let columns = columns(groups, self.size);
        let rows_of = |of: &Mat<f64>| {
            let rows: Vec<f64> = columns.iter().flat_map(|&c| of.row(c).to_vec()).collect();
            Mat::from_vec(columns.len(), of.cols(), rows)
        };
        let (weight, rows) = (rows_of(&self.weight), rows_of(&self.inverse));
        let across = rows.transpose();
        let solved = solve_spd(self.inner(&columns).view(), across.view()).map_err(singular)?;
        let minus = |from: &mut Mat<f64>, right: &Mat<f64>| {
            product(-1.0, solved.view().into(), right.view().into(), from.view_mut(), Write::Add);
        };
        minus(&mut self.weight, &weight);
        minus(&mut self.inverse, &rows);
        // What rounding left of the removed columns must not reach the others.
        for &column in &columns {
            self.weight.row_mut(column).fill(0.0);
            self.inverse.row_mut(column).fill(0.0);
            (0..self.inverse.rows()).for_each(|row| *self.inverse.at_mut(row, column) = 0.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    fn random(rows: usize, cols: usize, name: &str) -> Mat<f64> {
        let mut stream = RngKey::new(7).fold(name).stream();
        Mat::from_fn(rows, cols, |_, _| stream.normal())
    }

    fn gram(n: usize) -> Mat<f64> {
        let x = random(3 * n, n, "inputs");
        multiply(linwright_tensor::kernels::gemm::Arg::Transposed(x.view()), x.view().into())
    }

    fn error(weight: &Mat<f64>, best: &Mat<f64>, gram: &Mat<f64>) -> f64 {
        let mut away = weight.clone();
        subtract(&mut away, best);
        let through = multiply(away.view().into(), gram.view().into());
        away.data().iter().zip(through.data()).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn the_cost_of_a_group_is_the_error_of_the_refit_without_it() {
        let (weight, gram) = (random(5, 8, "weight"), gram(8));
        for size in [1, 2] {
            let surgeon = Surgeon::new(&weight, gram.view(), size).expect("positive definite");
            for group in 0..8 / size {
                let kept: Vec<usize> = (0..8).filter(|column| column / size != group).collect();
                let without = refitted(&weight, gram.view(), &kept).expect("positive definite");
                let expected = error(&without, &weight, &gram);
                let found = surgeon.cost(group).expect("positive definite");
                assert!((found - expected).abs() < 1e-9 * expected, "{found}, {expected}");
            }
        }
    }

    #[test]
    fn every_step_removes_the_group_that_costs_least_after_the_steps_before() {
        let (weight, gram) = (random(4, 6, "weight"), gram(6));
        let mut left: Vec<usize> = (0..6).collect();
        while left.len() > 2 {
            let without = |gone: usize| {
                let kept: Vec<usize> = left.iter().copied().filter(|c| *c != gone).collect();
                let fit = refitted(&weight, gram.view(), &kept).expect("positive definite");
                (error(&fit, &weight, &gram), gone)
            };
            let best = left.iter().map(|&gone| without(gone));
            let best = best.min_by(|a, b| a.0.total_cmp(&b.0)).expect("some are left");
            left.retain(|column| *column != best.1);
            let found = eliminate(&weight, gram.view(), 1, left.len()).expect("fits");
            let stays = |column: &usize| (0..4).any(|o| found.at(o, *column) != 0.0);
            assert_eq!((0..6).filter(stays).collect::<Vec<_>>(), left);
            assert!((error(&found, &weight, &gram) - best.0).abs() < 1e-9 * best.0);
        }
    }

    #[test]
    fn nothing_is_removed_if_everything_is_kept() {
        let (weight, gram) = (random(4, 6, "weight"), gram(6));
        let found = eliminate(&weight, gram.view(), 2, 3).expect("fits");
        assert!(error(&found, &weight, &gram) < 1e-12);
    }
}
