//! Sums of Kronecker products.
//!
//! `W = Σ_k A_k ⊗ B_k`, A_k: (o1, i1), B_k: (o2, i2), out = o1 · o2, inp = i1 · i2. With a row of x
//! as an (i1, i2) matrix X and a row of y as an (o1, o2) matrix: `Y = Σ_k A_k X B_kᵀ`.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | t (o1 · i1 + o2 · i2) | t · min(i1 · o2 (i2 + o1), o1 · i2 (i1 + o2)) |
//!
//! Source: Van Loan and Pitsianis 1993, *Approximation with Kronecker products*; as network layers
//! arXiv 2204.03777 and others. Every factor is initialised as PyTorch's `Linear`, the A_k as one
//! for all terms together. The cheaper order of `A_k (X B_kᵀ)` and `(A_k X) B_kᵀ` is used. The
//! backward pass recomputes the hidden features.
//!
//! ```
//! use linwright_ops::{Kronecker, KroneckerSpec, Map, Shape, Structured, parameter_count};
//! use linwright_tensor::RngKey;
//!
//! let spec = KroneckerSpec { terms: 4, left: None };
//! let shape = Shape { out: 1024, inp: 1024 };
//! let op: Kronecker<f32> = Kronecker::random(&spec, shape, RngKey::new(0))?;
//! assert_eq!(parameter_count(&op.params()), 4 * 2 * 1024); // dense: 1,048,576
//! assert_eq!(op.macs_per_row(), 4 * 2 * 1024 * 32);
//! # Ok::<(), linwright_ops::OpError>(())
//! ```

