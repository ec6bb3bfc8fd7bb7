//! Monarch maps: a rank-one decomposition of every block of the permuted weight.
//!
//! With q = out/b, entry (i q + j, k p + c) of `P L Pᵀ R` is `L_j[i,k] R_k[j,c]`: for every j and k
//! a block (b, p) of rank one, p = inp/b, and no two blocks share a parameter. For a weight, the
//! best map comes from the leading singular pairs of all blocks. With moments, alternating least
//! squares start from that of the least-squares map: L given R by b x b systems, then the blocks of
//! R in turn given all others, with `S_kk` for all rows of a block at once. A sweep costs out · inp
//! · p and never increases the error.
//!
//! Source: Dao et al. 2022, arXiv:2204.00595, algorithm 1; the alternation is our own.

use super::alternate::alternate;
use super::kind::{Effort, KindFit, LeastSquares};
use super::regression::{Regression, multiply, numerics, solve_normal};
use super::{Context, Found, Procedure, assemble, work};
use crate::FitError;
use linwright_ops::{MonarchSpec, Op, OpSpec};
use linwright_tensor::linalg::svd;
use linwright_tensor::{Mat, RngKey};

/// L (q · b, b) and R (b · q, p).
#[derive(Clone)]
struct Factors {
    /// b.
    blocks: usize,
    left: Mat<f64>,
    right: Mat<f64>,
}

impl KindFit for MonarchSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        fit(problem.spec, problem.regression, problem.from, context)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        let ((out, inp), error) = (work::sides(effort.shape), effort.error());
        let OpSpec::Monarch(options) = effort.spec.cost(effort.shape)?.spec else {
            return Ok(error);
        };
        let blocks = options.blocks.unwrap_or(1) as f64;
        let (high, wide) = (out / blocks, inp / blocks);
        // Blocks are solved separately, and entries are reordered between the factors: small work
        // that is slow per multiply-add, and grows less than the products.
        let alone = blocks * work::eigen(wide) + high * work::eigen(blocks) + 30.0 * out * inp;
        let sweep = 3.0 * out * inp * wide + error + work::SMALL * alone;
        let start = work::SMALL * high * blocks * work::singular(blocks, wide);
        Ok(start + effort.iterations * sweep)
    }
}

fn fit(
    spec: &OpSpec,
    regression: &Regression<'_>,
    from: Option<&Op<f64>>,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    let template = spec.random::<f64>(regression.shape(), RngKey::new(0))?;
    let blocks = template.map().params()[1].shape[0];
    let mut factors = project(&regression.least_squares(), blocks)?;
    let mut error = regression.error(&factors.dense());
    let (mut procedure, mut iterations) = (Procedure::Closed, 0);
    if regression.second().is_some() {
        procedure = Procedure::Alternating;
        if let Some(op) = from {
            let given = factors.with(op);
            let of_given = regression.error(&given.dense());
            if of_given < error {
                (factors, error) = (given, of_given);
            }
        }
        let step = |factors: &mut Factors, _: &mut Context<'_>| {
            factors.fit_left(regression)?;
            for k in 0..blocks {
                factors.fit_right(regression, k)?;
            }
            Ok(regression.error(&factors.dense()))
        };
        (factors, error, iterations) =
            alternate(factors, error, regression.power(), context, step)?;
    }
    let op = assemble(spec, regression.shape(), &[factors.left.data(), factors.right.data()])?;
    Ok(Found { op, error, procedure, iterations })
}

/// The nearest Monarch map with `blocks` blocks.
fn project(w: &Mat<f64>, blocks: usize) -> Result<Factors, FitError> {
    let (q, p) = (w.rows() / blocks, w.cols() / blocks);
    let mut left = Mat::zeros(q * blocks, blocks);
    let mut right = Mat::zeros(blocks * q, p);
    for j in 0..q {
        for k in 0..blocks {
            let block = Mat::from_fn(blocks, p, |i, c| w.at(i * q + j, k * p + c));
            let found = svd(block.view()).map_err(numerics("block of a Monarch map"))?;
            let root = found.s[0].sqrt();
            (0..blocks).for_each(|i| *left.at_mut(j * blocks + i, k) = root * found.u.at(i, 0));
            let row = right.row_mut(k * q + j).iter_mut();
            row.zip(found.vt.row(0)).for_each(|(to, v)| *to = root * v);
        }
    }
    Ok(Factors { blocks, left, right })
}

impl Factors {
    /// q and p.
    fn sizes(&self) -> (usize, usize) {
        (self.right.rows() / self.blocks, self.right.cols())
    }

    /// Copies the factors of an operator of the same shape.
    fn with(&self, op: &Op<f64>) -> Self {
        let params = op.map().params();
        let like = |mat: &Mat<f64>, k: usize| {
            Mat::from_vec(mat.rows(), mat.cols(), params[k].values.to_vec())
        };
        Self { blocks: self.blocks, left: like(&self.left, 0), right: like(&self.right, 1) }
    }

