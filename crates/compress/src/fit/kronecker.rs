//! Sums of Kronecker products: a truncated singular value decomposition of the rearranged weight.
//!
//! The rearrangement R(W), (o1 i1, o2 i2), maps `Σ_k A_k ⊗ B_k` to `Σ_k vec(A_k) vec(B_k)ᵀ` and
//! preserves the Frobenius norm: the best sum of t products for a weight comes from its t largest
//! singular values. With moments, alternating least squares start from that of the least-squares
//! map: all B_k given the A_k, from normal equations of size t i2 with the matrix `G[(k,j),(l,m)] =
//! Σ_{i,n} (A_kᵀ A_l)[i,n] S[(i,j),(n,m)]`, and vice versa.
//!
//! Source: Van Loan and Pitsianis 1993, *Approximation with Kronecker products*.

use super::alternate::alternate;
use super::kind::{Effort, KindFit, LeastSquares};
use super::regression::{Regression, multiply, numerics, solve_normal};
use super::{Context, Found, Procedure, assemble, work};
use crate::FitError;
use linwright_ops::{KroneckerSpec, Op, OpSpec, Shape};
use linwright_run::memory;
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::linalg::svd;
use linwright_tensor::{Mat, MatRef, RngKey};

/// Shapes of the factors.
#[derive(Clone, Copy)]
struct Shapes {
    terms: usize,
    left: Shape,
    right: Shape,
}

/// All A_k (t, o1 i1) and B_k (t, o2 i2), one row each.
type Factors = [Mat<f64>; 2];

/// Typical number of alternations until convergence for real layers, if more are allowed.
const SWEEPS: f64 = 100.0;

impl KindFit for KroneckerSpec {
    fn fit(
        &self,
        problem: &LeastSquares<'_, '_>,
        context: &mut Context<'_>,
    ) -> Result<Found, FitError> {
        fit(problem.spec, problem.regression, problem.from, context)
    }

    fn work(&self, effort: &Effort<'_>) -> Result<f64, FitError> {
        let ((out, inp), error) = (work::sides(effort.shape), effort.error());
        let OpSpec::Kronecker(options) = effort.spec.cost(effort.shape)?.spec else {
            return Ok(error);
        };
        let terms = options.terms as f64;
        let (o1, i1) = options.left.map_or((1.0, 1.0), work::sides);
        let (o2, i2) = (out / o1, inp / i1);
        let half = |o: f64, i: f64, other: f64| {
            terms * terms * i * i * (o + other * other)
                + terms * out * inp
                + work::eigen(terms * other)
        };
        // The entries of factor products are reordered one by one.
        let ordered = 10.0 * work::SMALL * out * inp;
        let sweep = half(o1, i1, i2) + half(o2, i2, i1) + terms * out * inp + error + ordered;
        Ok(work::singular(o1 * i1, o2 * i2) + SWEEPS.min(effort.iterations) * sweep)
    }
}

fn fit(
    spec: &OpSpec,
    regression: &Regression<'_>,
    from: Option<&Op<f64>>,
    context: &mut Context<'_>,
) -> Result<Found, FitError> {
    let template = spec.random::<f64>(regression.shape(), RngKey::new(0))?;
    let params = template.map().params();
    let side = |k: usize| Shape { out: params[k].shape[1], inp: params[k].shape[2] };
    let shapes = Shapes { terms: params[0].shape[0], left: side(0), right: side(1) };
    let mut factors = project(regression.least_squares().view(), shapes)?;
    let mut error = regression.error(&dense(&factors, shapes));
    let (mut procedure, mut iterations) = (Procedure::Closed, 0);
    if let Some(second) = regression.second() {
        let cross = rearranged(regression.cross().view(), shapes.left, shapes.right);
        let square = |side: usize| Shape { out: side, inp: side };
        let (i1, i2) = (square(shapes.left.inp), square(shapes.right.inp));
        let second = rearranged(second.view(), i1, i2);
        let (cross, second) = (cross.view(), second.view());
        let step = |[a, b]: &mut Factors, _: &mut Context<'_>| {
            *b = half(a, shapes.left, cross.into(), second.into())?;
            let (cross, second) = (Arg::Transposed(cross), Arg::Transposed(second));
            *a = half(b, shapes.right, cross, second)?;
            balance(a, b);
            Ok(regression.error(&dense(&[a.clone(), b.clone()], shapes)))
        };
        procedure = Procedure::Alternating;
        if let Some(op) = from {
            let params = op.map().params();
            let side = |k: usize| {
                let values = params[k].values;
                Mat::from_vec(shapes.terms, values.len() / shapes.terms, values.to_vec())
            };
            let given = [side(0), side(1)];
            let of_given = regression.error(&dense(&given, shapes));
            if of_given < error {
                (factors, error) = (given, of_given);
            }
        }
        (factors, error, iterations) =
            alternate(factors, error, regression.power(), context, step)?;
    }
    let op = assemble(spec, regression.shape(), &[factors[0].data(), factors[1].data()])?;
    Ok(Found { op, error, procedure, iterations })
}

/// R(W), (o1 i1, o2 i2).
fn rearranged(w: MatRef<'_, f64>, left: Shape, right: Shape) -> Mat<f64> {
    Mat::from_fn(left.out * left.inp, right.out * right.inp, |row, col| {
        let (o, i) = (row / left.inp, row % left.inp);
        let (p, j) = (col / right.inp, col % right.inp);
        w.at(o * right.out + p, i * right.inp + j)
    })
}

