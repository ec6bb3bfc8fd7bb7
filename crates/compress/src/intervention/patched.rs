//! A fused weight with one part replaced, for sweeps: all sizes share the rest.

use linwright_ops::{Backward, LinearOp, Map, Op, OpSpec, Param, ParamMut, Shape, Tape, Workspace};
use linwright_tensor::{Mat, MatMut, MatRef};
use std::sync::Arc;

/// `y = W x`, where some outputs come from another operator. It cannot be archived; the dense
/// weight that it equals is saved instead.
#[derive(Clone, Debug)]
pub(super) struct Patched {
    whole: Op<f32>,
    /// Outputs of the part, in its order.
    rows: Arc<[usize]>,
    part: Op<f32>,
}

impl Patched {
    /// The operator `whole` with the outputs `rows` from `part`.
    ///
    /// # Panics
    /// If the part has another number of outputs, or the inputs differ.
    #[track_caller]
    pub(super) fn new(whole: Op<f32>, rows: Arc<[usize]>, part: Op<f32>) -> Self {
        let (all, own) = (whole.map().shape(), part.map().shape());
        assert_eq!((own.out, own.inp), (rows.len(), all.inp), "shape of the part");
        Self { whole, rows, part }
    }
}

impl Map<f32> for Patched {
    fn spec(&self) -> OpSpec {
        OpSpec::External { name: "patched" }
    }

    fn shape(&self) -> Shape {
        self.whole.map().shape()
    }

    fn macs_per_row(&self) -> u64 {
        self.whole.map().macs_per_row() + self.part.map().macs_per_row()
    }

    fn params(&self) -> Vec<Param<'_, f32>> {
        Vec::new()
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, f32>> {
        Vec::new()
    }

    fn forward(
        &self,
        x: MatRef<'_, f32>,
        mut y: MatMut<'_, f32>,
        _tape: Option<&mut Tape<f32>>,
        ws: &mut Workspace<f32>,
    ) {
        let mut own = Mat::zeros(x.rows(), self.rows.len());
        self.part.map().forward(x, own.view_mut(), None, ws);
        self.whole.map().forward(x, y.reborrow(), None, ws);
        for i in 0..x.rows() {
            for (output, value) in self.rows.iter().zip(own.row(i)) {
                y.row_mut(i)[*output] = *value;
            }
        }
    }

    fn backward(&self, args: Backward<'_, '_, f32>, ws: &mut Workspace<f32>) {
        let Some(mut dx) = args.dx else { return };
        let (mut rest, tape) = (args.dy.to_mat(), Tape::default());
        let own =
            Mat::from_fn(args.dy.rows(), self.rows.len(), |i, k| args.dy.row(i)[self.rows[k]]);
        for i in 0..rest.rows() {
            self.rows.iter().for_each(|output| rest.row_mut(i)[*output] = 0.0);
        }
        let mut of_part = Mat::zeros(dx.rows(), dx.cols());
        for (op, dy, dx) in
            [(&self.whole, &rest, dx.reborrow()), (&self.part, &own, of_part.view_mut())]
        {
            let args =
                Backward { x: args.x, dy: dy.view(), tape: &tape, dx: Some(dx), grads: None };
            op.map().backward(args, ws);
        }
        for i in 0..dx.rows() {
            dx.row_mut(i).iter_mut().zip(of_part.row(i)).for_each(|(d, own)| *d += own);
        }
    }

    fn clone_op(&self) -> Op<f32> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl LinearOp<f32> for Patched {}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::{Dense, LowRank};
    use linwright_tensor::RngKey;

    #[test]
    fn it_is_the_weight_with_its_rows_replaced() {
        let random = |rows, cols, seed| {
            let numbers = RngKey::new(seed).stream().normals(rows * cols, 1.0);
            Mat::<f32>::from_vec(rows, cols, numbers)
        };
        let (weight, u, v) = (random(6, 4, 1), random(2, 1, 2), random(1, 4, 3));
        let part = Op::Linear(Box::new(LowRank::new(u.clone(), v.clone())) as _);
        let whole = Op::Linear(Box::new(Dense::new(weight.clone())) as _);
        let patched = Patched::new(whole, [4, 1].into(), part);
        let expected = Mat::from_fn(6, 4, |i, j| match i {
            4 => u.at(0, 0) * v.at(0, j),
            1 => u.at(1, 0) * v.at(0, j),
            _ => weight.at(i, j),
        });
        let close = |a: &Mat<f32>, b: &Mat<f32>| {
            a.data().iter().zip(b.data()).all(|(a, b)| (a - b).abs() < 1e-5)
        };
        assert!(close(&patched.to_dense(), &expected));
        let (dy, x, mut dx) = (random(3, 6, 4), Mat::zeros(3, 4), Mat::zeros(3, 4));
        let args = Backward {
            x: x.view(),
            dy: dy.view(),
            tape: &Tape::default(),
            dx: Some(dx.view_mut()),
            grads: None,
        };
        patched.backward(args, &mut Workspace::default());
        let want = Mat::from_fn(3, 4, |i, j| (0..6).map(|o| dy.at(i, o) * expected.at(o, j)).sum());
        assert!(close(&dx, &want));
    }
}
