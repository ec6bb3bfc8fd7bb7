//! An operator of your own, from outside the library: a diagonal and a shift by one,
//! `y_i = d_i x_{i + 1}`, round the end. `cargo run --example 06_own_operator`
#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use linwright::ops::{
    Backward, InputId, LinearOp, LinearSlot, Map, Op, OpSpec, Param, ParamMut, Place, Shape,
    SiteId, SlotRole, Tape, Workspace, conformance,
};
use linwright::tensor::{Mat, MatMut, MatRef, Scalar};

#[derive(Clone, Debug)]
struct ShiftedDiagonal<T>(Vec<T>);

impl<T: Scalar> Map<T> for ShiftedDiagonal<T> {
    fn spec(&self) -> OpSpec {
        OpSpec::External { name: "shifted_diagonal" }
    }
    fn shape(&self) -> Shape {
        Shape { out: self.0.len(), inp: self.0.len() }
    }
    fn macs_per_row(&self) -> u64 {
        self.0.len() as u64
    }
    fn params(&self) -> Vec<Param<'_, T>> {
        vec![Param { name: "d".into(), shape: vec![self.0.len()], values: &self.0 }]
    }
    fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        vec![ParamMut { name: "d".into(), shape: vec![self.0.len()], values: &mut self.0 }]
    }
    fn forward(
        &self,
        x: MatRef<'_, T>,
        mut y: MatMut<'_, T>,
        _tape: Option<&mut Tape<T>>,
        _ws: &mut Workspace<T>,
    ) {
        for row in 0..x.rows() {
            for (i, &d) in self.0.iter().enumerate() {
                y.row_mut(row)[i] = d * x.at(row, (i + 1) % self.0.len());
            }
        }
    }
    fn backward(&self, args: Backward<'_, '_, T>, _ws: &mut Workspace<T>) {
        let Backward { x, dy, mut dx, mut grads, .. } = args;
        for row in 0..x.rows() {
            for (i, &d) in self.0.iter().enumerate() {
                let from = (i + 1) % self.0.len();
                if let Some(grads) = &mut grads {
                    grads.get_mut(0)[i] += dy.at(row, i) * x.at(row, from);
                }
                if let Some(dx) = &mut dx {
                    dx.row_mut(row)[from] = d * dy.at(row, i);
                }
            }
        }
    }
    fn clone_op(&self) -> Op<T> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl<T: Scalar> LinearOp<T> for ShiftedDiagonal<T> {}

fn main() -> Result<(), conformance::Failure> {
    // Every law of a linear operator: gradients, linearity, split batches, and more.
    conformance::check(&ShiftedDiagonal(vec![1.0, -2.0, 3.0, 0.5, 4.0]).clone_op())?;

    let op = ShiftedDiagonal(vec![1.0_f32, 2.0, 3.0]).clone_op();
    let (reads, role) = (InputId("rows".into()), SlotRole::new("example", &[]));
    let place = Place { reads, role, layer: None, stage: None };
    let slot = LinearSlot::new(SiteId("example".into()), place, op, Some(vec![0.5; 3]));
    let (x, mut y) = (Mat::from_vec(1, 3, vec![10.0, 20.0, 30.0]), Mat::zeros(1, 3));
    slot.forward(x.view(), y.view_mut(), None, &mut Workspace::default());
    println!("the operator conforms; in its slot it maps {:?} to {:?}", x.data(), y.data());
    Ok(())
}
