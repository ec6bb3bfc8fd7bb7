//! A diagonal plus a low-rank matrix: alternating least squares, then training.
//!
//! With the other parts fixed, each part has a closed form: `d_i = (D - U V S)_ii / S_ii`, `U = D'
//! Vᵀ (V S Vᵀ)⁺` and `V L = (Uᵀ U)⁺ Uᵀ B'`, with the diagonal subtracted from D and B. The
//! alternation starts from the best low-rank matrix for a given diagonal: first zero, then the best
//! diagonal alone. It converges slowly near a minimum, so L-BFGS finishes. Rank 0 has a closed
//! form.
//!
//! Optimal for maps that are themselves a diagonal plus a low-rank matrix, which it recovers where
//! the decomposition is unique: layers that pass features on and mix few of them, as after a
//! residual connection was folded in. For other maps it is a local minimum, at least as good as the
//! low-rank optimum of the same rank, from which it starts.
//!
//! Source: the alternation of principal factor analysis, see Saunderson et al. 2012,
//! arXiv:1204.1220, also for conditions under which the decomposition is unique.

use super::alternate::alternate;
use super::kind::{Effort, KindFit, LeastSquares};
use super::regression::{Regression, multiply, solve_normal, squares, subtract};
use super::{Context, Found, Procedure, low_rank, trained, work};
use crate::FitError;
use linwright_ops::{DiagonalLowRank, DiagonalLowRankSpec, LowRank, Op, OpSpec};
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::Arg;

/// d (min(out, inp)), U (out, r) and V (r, inp).
#[derive(Clone)]
struct Parts {
    d: Vec<f64>,
    u: Mat<f64>,
    v: Mat<f64>,
}

/// The regression with data that every sweep needs.
struct Problem<'a> {
    regression: &'a Regression<'a>,
    /// L (inp, inp).
    root: Mat<f64>,
}

/// Typical iterations until convergence for real layers, if more are allowed, as sweeps and L-BFGS
/// iterations: `least + slope · rank / max(out, inp)`. The higher the rank, the more of the
/// diagonal the factors can represent, and the slower the convergence. Fits of layers of side 128
/// to 1,536 at ranks 8 to 153 ended after half to twice as many; those with nearly zero error take
/// longer.
struct Typical {
    least: f64,
    slope: f64,
}

const SWEEPS: Typical = Typical { least: 7.0, slope: 280.0 };
const ITERATIONS: Typical = Typical { least: 7.0, slope: 240.0 };

impl KindFit for DiagonalLowRankSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        fit(self, problem.regression, context)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        let (out, inp) = work::sides(effort.shape);
        if self.rank == 0 {
            // The root of the moments, without iterations.
            return Ok(inp.powi(3));
        }
        // Subtracting the diagonal takes several passes over the matrices.
        let rank = self.rank as f64;
        let thin = rank * (4.0 * inp * inp + 3.0 * out * inp);
        // Either factor is solved for by an eigendecomposition of size rank.
        let solved = 2.0 * work::eigen(rank) + 3.0 * rank * rank * (out + inp);
        let sweep = thin + solved + 5.0 * work::SERIAL * out * inp;
        let steps = |Typical { least, slope }: Typical| {
            (least + slope * rank / out.max(inp)).min(effort.iterations)
        };
        let start = work::singular(out, inp)
            + 2.0 * effort.error()
            + steps(SWEEPS) * sweep
            + effort.descent(steps(ITERATIONS))?;
        Ok(2.0 * inp.powi(3) + effort.starts.min(2.0) * start)
    }
}

fn fit(
    spec: &DiagonalLowRankSpec,
    regression: &Regression<'_>,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    let shape = regression.shape();
    // Rejects impossible ranks.
    OpSpec::DiagonalLowRank(*spec).random::<f64>(shape, context.options.key)?;
    let root = regression.times_root(&Mat::identity(shape.inp));
    let problem = Problem { regression, root };
    let alone = problem.diagonal(None);
    if spec.rank == 0 {
        let (u, v) = (Mat::zeros(shape.out, 0), Mat::zeros(0, shape.inp));
        let parts = Parts { d: alone, u, v };
        let error = problem.error(&parts);
        return Ok(Found { op: parts.op(), error, procedure: Procedure::Closed, iterations: 0 });
    }
    let rows = regression.rows();
    let mut best: Option<Found> = None;
    let starts = context.options.starts.max(1) as usize;
    for d in [vec![0.0; alone.len()], alone].into_iter().take(starts) {
        let parts = problem.begin(d, spec.rank)?;
        let error = problem.error(&parts);
        let (parts, _, sweeps) =
            alternate(parts, error, regression.power(), context, |parts, _| {
                problem.sweep(parts)?;
                Ok(problem.error(parts))
            })?;
        let found = trained::descend(parts.op(), &rows, context)?;
        let iterations = sweeps + found.iterations;
        best = Some(Found::better(
            best,
            Found { procedure: Procedure::Alternating, iterations, ..found },
        ));
    }
    best.ok_or(FitError::TooFewSamples { found: 0, needed: 1 })
}

impl Parts {
    fn op(self) -> Op<f64> {
        Op::Linear(Box::new(DiagonalLowRank::new(self.d, LowRank::new(self.u, self.v))))
    }
}

