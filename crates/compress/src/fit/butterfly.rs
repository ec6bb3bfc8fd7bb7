//! Butterfly factors: peeled off one by one by rank-one approximations, then trained.
//!
//! Let P be the product of all factors after the first. Entry (i, j) of `P F_0` is `P[i,k]
//! F_0[k,j]`, where k has the lowest bit of i and the other bits of j: a column of P and a row of a
//! pair of F_0 form a block of two columns and rank one. Its leading singular pair gives both; P is
//! then peeled by its next bit, within blocks of equal lower bits. This recovers a product of
//! butterfly factors; for other weights it is a good start for L-BFGS. Factors beyond the number of
//! bits start as the identity. Factors of angles, whose signs are not determined here, are trained
//! from random starts.
//!
//! Source: Le, Zheng, Riccietti and Gribonval 2022, arXiv:2110.01230, for square butterflies.

use super::kind::{Effort, KindFit, LeastSquares};
use super::regression::Regression;
use super::{Context, Found, assemble, trained};
use crate::FitError;
use linwright_ops::{ButterflySpec, OpSpec};
use linwright_tensor::{Mat, RngKey};

impl KindFit for ButterflySpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        if self.orthogonal || problem.from.is_some() {
            return problem.trained(context);
        }
        fit(problem.spec, problem.regression, context)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        match self.orthogonal {
            true => effort.trained(effort.iterations),
            false => Ok(effort.error() + effort.descent(effort.iterations)?),
        }
    }
}

fn fit(
    spec: &OpSpec,
    regression: &Regression<'_>,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    let shape = regression.shape();
    let template = spec.random::<f64>(shape, RngKey::new(0))?;
    let factors = template.map().params()[0].shape[0];
    let peeled = peel(regression.least_squares(), factors);
    trained::descend(assemble(spec, shape, &[&peeled])?, &regression.rows(), context)
}

/// The matrices of all pairs, (factors, n / 2, 2, 2).
fn peel(mut rest: Mat<f64>, factors: usize) -> Vec<f64> {
    let n = rest.rows();
    let levels = factors.min(n.max(1).ilog2() as usize);
    let identity = [1.0, 0.0, 0.0, 1.0];
    let mut pairs = vec![identity; factors * n / 2];
    for level in 0..levels {
        let half = 1 << level;
        let mut next = Mat::zeros(n, n);
        for k in 0..n {
            let (first, pair) = (k & !half, pair_of(k, half));
            // Rows with higher bits of another block are zero in a member.
            let within = (1usize << levels) - 1;
            let like = |i: &usize| (i ^ k) & !within == 0 && (i ^ k) & (2 * half - 1) == 0;
            let rows: Vec<usize> = (0..n).filter(like).collect();
            let at = |i: usize| [rest.at(i, first), rest.at(i, first + half)];
            let row =
                if level + 1 == levels { at(k) } else { direction(rows.iter().map(|&i| at(i))) };
            let place = if k & half == 0 { 0 } else { 2 };
            pairs[level * n / 2 + pair][place..place + 2].copy_from_slice(&row);
            for &i in &rows {
                let [a, b] = at(i);
                *next.at_mut(i, k) = a * row[0] + b * row[1];
            }
        }
        rest = next;
    }
    pairs.concat()
}

/// Index of the pair that contains feature k.
fn pair_of(k: usize, half: usize) -> usize {
    k / (2 * half) * half + k % half
}

/// Leading right singular vector of rows of two numbers: the eigenvector of the larger eigenvalue
/// of their Gram matrix.
fn direction(rows: impl Iterator<Item = [f64; 2]>) -> [f64; 2] {
    let mut gram = [0.0; 3];
    for [a, b] in rows {
        gram[0] += a * a;
        gram[1] += a * b;
        gram[2] += b * b;
    }
    let angle = 0.5 * (2.0 * gram[1]).atan2(gram[0] - gram[2]);
    [angle.cos(), angle.sin()]
}

#[cfg(test)]
mod tests {
    use crate::fit::planted::{assert_recovers, fitted, random, recovered};
    use crate::fit::{FitOptions, Target};
    use linwright_ops::{ButterflySpec, OpSpec, Shape};

    fn spec(orthogonal: bool, factors: Option<usize>) -> OpSpec {
        OpSpec::Butterfly(ButterflySpec { orthogonal, factors })
    }

    fn square(n: usize) -> Shape {
        Shape { out: n, inp: n }
    }

    #[test]
    fn members_are_recovered_by_peeling() {
        assert_recovers(&spec(false, None), square(16));
        assert_recovers(&spec(false, None), square(2));
        assert_recovers(&spec(false, Some(2)), square(16));
    }

    #[test]
    fn angles_are_recovered_with_eight_starts() {
        let options = FitOptions { starts: 8, ..FitOptions::default() };
        for seed in 0..2 {
            let found = recovered(&spec(true, None), square(8), seed, &options);
            assert!(found.iter().all(|away| *away < 1e-6), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn training_goes_on_from_the_peeled_start() {
        let weight = random(8, 8, 4);
        let target = Target::Weight(weight.view());
        let peeled = FitOptions { iterations: 0, ..FitOptions::default() };
        let before = fitted(&spec(false, None), &target, &peeled).relative_error;
        let after = fitted(&spec(false, None), &target, &FitOptions::default()).relative_error;
        assert!(after < 0.99 * before && before < 1.0, "{after} after {before}");
    }
}