    fn dense(&self) -> Mat<f64> {
        let (b, (q, p)) = (self.blocks, self.sizes());
        Mat::from_fn(b * q, b * p, |row, col| {
            let (i, j, k, c) = (row / q, row % q, col / p, col % p);
            self.left.at(j * b + i, k) * self.right.at(k * q + j, c)
        })
    }

    /// `Σ_c a[c] R_k[j,c]`.
    fn along(&self, a: &[f64], k: usize, j: usize) -> f64 {
        let row = self.right.row(k * self.sizes().0 + j);
        a.iter().zip(row).map(|(a, r)| a * r).sum()
    }

    /// All blocks of L given R.
    fn fit_left(&mut self, regression: &Regression<'_>) -> Result<(), FitError> {
        let (b, (q, p)) = (self.blocks, self.sizes());
        let inp = b * p;
        // R S, row (k, j).
        let mut spread = Mat::zeros(b * q, inp);
        for k in 0..b {
            let second = regression.second_block(k * p..(k + 1) * p, 0..inp);
            let rows =
                multiply(self.right.view().rows_range(k * q, q).into(), second.view().into());
            spread.view_mut().rows_range(k * q, q).copy_from(rows.view());
        }
        for j in 0..q {
            let normal = Mat::from_fn(b, b, |k, l| {
                self.along(&spread.row(k * q + j)[l * p..(l + 1) * p], l, j)
            });
            let wanted = Mat::from_fn(b, b, |i, k| {
                self.along(&regression.cross().row(i * q + j)[k * p..(k + 1) * p], k, j)
            });
            let what = "normal matrix of Monarch's left blocks";
            let block = solve_normal(normal.view(), wanted.view(), what)?;
            self.left.view_mut().rows_range(j * b, b).copy_from(block.view());
        }
        Ok(())
    }

    /// Block k of R given all other parameters.
    fn fit_right(&mut self, regression: &Regression<'_>, k: usize) -> Result<(), FitError> {
        let (b, (q, p)) = (self.blocks, self.sizes());
        let product = |j: usize, l: usize| -> f64 {
            (0..b).map(|i| self.left.at(j * b + i, k) * self.left.at(j * b + i, l)).sum()
        };
        let products = Mat::from_fn(q, b, product);
        let others = Mat::from_fn(q, b * p, |j, at| {
            let (l, c) = (at / p, at % p);
            if l == k { 0.0 } else { products.at(j, l) * self.right.at(l * q + j, c) }
        });
        let of_block = k * p..(k + 1) * p;
        let second = regression.second_block(0..b * p, of_block.clone());
        let explained = multiply(others.view().into(), second.view().into());
        let wanted = Mat::from_fn(q, p, |j, c| {
            let cross =
                |i: usize| self.left.at(j * b + i, k) * regression.cross().at(i * q + j, k * p + c);
            let sum = (0..b).map(cross).sum::<f64>() - explained.at(j, c);
            let own = products.at(j, k);
            if own > 0.0 { sum / own } else { 0.0 }
        });
        let second = regression.second_block(of_block.clone(), of_block);
        let what = "moments of a block of Monarch's input";
        let block = solve_normal(second.view(), wanted.view(), what)?;
        self.right.view_mut().rows_range(k * q, q).copy_from(block.view());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{assert_monotone, assert_recovers, fitted, random};
    use crate::fit::{FitOptions, Target};
    use linwright_ops::{LowRankSpec, MonarchSpec, Shape};

    fn spec(blocks: Option<usize>) -> OpSpec {
        OpSpec::Monarch(MonarchSpec { blocks })
    }

    #[test]
    fn members_are_recovered() {
        assert_recovers(&spec(None), Shape { out: 9, inp: 9 });
        assert_recovers(&spec(Some(2)), Shape { out: 12, inp: 20 });
        assert_recovers(&spec(Some(5)), Shape { out: 10, inp: 5 });
    }

    #[test]
    fn alternating_is_monotone_and_better_than_the_projection() {
        let [projected, found] = assert_monotone(&spec(None), Shape { out: 12, inp: 12 });
        assert!(found < 0.999 * projected, "{found} after {projected}");
    }

    /// A Monarch map has full rank: low rank with as many parameters misses most of it.
    #[test]
    fn of_a_structured_target_it_keeps_what_low_rank_of_equal_size_loses() {
        let shape = Shape { out: 16, inp: 16 };
        let member = spec(Some(4)).random::<f64>(shape, RngKey::new(5)).expect("exists");
        let mut weight = member.to_dense().expect("is linear");
        let noise = random(16, 16, 6);
        weight.data_mut().iter_mut().zip(noise.data()).for_each(|(w, n)| *w += 0.01 * n);
        let target = Target::Weight(weight.view());
        let error = |spec: &OpSpec| fitted(spec, &target, &FitOptions::default()).relative_error;
        // 128 parameters each.
        let (monarch, low_rank) =
            (error(&spec(Some(4))), error(&OpSpec::LowRank(LowRankSpec { rank: 4 })));
        assert!(monarch < 0.01 && low_rank > 0.1, "{monarch} and {low_rank}");
    }
}