impl Problem<'_> {
    /// The best diagonal for U V, or alone.
    fn diagonal(&self, thin: Option<(&Mat<f64>, &Mat<f64>)>) -> Vec<f64> {
        let shape = self.regression.shape();
        let spread = thin.map(|(u, v)| (u, self.regression.times_second(v)));
        let number = |i: usize| {
            let thin = spread
                .as_ref()
                .map_or(0.0, |(u, v)| (0..u.cols()).map(|r| u.at(i, r) * v.at(r, i)).sum::<f64>());
            let own = self.regression.second_at(i, i);
            if own > 0.0 { (self.regression.cross().at(i, i) - thin) / own } else { 0.0 }
        };
        (0..shape.out.min(shape.inp)).map(number).collect()
    }

    /// The best low-rank matrix for a diagonal.
    fn begin(&self, d: Vec<f64>, rank: usize) -> Result<Parts, FitError> {
        let shape = self.regression.shape();
        let mut diagonal = Mat::zeros(shape.out, shape.inp);
        d.iter().enumerate().for_each(|(i, &d)| *diagonal.at_mut(i, i) = d);
        let (u, v) = low_rank::factors(&self.regression.beside(&diagonal), rank)?;
        Ok(Parts { d, u, v })
    }

    fn sweep(&self, parts: &mut Parts) -> Result<(), FitError> {
        parts.d = self.diagonal(Some((&parts.u, &parts.v)));
        let mut cross = self.regression.cross().clone();
        let mut whitened = self.regression.whitened().clone();
        for (i, &d) in parts.d.iter().enumerate() {
            let second = |(j, c): (usize, &mut f64)| *c -= d * self.regression.second_at(i, j);
            cross.row_mut(i).iter_mut().enumerate().for_each(second);
            let root = self.root.row(i).iter();
            whitened.row_mut(i).iter_mut().zip(root).for_each(|(b, l)| *b -= d * l);
        }
        let spread = self.regression.times_second(&parts.v);
        let normal = multiply(spread.view().into(), Arg::Transposed(parts.v.view()));
        let wanted = multiply(cross.view().into(), Arg::Transposed(parts.v.view()));
        parts.u = solve_normal(normal.view(), wanted.view(), "moments of the thin features")?;
        let normal = multiply(Arg::Transposed(parts.u.view()), parts.u.view().into());
        let wanted = multiply(Arg::Transposed(whitened.view()), parts.u.view().into());
        let solved = solve_normal(normal.view(), wanted.view(), "products of the columns of U")?;
        parts.v = self.regression.unwhiten(solved.transpose());
        Ok(())
    }

    fn error(&self, parts: &Parts) -> f64 {
        let thin = self.regression.times_root(&parts.v);
        let mut away = multiply(parts.u.view().into(), thin.view().into());
        for (i, d) in parts.d.iter().enumerate() {
            away.row_mut(i).iter_mut().zip(self.root.row(i)).for_each(|(a, l)| *a += d * l);
        }
        subtract(&mut away, self.regression.whitened());
        squares(&away) + self.regression.rest()
    }
}

#[cfg(test)]
mod tests {
    use crate::fit::planted::{assert_monotone, assert_recovers, fitted, noisy, random};
    use crate::fit::{FitOptions, Target};
    use linwright_ops::{DiagonalLowRankSpec, LowRankSpec, OpSpec, Shape};
    use linwright_tensor::Mat;

    fn spec(rank: usize) -> OpSpec {
        OpSpec::DiagonalLowRank(DiagonalLowRankSpec { rank })
    }

    #[test]
    fn members_are_recovered() {
        assert_recovers(&spec(2), Shape { out: 10, inp: 10 });
        assert_recovers(&spec(1), Shape { out: 6, inp: 9 });
        assert_recovers(&spec(0), Shape { out: 5, inp: 4 });
    }

    #[test]
    fn it_beats_low_rank_of_more_parameters_where_features_pass_and_is_never_worse_at_its_rank() {
        let shape = Shape { out: 10, inp: 10 };
        let relative = |spec: &OpSpec, target: &Target<'_>| {
            fitted(spec, target, &FitOptions::default()).relative_error
        };
        let low_rank = |rank| OpSpec::LowRank(LowRankSpec { rank });
        let (x, y) = noisy(shape, 4);
        let any = Target::Samples { x: x.view(), y: y.view() };
        assert!(relative(&spec(2), &any) < relative(&low_rank(2), &any));
        let mixed = random(10, 1, 5);
        let weight = Mat::from_fn(10, 10, |i, j| {
            mixed.at(i, 0) * mixed.at(j, 0) / 10.0 + if i == j { 1.0 } else { 0.0 }
        });
        let target = Target::Weight(weight.view());
        let (found, other) = (relative(&spec(1), &target), relative(&low_rank(3), &target));
        assert!(found < 1e-10 && other > 0.3, "{found} and {other}");
    }

    #[test]
    fn sweeps_are_monotone_and_better_than_low_rank_of_what_the_diagonal_leaves() {
        let [first, found] = assert_monotone(&spec(2), Shape { out: 9, inp: 9 });
        assert!(found < 0.999 * first, "{found} after {first}");
    }
}
