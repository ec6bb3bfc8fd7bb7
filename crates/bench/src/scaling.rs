//! An invertible test operator that multiplies every feature by a number. Its inverse divides by
//! `claimed`, which can differ for a wrong inverse.

use linwright_ops::{
    Backward, Invertible, LinearOp, LogDet, Map, Op, OpError, OpSpec, Param, ParamMut, Shape, Tape,
    Workspace,
};
use linwright_tensor::{MatMut, MatRef, Scalar};

#[derive(Clone, Debug)]
pub(super) struct Scaling {
    pub(super) features: usize,
    pub(super) factor: f64,
    pub(super) claimed: f64,
}

fn scaled<T: Scalar>(from: MatRef<'_, T>, mut to: MatMut<'_, T>, factor: f64) {
    for i in 0..from.rows() {
        for (to, from) in to.row_mut(i).iter_mut().zip(from.row(i)) {
            *to = T::from_f64(from.to_f64() * factor);
        }
    }
}

impl<T: Scalar> Map<T> for Scaling {
    fn spec(&self) -> OpSpec {
        super::standard("dense").unwrap()
    }

    fn shape(&self) -> Shape {
        Shape { out: self.features, inp: self.features }
    }

    fn macs_per_row(&self) -> u64 {
        self.features as u64
    }

    fn params(&self) -> Vec<Param<'_, T>> {
        Vec::new()
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        Vec::new()
    }

    fn forward(
        &self,
        x: MatRef<'_, T>,
        y: MatMut<'_, T>,
        _: Option<&mut Tape<T>>,
        _: &mut Workspace<T>,
    ) {
        scaled(x, y, self.factor);
    }

    fn backward(&self, args: Backward<'_, '_, T>, _: &mut Workspace<T>) {
        if let Some(dx) = args.dx {
            scaled(args.dy, dx, self.factor);
        }
    }

    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }

    fn invertible(&self) -> Option<&dyn Invertible<T>> {
        Some(self)
    }
}

impl<T: Scalar> LinearOp<T> for Scaling {}

impl<T: Scalar> Invertible<T> for Scaling {
    fn inverse(
        &self,
        y: MatRef<'_, T>,
        x: MatMut<'_, T>,
        _: &mut Workspace<T>,
    ) -> Result<(), OpError> {
        scaled(y, x, 1.0 / self.claimed);
        Ok(())
    }

    fn log_abs_det(&self) -> Result<LogDet, OpError> {
        Ok(LogDet { log_abs: self.features as f64 * self.claimed.abs().ln(), sign: 1.0 })
    }
}
