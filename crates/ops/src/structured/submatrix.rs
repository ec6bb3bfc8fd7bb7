//! A weight with only some rows and columns.
//!
//! `y = R A C x`: C selects the kept inputs (m), A: (n, m) is dense, R scatters its outputs (n) to
//! their positions; other outputs are zero. It represents pruned features if the model must keep
//! its widths, such as channels of queries, keys and values with rotary positions.
//!
//! | parameters | MACs per row |
//! | --- | --- |
//! | n · m | n · m |

use super::OpSpec;
use crate::{
    Backward, Buffer, BufferMut, KindOptions, LinearOp, Map, Op, OpError, Param, ParamMut, Shape,
    Structured, Tape, Workspace,
};
use linwright_tensor::kernels::gemm::{Arg, Write, linear, product};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const KIND: &str = "submatrix";

/// Options of [`Submatrix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmatrixSpec {
    /// Number n of kept outputs.
    pub outputs: usize,
    /// Number m of kept inputs.
    pub inputs: usize,
}

/// A weight with only some rows and columns: `y = R A C x`.
#[derive(Clone, Debug, PartialEq)]
pub struct Submatrix<T> {
    /// A (n, m).
    weight: Mat<T>,
    /// Positions of the kept outputs, ascending (n).
    rows: Vec<u32>,
    /// Positions of the kept inputs, ascending (m).
    columns: Vec<u32>,
    shape: Shape,
}

impl<T: Scalar> Submatrix<T> {
    /// The submatrix `weight` (n, m) of a map of `shape`, with the positions of its rows and
    /// columns.
    ///
    /// # Errors
    /// [`OpError::InvalidValues`] if positions do not ascend, are out of range, or do not match the
    /// rows and columns of the weight.
    pub fn new(
        weight: Mat<T>,
        rows: Vec<u32>,
        columns: Vec<u32>,
        shape: Shape,
    ) -> Result<Self, OpError> {
        let new = Self { weight, rows, columns, shape };
        new.check()?;
        Ok(new)
    }

    /// The rows and columns of a weight (out, inp) at some positions.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(weight: MatRef<'_, T>, rows: Vec<u32>, columns: Vec<u32>) -> Result<Self, OpError> {
        let shape = Shape { out: weight.rows(), inp: weight.cols() };
        check_places("rows", &rows, shape.out)?;
        check_places("columns", &columns, shape.inp)?;
        let at = |i: usize, j: usize| weight.at(rows[i] as usize, columns[j] as usize);
        let kept = Mat::from_fn(rows.len(), columns.len(), at);
        Self::new(kept, rows, columns, shape)
    }

    /// Positions of the kept outputs, ascending.
    #[must_use]
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Positions of the kept inputs, ascending.
    #[must_use]
    pub fn columns(&self) -> &[u32] {
        &self.columns
    }

    fn spec_of(&self) -> SubmatrixSpec {
        SubmatrixSpec { outputs: self.rows.len(), inputs: self.columns.len() }
    }
}

/// Checks that positions ascend below `features`.
fn check_places(name: &str, places: &[u32], features: usize) -> Result<(), OpError> {
    let invalid = |reason| OpError::InvalidValues { kind: KIND, name: name.to_owned(), reason };
    if let Some(place) = places.iter().find(|place| **place as usize >= features) {
        return Err(invalid(format!("{place} of {features} features, which count from 0")));
    }
    match places.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(invalid(format!("{} after {}, expected ascending", pair[1], pair[0]))),
        None => Ok(()),
    }
}

/// Columns of `from` at `places`, as a matrix of the workspace.
fn gathered<T: Scalar>(from: MatRef<'_, T>, places: &[u32], ws: &mut Workspace<T>) -> Mat<T> {
    let mut into = ws.take(from.rows(), places.len());
    for row in 0..from.rows() {
        let source = from.row(row);
        let pairs = into.row_mut(row).iter_mut().zip(places);
        pairs.for_each(|(value, place)| *value = source[*place as usize]);
    }
    into
}

/// Scatters the columns of `from` to `places`, with zeros elsewhere.
fn scatter<T: Scalar>(from: &Mat<T>, places: &[u32], mut into: MatMut<'_, T>) {
    for row in 0..from.rows() {
        let target = into.row_mut(row);
        target.fill(T::ZERO);
        let pairs = from.row(row).iter().zip(places);
        pairs.for_each(|(value, place)| target[*place as usize] = *value);
    }
}