/// The dense weight of the factors, (out, inp).
fn dense([a, b]: &Factors, Shapes { left, right, .. }: Shapes) -> Mat<f64> {
    let sum = multiply(Arg::Transposed(a.view()), b.view().into());
    Mat::from_fn(left.out * right.out, left.inp * right.inp, |row, col| {
        let (o, p) = (row / right.out, row % right.out);
        let (i, j) = (col / right.inp, col % right.inp);
        sum.at(o * left.inp + i, p * right.inp + j)
    })
}

/// The nearest sum of products; terms beyond the rank of R(W) are zero.
fn project(w: MatRef<'_, f64>, shapes: Shapes) -> Result<Factors, FitError> {
    let Shapes { terms, left, right } = shapes;
    let found = svd(rearranged(w, left, right).view()).map_err(numerics("rearranged weight"))?;
    let root = |k: usize| found.s.get(k).copied().unwrap_or(0.0).sqrt();
    let there = |k: usize| k < found.s.len();
    let a = Mat::from_fn(terms, left.out * left.inp, |k, at| {
        if there(k) { root(k) * found.u.at(at, k) } else { 0.0 }
    });
    let b = Mat::from_fn(terms, right.out * right.inp, |k, at| {
        if there(k) { root(k) * found.vt.at(k, at) } else { 0.0 }
    });
    Ok([a, b])
}

/// The best factors of one side given `fixed` ones (t, of · if) of the other. `cross` is the
/// rearranged D (of · if, om · im), `second` the rearranged S (if², im²).
fn half(
    fixed: &Mat<f64>,
    shape: Shape,
    cross: Arg<'_, f64>,
    second: Arg<'_, f64>,
) -> Result<Mat<f64>, FitError> {
    let (terms, side) = (fixed.rows(), shape.inp);
    let stacked =
        Mat::from_fn(shape.out, terms * side, |o, at| fixed.at(at / side, o * side + at % side));
    // The pairs of terms, and the normal matrix of the other factors.
    let of_pair = ((side * side) as u64).saturating_add(second.cols() as u64);
    let what = || format!("the normal matrix of {terms} Kronecker products");
    memory::check(what, &[terms as u64, terms as u64, of_pair, size_of::<f64>() as u64])?;
    let products = multiply(Arg::Transposed(stacked.view()), stacked.view().into());
    let pairs = Mat::from_fn(terms * terms, side * side, |kl, ij| {
        products.at((kl / terms) * side + ij / side, (kl % terms) * side + ij % side)
    });
    let blocks = multiply(pairs.view().into(), second);
    let moved = blocks.cols().isqrt();
    let normal = Mat::from_fn(terms * moved, terms * moved, |row, col| {
        let pair = (row / moved) * terms + col / moved;
        blocks.at(pair, (row % moved) * moved + col % moved)
    });
    let wanted = multiply(fixed.view().into(), cross);
    let outs = wanted.cols() / moved;
    let wanted =
        Mat::from_fn(outs, terms * moved, |p, at| wanted.at(at / moved, p * moved + at % moved));
    let solved = solve_normal(normal.view(), wanted.view(), "normal matrix of Kronecker factors")?;
    Ok(Mat::from_fn(terms, outs * moved, |k, at| solved.at(at / moved, k * moved + at % moved)))
}

/// Scales the two factors of every term to equal norms.
fn balance(a: &mut Mat<f64>, b: &mut Mat<f64>) {
    for k in 0..a.rows() {
        let norm = |row: &[f64]| row.iter().map(|v| v * v).sum::<f64>().sqrt();
        let (of_a, of_b) = (norm(a.row(k)), norm(b.row(k)));
        if of_a > 0.0 && of_b > 0.0 {
            let scale = (of_b / of_a).sqrt();
            a.row_mut(k).iter_mut().for_each(|v| *v *= scale);
            b.row_mut(k).iter_mut().for_each(|v| *v /= scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{assert_monotone, assert_recovers, fitted, random};
    use crate::fit::{FitOptions, Target};
    use linwright_ops::KroneckerSpec;

    fn spec(terms: usize, left: Option<(usize, usize)>) -> OpSpec {
        let left = left.map(|(out, inp)| Shape { out, inp });
        OpSpec::Kronecker(KroneckerSpec { terms, left })
    }

    #[test]
    fn members_are_recovered() {
        assert_recovers(&spec(1, None), Shape { out: 9, inp: 9 });
        assert_recovers(&spec(2, None), Shape { out: 12, inp: 10 });
        assert_recovers(&spec(3, Some((2, 5))), Shape { out: 6, inp: 15 });
        assert_recovers(&spec(2, Some((7, 1))), Shape { out: 7, inp: 4 });
    }

    #[test]
    fn the_error_is_that_of_the_singular_values_left_out() {
        let weight = random(12, 10, 1);
        let (left, right) = (Shape { out: 3, inp: 5 }, Shape { out: 4, inp: 2 });
        let s = svd(rearranged(weight.view(), left, right).view()).expect("decomposes").s;
        let power = |s: &[f64]| s.iter().map(|s| s * s).sum::<f64>();
        for terms in 1..=9 {
            let target = Target::Weight(weight.view());
            let fit = fitted(&spec(terms, Some((3, 5))), &target, &FitOptions::default());
            let expected = power(&s[terms.min(s.len())..]) / power(&s);
            let found = fit.relative_error;
            assert!((found - expected).abs() < 1e-10, "{terms} terms: {found} and {expected}");
            assert_eq!(fit.procedure, Procedure::Closed);
        }
    }

    #[test]
    fn alternating_is_monotone_and_better_than_the_projection() {
        let [projected, found] = assert_monotone(&spec(2, None), Shape { out: 12, inp: 10 });
        assert!(found < 0.999 * projected, "{found} after {projected}");
    }
}