use super::columns::columns_of;
use super::initial::as_of_linear;
use super::row_pieces::{self, Block, block_rows};
use super::{OpSpec, divisors};
use crate::{
    Backward, KindOptions, LinearOp, Map, Op, OpError, Param, ParamMut, Shape, Structured, Tape,
    Workspace,
};
use linwright_tensor::kernels::gemm::{Arg, Write, product_on_this_thread as multiply};
use linwright_tensor::kernels::transpose::from_columns;
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar, Scratch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of [`Kronecker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KroneckerSpec {
    /// Number t of products.
    pub terms: usize,
    /// Shape (o1, i1) of the left factors; the divisors nearest to √out and √inp if absent.
    pub left: Option<Shape>,
}

impl Default for KroneckerSpec {
    fn default() -> Self {
        Self { terms: 1, left: None }
    }
}

impl KroneckerSpec {
    fn left(self, shape: Shape) -> Shape {
        self.left.unwrap_or_else(|| Shape {
            out: divisors::nearest_to_root(shape.out),
            inp: divisors::nearest_to_root(shape.inp),
        })
    }
}

/// `W = Σ_k A_k ⊗ B_k`.
#[derive(Clone, Debug, PartialEq)]
pub struct Kronecker<T> {
    terms: usize,
    /// All A_k, stacked vertically: (t · o1, i1).
    a: Mat<T>,
    /// All B_k, stacked vertically: (t · o2, i2).
    b: Mat<T>,
}

impl<T: Scalar> Kronecker<T> {
    /// (o1, i1).
    fn left(&self) -> Shape {
        Shape { out: self.a.rows() / self.terms, inp: self.a.cols() }
    }

    /// (o2, i2).
    fn right(&self) -> Shape {
        Shape { out: self.b.rows() / self.terms, inp: self.b.cols() }
    }

    fn shapes(&self) -> [Vec<usize>; 2] {
        [self.left(), self.right()].map(|Shape { out, inp }| vec![self.terms, out, inp])
    }

    /// A_k.
    fn a(&self, k: usize) -> MatRef<'_, T> {
        let rows = self.left().out;
        self.a.view().rows_range(k * rows, rows)
    }

    /// B_k.
    fn b(&self, k: usize) -> MatRef<'_, T> {
        let rows = self.right().out;
        self.b.view().rows_range(k * rows, rows)
    }

    /// Multiply-adds per row with the right factors first, and with the left factors first.
    fn macs(&self) -> [u64; 2] {
        let (left, right) = (self.left(), self.right());
        let macs = |hidden: usize, inner: usize| (self.terms * hidden * inner) as u64;
        [
            macs(left.inp * right.out, right.inp + left.out),
            macs(left.out * right.inp, left.inp + right.out),
        ]
    }

    fn right_first(&self) -> bool {
        let [right_first, left_first] = self.macs();
        right_first <= left_first
    }

    /// Rows of a block, bounded by the size of its intermediate results.
    fn block(&self) -> usize {
        let Shape { out, inp } = self.shape();
        let (left, right) = (self.left(), self.right());
        let hidden = if self.right_first() { left.inp * right.out } else { left.out * right.inp };
        block_rows(out.max(inp).max(self.terms * hidden))
    }

    /// `B_k x_i` for the i1 parts x_i of the rows and all k: (i1, t · o2 · rows).
    fn hidden_of_right(&self, x: MatRef<'_, T>) -> Scratch<T> {
        let (i1, i2, rows) = (self.a.cols(), self.b.cols(), self.b.rows());
        let part = rows * x.rows();
        let mut hidden = Scratch::new(i1 * part);
        for i in 0..i1 {
            let into = MatMut::new(&mut hidden[i * part..][..part], rows, x.rows());
            let x = Arg::Transposed(x.columns(i * i2, i2));
            multiply(T::ONE, self.b.view().into(), x, into, Write::Set);
        }
        hidden
    }

    fn forward_right_first(&self, x: MatRef<'_, T>, mut y: MatMut<'_, T>) {
        let (left, wide) = (self.left(), self.right().out * x.rows());
        let hidden = self.hidden_of_right(x);
        let hidden = MatRef::new(&hidden, left.inp, self.terms * wide);
        let mut columns = Scratch::new(left.out * wide);
        for k in 0..self.terms {
            let into = MatMut::new(&mut columns, left.out, wide);
            let hidden = hidden.columns(k * wide, wide);
            multiply(T::ONE, self.a(k).into(), hidden.into(), into, set_first(k));
        }
        from_columns(&columns, x.rows(), &mut y);
    }

    fn backward_right_first(&self, block: Block<'_, T>) {
        let Block { x, dy, dx, grads, .. } = block;
        let (left, right, rows) = (self.left(), self.right(), x.rows());
        let wide = right.out * rows;
        let (mut grad_a, mut grad_b) = self.halves(grads);
        let (hidden, d_columns) = (self.hidden_of_right(x), columns_of(dy, dy.rows()));
        let hidden = MatRef::new(&hidden, left.inp, self.terms * wide);
        let d_columns = MatRef::new(&d_columns, left.out, wide);
        let mut d_hidden = Scratch::new(left.inp * self.terms * wide);
        for k in 0..self.terms {
            if let Some(grad) = &mut grad_a {
                let grad = &mut grad[k * left.out * left.inp..][..left.out * left.inp];
                let grad = MatMut::new(grad, left.out, left.inp);
                let input = Arg::Transposed(hidden.columns(k * wide, wide));
                multiply(T::ONE, d_columns.into(), input, grad, Write::Add);
            }
            let into = MatMut::new(&mut d_hidden, left.inp, self.terms * wide);
            let into = into.columns(k * wide, wide);
            multiply(T::ONE, Arg::Transposed(self.a(k)), d_columns.into(), into, Write::Set);
        }
        let parts = d_hidden.chunks_exact(self.terms * wide);
        let parts = parts.map(|part| MatRef::new(part, self.b.rows(), rows));
        for (i, part) in parts.clone().enumerate() {
            let Some(grad) = &mut grad_b else { break };
            let grad = MatMut::new(grad, self.b.rows(), right.inp);
            let x = x.columns(i * right.inp, right.inp);
            multiply(T::ONE, part.into(), x.into(), grad, Write::Add);
        }
        if let Some(mut dx) = dx {
            for (i, part) in parts.enumerate() {
                let dx = dx.reborrow().columns(i * right.inp, right.inp);
                let weight = self.b.view().into();
                multiply(T::ONE, Arg::Transposed(part), weight, dx, Write::Set);
            }
        }
    }

    /// Gradients of A and of B, if requested.
    fn halves<'a>(&self, grads: Option<&'a mut [T]>) -> (Option<&'a mut [T]>, Option<&'a mut [T]>) {
        grads.map(|grads| grads.split_at_mut(self.a.data().len())).unzip()
    }

    /// All `A_k X`, for the columns of x: (t · o1, i2 · rows).
    fn hidden_of_left(&self, columns: MatRef<'_, T>) -> Scratch<T> {
        let mut hidden = Scratch::new(self.a.rows() * columns.cols());
        let into = MatMut::new(&mut hidden, self.a.rows(), columns.cols());
        multiply(T::ONE, self.a.view().into(), columns.into(), into, Write::Set);
        hidden
    }

    fn forward_left_first(&self, x: MatRef<'_, T>, mut y: MatMut<'_, T>) {
        let (left, right, rows) = (self.left(), self.right(), x.rows());
        let (columns, wide) = (columns_of(x, x.rows()), right.inp * rows);
        let hidden = self.hidden_of_left(MatRef::new(&columns, left.inp, wide));
        for (at, hidden) in hidden.chunks_exact(wide).enumerate() {
            let (k, o) = (at / left.out, at % left.out);
            let hidden = Arg::Transposed(MatRef::new(hidden, right.inp, rows));
            let y = y.reborrow().columns(o * right.out, right.out);
            multiply(T::ONE, hidden, Arg::Transposed(self.b(k)), y, set_first(k));
        }
    }

    fn backward_left_first(&self, block: Block<'_, T>) {
        let Block { x, dy, dx, grads, .. } = block;
        let (left, right, rows) = (self.left(), self.right(), x.rows());
        let (mut grad_a, mut grad_b) = self.halves(grads);
        let (columns, wide) = (columns_of(x, x.rows()), right.inp * rows);
        let columns = MatRef::new(&columns, left.inp, wide);
        let hidden = self.hidden_of_left(columns);
        let mut d_hidden = Scratch::new(hidden.len());
        let size = right.out * right.inp;
        let parts = hidden.chunks_exact(wide).zip(d_hidden.chunks_exact_mut(wide));
        for (at, (hidden, d_hidden)) in parts.enumerate() {
            let (k, o) = (at / left.out, at % left.out);
            let dy = Arg::Transposed(dy.columns(o * right.out, right.out));
            let hidden = Arg::Transposed(MatRef::new(hidden, right.inp, rows));
            if let Some(grad) = &mut grad_b {
                let grad = MatMut::new(&mut grad[k * size..][..size], right.out, right.inp);
                multiply(T::ONE, dy, hidden, grad, Write::Add);
            }
            let into = MatMut::new(d_hidden, right.inp, rows);
            multiply(T::ONE, Arg::Transposed(self.b(k)), dy, into, Write::Set);
        }
        let d_hidden = MatRef::new(&d_hidden, self.a.rows(), wide);
        if let Some(grad) = &mut grad_a {
            let grad = MatMut::new(grad, self.a.rows(), left.inp);
            multiply(T::ONE, d_hidden.into(), Arg::Transposed(columns), grad, Write::Add);
        }
        if let Some(mut dx) = dx {
            let mut d_columns = Scratch::new(left.inp * wide);
            let into = MatMut::new(&mut d_columns, left.inp, wide);
            let weight = Arg::Transposed(self.a.view());
            multiply(T::ONE, weight, d_hidden.into(), into, Write::Set);
            from_columns(&d_columns, rows, &mut dx);
        }
    }
}

/// The first term is written, the others are added.
fn set_first(term: usize) -> Write {
    if term == 0 { Write::Set } else { Write::Add }
}

impl<T: Scalar> Map<T> for Kronecker<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::Kronecker(KroneckerSpec { terms: self.terms, left: Some(self.left()) })
    }

    fn shape(&self) -> Shape {
        let (left, right) = (self.left(), self.right());
        Shape { out: left.out * right.out, inp: left.inp * right.inp }
    }

    fn macs_per_row(&self) -> u64 {
        let [right_first, left_first] = self.macs();
        right_first.min(left_first)
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let [a, b] = self.shapes();
        vec![
            Param { name: "a".into(), shape: a, values: self.a.data() },
            Param { name: "b".into(), shape: b, values: self.b.data() },
        ]
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        let [a, b] = self.shapes();
        vec![
            ParamMut { name: "a".into(), shape: a, values: self.a.data_mut() },
            ParamMut { name: "b".into(), shape: b, values: self.b.data_mut() },
        ]
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        assert_eq!((x.rows(), x.cols()), (y.rows(), self.shape().inp), "input of the products");
        let right_first = self.right_first();
        row_pieces::forward(self.block(), x, y, |x, y| {
            if right_first { self.forward_right_first(x, y) } else { self.forward_left_first(x, y) }
        });
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        let right_first = self.right_first();
        row_pieces::backward(self.block(), args, ws, |block| {
            if right_first {
                self.backward_right_first(block);
            } else {
                self.backward_left_first(block);
            }
        });
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl<T: Scalar> LinearOp<T> for Kronecker<T> {}

impl KindOptions for KroneckerSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    fn standard() -> Self {
        Self::default()
    }

    fn sizes(&self, shape: Shape) -> Vec<Self> {
        let of_terms = |terms| Self { terms, ..*self };
        let term = <Kronecker<f32> as Structured<f32>>::numbers(&of_terms(1), shape);
        let most = shape.dense_parameters() as u64 / term.max(1);
        (1..=most.max(1) as usize).map(of_terms).collect()
    }

    fn shrunk(&self, _by: usize) -> Self {
        Self { left: None, ..*self }
    }
}

impl<T: Scalar> Structured<T> for Kronecker<T> {
    type Spec = KroneckerSpec;
    const KIND: &'static str = "kronecker";
    const EQUATION: &'static str = "W = sum_k A_k (x) B_k";
    const PARAMETERS: &'static str = "t (o1 i1 + o2 i2)";
    const MACS: &'static str = "t min(i1 o2 (i2 + o1), o1 i2 (i1 + o2))";

    fn numbers(spec: &KroneckerSpec, shape: Shape) -> u64 {
        let left = spec.left(shape);
        let right = |n: usize, k: usize| (n / k.max(1)) as u64;
        let of_left = (left.out as u64).saturating_mul(left.inp as u64);
        let of_right = right(shape.out, left.out).saturating_mul(right(shape.inp, left.inp));
        (spec.terms as u64).saturating_mul(of_left.saturating_add(of_right))
    }

    fn parts(spec: &KroneckerSpec, _shape: Shape) -> u64 {
        spec.terms as u64
    }

    fn random(spec: &KroneckerSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let refuse = |reason: String| OpError::Unsupported { kind: Self::KIND, shape, reason };
        let Shape { out, inp } = shape;
        if out == 0 || inp == 0 {
            return Err(refuse("both sides need at least one feature".into()));
        }
        let (terms, left) = (spec.terms, spec.left(shape));
        if terms == 0 || left.out == 0 || left.inp == 0 {
            return Err(refuse(format!(
                "{terms} terms with left factors {} x {}; all must be at least 1",
                left.out, left.inp
            )));
        }
        if let Some(reason) = divisors::refusal(shape, left) {
            return Err(refuse(format!(
                "{out} x {inp} features with left factors {} x {}: {reason}",
                left.out, left.inp
            )));
        }
        let (o2, i2) = (out / left.out, inp / left.inp);
        let a = as_of_linear(terms * left.out, left.inp, terms * left.inp, key.fold("a"));
        let b = as_of_linear(terms * o2, i2, i2, key.fold("b"));
        Ok(Self { terms, a, b })
    }

    fn examples() -> Vec<(KroneckerSpec, Shape)> {
        let case = |out, inp, terms, left: Option<(usize, usize)>| {
            let left = left.map(|(out, inp)| Shape { out, inp });
            (KroneckerSpec { terms, left }, Shape { out, inp })
        };
        vec![
            case(9, 9, 1, None),
            case(12, 10, 2, None),
            case(6, 15, 3, Some((2, 5))),
            case(7, 4, 2, Some((7, 1))),
            case(10, 6, 1, Some((2, 6))),
            case(1, 1, 2, None),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_of_the_products_in_the_cheaper_order() {
        for (o1, i1, right_first) in [(2, 5, false), (3, 3, true)] {
            let spec = KroneckerSpec { terms: 2, left: Some(Shape { out: o1, inp: i1 }) };
            let shape = Shape { out: 6, inp: 15 };
            let op: Kronecker<f64> = Kronecker::random(&spec, shape, RngKey::new(1)).unwrap();
            let (o2, i2) = (6 / o1, 15 / i1);
            let term = |k: usize, i: usize, j: usize| {
                op.a.at(o1 * k + i / o2, j / i2) * op.b.at(o2 * k + i % o2, j % i2)
            };
            for (at, found) in op.to_dense().data().iter().enumerate() {
                let (i, j) = (at / 15, at % 15);
                assert!((found - term(0, i, j) - term(1, i, j)).abs() < 1e-14);
            }
            assert_eq!(op.right_first(), right_first);
        }
    }

    #[test]
    fn an_outer_product_is_not_widened_to_all_its_entries() {
        let spec = KroneckerSpec { terms: 1, left: Some(Shape { out: 1, inp: 4096 }) };
        let shape = Shape { out: 4096, inp: 4096 };
        let op: Kronecker<f32> = Kronecker::random(&spec, shape, RngKey::new(0)).unwrap();
        assert_eq!(op.macs_per_row(), 2 * 4096);
    }

    #[test]
    fn impossible_factors_are_told_with_the_nearest_shapes() {
        let build = |terms, left| {
            let spec = KroneckerSpec { terms, left: Some(left) };
            Kronecker::<f32>::random(&spec, Shape { out: 12, inp: 10 }, RngKey::new(0))
                .unwrap_err()
                .to_string()
        };
        let said = "12 x 10 features with left factors 5 x 2: 12 is not a multiple of 5; nearest: 15 x 10 or 10 x 10";
        assert!(build(1, Shape { out: 5, inp: 2 }).contains(said));
        assert!(build(0, Shape { out: 1, inp: 1 }).contains("0 terms"));
        assert!(build(1, Shape { out: 0, inp: 1 }).contains("left factors 0 x 1"));
    }
}