impl<T: Scalar> Map<T> for Submatrix<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::Submatrix(self.spec_of())
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn macs_per_row(&self) -> u64 {
        (self.rows.len() * self.columns.len()) as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        let shape = vec![self.rows.len(), self.columns.len()];
        vec![Param { name: "weight".into(), shape, values: self.weight.data() }]
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        let shape = vec![self.rows.len(), self.columns.len()];
        vec![ParamMut { name: "weight".into(), shape, values: self.weight.data_mut() }]
    }

    fn buffers(&self) -> Vec<Buffer<'_>> {
        let buffer = |name: &str, values| Buffer { name: name.to_owned(), values };
        vec![buffer("rows", &self.rows), buffer("columns", &self.columns)]
    }

    fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        vec![
            BufferMut { name: "rows".into(), values: &mut self.rows },
            BufferMut { name: "columns".into(), values: &mut self.columns },
        ]
    }

    fn check(&self) -> Result<(), OpError> {
        check_places("rows", &self.rows, self.shape.out)?;
        check_places("columns", &self.columns, self.shape.inp)?;
        let (found, expected) =
            ((self.weight.rows(), self.weight.cols()), (self.rows.len(), self.columns.len()));
        if found == expected {
            return Ok(());
        }
        let reason = format!("has the shape {found:?}, the kept positions need {expected:?}");
        Err(OpError::InvalidValues { kind: KIND, name: "weight".into(), reason })
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        ws: &mut Workspace<T>,
    ) {
        let kept = gathered(x, &self.columns, ws);
        let mut out = ws.take(x.rows(), self.rows.len());
        linear(kept.view(), self.weight.view(), out.view_mut(), Write::Set);
        scatter(&out, &self.rows, y);
        ws.give(kept);
        ws.give(out);
    }

    fn backward(&self, args: Backward<'_, '_, T>, ws: &mut Workspace<T>) {
        let Backward { x, dy, dx, grads, .. } = args;
        let away = gathered(dy, &self.rows, ws);
        if let Some(grads) = grads {
            let kept = gathered(x, &self.columns, ws);
            let grad = MatMut::new(grads.get_mut(0), self.rows.len(), self.columns.len());
            let (away, inputs) = (Arg::Transposed(away.view()), Arg::Plain(kept.view()));
            product(T::ONE, away, inputs, grad, Write::Add);
            ws.give(kept);
        }
        if let Some(dx) = dx {
            let mut back = ws.take(x.rows(), self.columns.len());
            let (away, weight) = (Arg::Plain(away.view()), Arg::Plain(self.weight.view()));
            product(T::ONE, away, weight, back.view_mut(), Write::Set);
            scatter(&back, &self.columns, dx);
            ws.give(back);
        }
        ws.give(away);
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }

    fn matrices_mut(&mut self) -> Vec<&mut Mat<T>> {
        vec![&mut self.weight]
    }

    fn release(&self) {
        self.weight.release();
    }
}

impl<T: Scalar> LinearOp<T> for Submatrix<T> {
    fn to_dense(&self) -> Mat<T> {
        let mut dense = Mat::zeros(self.shape.out, self.shape.inp);
        for (i, &row) in self.rows.iter().enumerate() {
            for (j, &column) in self.columns.iter().enumerate() {
                *dense.at_mut(row as usize, column as usize) = self.weight.at(i, j);
            }
        }
        dense
    }
}

impl KindOptions for SubmatrixSpec {
    const EXPORTED: bool = true;
    const COUNTS_INDICES: bool = false;

    fn standard() -> Self {
        Self { outputs: 64, inputs: 64 }
    }

    fn sizes(&self, _shape: Shape) -> Vec<Self> {
        vec![*self]
    }

    fn shrunk(&self, by: usize) -> Self {
        let fewer = |features: usize| (features / by).max(1);
        Self { outputs: fewer(self.outputs), inputs: fewer(self.inputs) }
    }
}

impl<T: Scalar> Structured<T> for Submatrix<T> {
    type Spec = SubmatrixSpec;
    const KIND: &'static str = KIND;
    const EQUATION: &'static str = "W = R A C, R and C select kept rows and columns";
    const PARAMETERS: &'static str = "outputs inputs";
    const MACS: &'static str = "outputs inputs";

    fn numbers(spec: &SubmatrixSpec, _shape: Shape) -> u64 {
        let SubmatrixSpec { outputs, inputs } = *spec;
        let places = (outputs as u64).saturating_add(inputs as u64);
        (outputs as u64).saturating_mul(inputs as u64).saturating_add(places)
    }

    fn random(spec: &SubmatrixSpec, shape: Shape, key: RngKey) -> Result<Self, OpError> {
        let SubmatrixSpec { outputs, inputs } = *spec;
        let fits = (1..=shape.out).contains(&outputs) && (1..=shape.inp).contains(&inputs);
        if !fits {
            let reason = format!(
                "it keeps {outputs} outputs and {inputs} inputs, expected at least 1 and at most \
                 all"
            );
            return Err(OpError::Unsupported { kind: KIND, shape, reason });
        }
        let places = |name: &str, features: usize, count: usize| {
            let mut places = key.fold(name).stream().permutation(features);
            places.truncate(count);
            places.sort_unstable();
            places
        };
        let bound = 1.0 / (inputs as f64).sqrt();
        let mut stream = key.fold("weight").stream();
        let draw = |_, _| T::from_f64(bound * (2.0 * stream.uniform() - 1.0));
        let weight = Mat::from_fn(outputs, inputs, draw);
        let (rows, columns) =
            (places("rows", shape.out, outputs), places("columns", shape.inp, inputs));
        Self::new(weight, rows, columns, shape)
    }

    fn examples() -> Vec<(SubmatrixSpec, Shape)> {
        [(8, 8, 5, 8), (5, 12, 5, 7), (7, 3, 2, 2), (1, 6, 1, 1)]
            .map(|(out, inp, outputs, inputs)| {
                (SubmatrixSpec { outputs, inputs }, Shape { out, inp })
            })
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_weight_with_zeros_elsewhere() {
        let weight = Mat::from_fn(3, 4, |i, j| (10 * i + j + 1) as f64);
        let op = Submatrix::of(weight.view(), vec![0, 2], vec![1, 3]).expect("valid places");
        let kept = |i: usize, j: usize| i != 1 && j % 2 == 1;
        let expected = Mat::from_fn(3, 4, |i, j| if kept(i, j) { weight.at(i, j) } else { 0.0 });
        assert_eq!(op.to_dense(), expected);
    }

    #[test]
    fn places_ascend_within_the_features() {
        let weight = Mat::<f64>::zeros(3, 4);
        let reason = |rows: Vec<u32>| {
            Submatrix::of(weight.view(), rows, vec![0]).expect_err("invalid").to_string()
        };
        assert!(reason(vec![0, 3]).contains("3 of 3 features"));
        assert!(reason(vec![1, 1]).contains("1 after 1"));
    }
}
