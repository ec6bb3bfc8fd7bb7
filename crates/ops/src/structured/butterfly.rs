//! Products of butterfly factors: sparse matrices that mix features in pairs.
//!
//! `W = F_{m-1} ⋯ F_0`, n x n with n a power of two. Factor k mixes features i and j whose indices
//! differ in bit k mod log2 n: `(y_i, y_j) = M (x_i, x_j)`, each pair with its own 2 x 2 matrix M,
//! or with `(cos θ, -sin θ; sin θ, cos θ)`, which makes W orthogonal.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | 2 n m, orthogonal m n / 2 | 2 n m |
//!
//! Source: Dao et al. 2019, arXiv 1903.05895, without the initial permutations; orthogonal, as in
//! BOFT (arXiv 2311.06243) with 2 x 2 blocks, parametrised by angles instead of Cayley transforms.
//! m defaults to log2 n. Matrices are initialised as N(0, 1/2), angles uniformly in [0, 2π): both
//! preserve the norm of the input on average. Blocks larger than 2 x 2 are not supported: they
//! would be matrix products, with neither the cost nor the inverse of a pair. The inverse is the
//! product of the inverse pairs in reverse order. The backward pass recomputes the inputs of the
//! factors, for a block of rows at a time.
//!
//! ```
//! use linwright_ops::{Butterfly, ButterflySpec, Map, Shape, Structured, parameter_count};
//! use linwright_tensor::RngKey;
//!
//! let spec = ButterflySpec { orthogonal: true, factors: None };
//! let shape = Shape { out: 1024, inp: 1024 };
//! let op: Butterfly<f32> = Butterfly::random(&spec, shape, RngKey::new(0))?;
//! assert_eq!(parameter_count(&op.params()), 5 * 1024);
//! assert_eq!(op.macs_per_row(), 20 * 1024); // dense: 1,048,576
//! # Ok::<(), linwright_ops::OpError>(())
//! ```

use super::OpSpec;
use super::columns::{RowBlocks, columns_of};
use super::row_pieces::{self, Block};
use crate::{
    Backward, Invertible, KindOptions, LinearOp, LogDet, Map, Op, OpError, Param, ParamMut, Shape,
    Structured, Tape, Workspace,
};
use linwright_tensor::kernels::butterfly::{
    Factors, SingularPair, add_gradient_of_turns, apply, apply_reversed, back, inverses,
    log_abs_det, turns,
};
use linwright_tensor::kernels::transpose::from_columns;
use linwright_tensor::{MatMut, MatRef, RngKey, Scalar, Scratch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Options of [`Butterfly`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ButterflySpec {
    /// Whether every pair is a rotation by an angle instead of a free matrix.
    pub orthogonal: bool,
    /// Number m of factors; log2 of the features if absent.
    pub factors: Option<usize>,
}

impl ButterflySpec {
    fn factors(self, size: usize) -> usize {
        self.factors.unwrap_or_else(|| size.max(1).ilog2() as usize)
    }
}

/// A product of butterfly factors.
#[derive(Clone, Debug)]
pub struct Butterfly<T> {
    size: usize,
    factors: usize,
    orthogonal: bool,
    /// Angles (m, n / 2) or matrices (m, n / 2, 2, 2), first factor first.
    values: Vec<T>,
    /// Matrices of all pairs, computed from angles.
    turns: OnceLock<Vec<T>>,
}

impl<T: Scalar> Butterfly<T> {
    fn of_values(spec: ButterflySpec, size: usize, values: Vec<T>) -> Self {
        let (orthogonal, factors) = (spec.orthogonal, spec.factors(size));
        Self { size, factors, orthogonal, values, turns: OnceLock::new() }
    }

    /// Matrices of all pairs.
    fn weights(&self) -> &[T] {
        if !self.orthogonal {
            return &self.values;
        }
        self.turns.get_or_init(|| {
            let mut weights = vec![T::ZERO; 4 * self.values.len()];
            turns(&self.values, &mut weights);
            weights
        })
    }

    fn factors(&self) -> Factors<'_, T> {
        Factors::new(self.size, self.weights())
    }

    fn name_and_shape(&self) -> (String, Vec<usize>) {
        let pairs = vec![self.factors, self.size / 2];
        if self.orthogonal {
            return ("angles".into(), pairs);
        }
        ("pairs".into(), [pairs, vec![2, 2]].concat())
    }

    /// Rows per block.
    fn block_rows(&self) -> usize {
        // Two registers of rows share each load of the pairs.
        RowBlocks::new(self.size, 2).rows
    }

    fn forward_block(&self, x: MatRef<'_, T>, mut y: MatMut<'_, T>) {
        let width = RowBlocks::width(x.rows());
        let mut columns = columns_of(x, width);
        apply(self.factors(), &mut columns);
        from_columns(&columns, width, &mut y);
    }

    fn backward_block(&self, block: Block<'_, T>) {
        let Block { x, dy, dx, grads, .. } = block;
        let width = RowBlocks::width(x.rows());
        let (x, mut d) = (columns_of(x, width), columns_of(dy, width));
        match grads {
            Some(grads) if !self.orthogonal => back(self.factors(), &x, &mut d, grads),
            grads => {
                // The kernel computes both gradients at once: they share every load.
                let mut d_pairs = Scratch::zeros(self.weights().len());
                back(self.factors(), &x, &mut d, &mut d_pairs);
                if let Some(grads) = grads {
                    add_gradient_of_turns(self.weights(), &d_pairs, grads);
                }
            }
        }
        if let Some(mut dx) = dx {
            from_columns(&d, width, &mut dx);
        }
    }
}

impl<T: Scalar> Map<T> for Butterfly<T> {
    fn spec(&self) -> OpSpec {
        let (orthogonal, factors) = (self.orthogonal, Some(self.factors));
        OpSpec::Butterfly(ButterflySpec { orthogonal, factors })
    }

    fn shape(&self) -> Shape {
        Shape { out: self.size, inp: self.size }
    }

    fn macs_per_row(&self) -> u64 {
        2 * (self.factors * self.size) as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let (name, shape) = self.name_and_shape();
        vec![Param { name, shape, values: &self.values }]
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        self.turns.take();
        let (name, shape) = self.name_and_shape();
        vec![ParamMut { name, shape, values: &mut self.values }]
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        assert_eq!((x.rows(), x.cols()), (y.rows(), self.size), "input of a butterfly");
        self.weights();
        row_pieces::forward(self.block_rows(), x, y, |x, y| self.forward_block(x, y));
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        self.weights();
        row_pieces::backward(self.block_rows(), args, ws, |block| self.backward_block(block));
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }

    fn invertible(&self) -> Option<&dyn Invertible<T>> {
        Some(self)
    }
}

impl<T: Scalar> LinearOp<T> for Butterfly<T> {}

/// The error for a singular pair.
fn singular(SingularPair { index, determinant }: SingularPair) -> OpError {
    let kind = <Butterfly<f32> as Structured<f32>>::KIND;
    OpError::Singular { kind, part: "determinants of pairs".into(), index, value: determinant }
}

impl<T: Scalar> Invertible<T> for Butterfly<T> {
    fn inverse(
        &self,
        y: MatRef<'_, T>,
        x: MatMut<'_, T>,
        _ws: &mut Workspace<T>,
    ) -> Result<(), OpError> {
        assert_eq!((y.rows(), y.cols()), (x.rows(), self.size), "output of a butterfly");
        let mut inverted = vec![T::ZERO; self.weights().len()];
        inverses(self.weights(), &mut inverted).map_err(singular)?;
        let factors = Factors::new(self.size, &inverted);
        row_pieces::forward(self.block_rows(), y, x, |y, mut x| {
            let width = RowBlocks::width(y.rows());
            let mut columns = columns_of(y, width);
            apply_reversed(factors, &mut columns);
            from_columns(&columns, width, &mut x);
        });
        Ok(())
    }

    fn log_abs_det(&self) -> Result<LogDet, OpError> {
        if self.orthogonal {
            return Ok(LogDet { log_abs: 0.0, sign: 1.0 });
        }
        let (log_abs, sign) = log_abs_det(&self.values).map_err(singular)?;
        Ok(LogDet { log_abs, sign })
    }
}

/// Largest number of factors of a size, relative to those that connect all features once: more are
/// slow to fit and gain little.
const CYCLES: usize = 2;

impl KindOptions for ButterflySpec {
    const EXPORTED: bool = false;
    const COUNTS_INDICES: bool = false;

    fn standard() -> Self {
        Self::default()
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        let most = CYCLES * shape.out.max(2).ilog2() as usize;
        (1..=most).map(|factors| Self { factors: Some(factors), ..*self }).collect()
    }

    fn shrunk(&self, by: usize) -> Self {
        let fewer = |factors: usize| factors.saturating_sub(by.ilog2() as usize).max(1);
        Self { factors: self.factors.map(fewer), ..*self }
    }
}

impl<T: Scalar> Structured<T> for Butterfly<T> {
    type Spec = ButterflySpec;
    const KIND: &'static str = "butterfly";
    const EQUATION: &'static str = "W = F_(m-1) .. F_0, pairs of features in each";
    const PARAMETERS: &'static str = "2 n m; orthogonal n m / 2";
    const MACS: &'static str = "2 n m";

    fn numbers(spec: &ButterflySpec, shape: Shape) -> u64 {
        let half = (shape.out / 2) as u64;
        let pairs = half.saturating_mul(spec.factors(shape.out) as u64);
        if spec.orthogonal { pairs } else { pairs.saturating_mul(4) }
    }

    fn parts(spec: &ButterflySpec, shape: Shape) -> u64 {
        spec.factors(shape.out) as u64
    }

    fn random(spec: &ButterflySpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let refuse = |reason: String| OpError::Unsupported { kind: Self::KIND, shape, reason };
        let Shape { out, inp } = shape;
        if out != inp || !out.is_power_of_two() {
            let near = nearest_power(shape);
            return Err(refuse(format!(
                "{out} x {inp} features; a square power of two is needed, nearest: {near} x {near}"
            )));
        }
        if out == 1 && spec.factors.is_some_and(|factors| factors > 0) {
            return Err(refuse("one feature has no pairs; nearest: 2 x 2, or 0 factors".into()));
        }
        let pairs = spec.factors(out) * out / 2;
        let values = if spec.orthogonal {
            let mut stream = key.stream();
            let turn = std::f64::consts::TAU;
            (0..pairs).map(|_| T::from_f64(turn * stream.uniform())).collect()
        } else {
            key.stream().normals(4 * pairs, std::f64::consts::FRAC_1_SQRT_2)
        };
        Ok(Self::of_values(*spec, out, values))
    }

    fn examples() -> Vec<(ButterflySpec, Shape)> {
        let case = |n, orthogonal, factors| {
            (ButterflySpec { orthogonal, factors }, Shape { out: n, inp: n })
        };
        vec![
            case(8, true, None),
            case(16, false, None),
            case(4, true, Some(5)),
            case(32, false, Some(2)),
            case(2, false, Some(1)),
            case(1, true, None),
        ]
    }
}

/// The nearest power of two to the geometric mean of a shape.
fn nearest_power(shape: Shape) -> usize {
    let far = |n: &usize| shape.out.abs_diff(*n).saturating_add(shape.inp.abs_diff(*n));
    (0..usize::BITS).map(|bit| 1 << bit).min_by_key(far).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::Mat;

    #[test]
    fn angles_make_an_orthogonal_map() {
        let spec = ButterflySpec { orthogonal: true, factors: Some(7) };
        let shape = Shape { out: 16, inp: 16 };
        let op: Butterfly<f64> = Butterfly::random(&spec, shape, RngKey::new(3)).unwrap();
        let dense = op.to_dense();
        let square = Mat::from_fn(16, 16, |i, j| {
            (0..16).map(|k| dense.at(i, k) * dense.at(j, k)).sum::<f64>()
        });
        for (found, expected) in square.data().iter().zip(Mat::<f64>::identity(16).data()) {
            assert!((found - expected).abs() < 1e-13);
        }
        assert!(dense.data().iter().all(|v| *v != 0.0), "every input reaches every output");
    }

    #[test]
    fn a_pair_without_an_inverse_is_named() {
        let spec = ButterflySpec::default();
        let shape = Shape { out: 4, inp: 4 };
        let mut op: Butterfly<f64> = Butterfly::random(&spec, shape, RngKey::new(3)).unwrap();
        op.params_mut()[0].values[8..12].fill(1.0);
        let (y, mut x) = (Mat::zeros(1, 4), Mat::zeros(1, 4));
        let inverse = op.inverse(y.view(), x.view_mut(), &mut Workspace::default());
        for error in [inverse.unwrap_err(), op.log_abs_det().unwrap_err()] {
            assert!(error.to_string().contains("determinants of pairs[2] is 0"), "{error}");
        }
    }

    #[test]
    fn impossible_shapes_are_told_with_the_nearest_one() {
        let build = |out, inp, factors| {
            let spec = ButterflySpec { orthogonal: true, factors };
            Butterfly::<f32>::random(&spec, Shape { out, inp }, RngKey::new(0))
                .unwrap_err()
                .to_string()
        };
        assert!(build(12, 10, None).contains("12 x 10 features"));
        assert!(build(12, 10, None).contains("nearest: 8 x 8"));
        assert!(build(13, 13, None).contains("nearest: 16 x 16"));
        assert!(build(0, 0, None).contains("nearest: 1 x 1"));
        assert!(build(1, 1, Some(2)).contains("one feature has no pairs"));
    }
}
