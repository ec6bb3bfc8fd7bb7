//! A dense weight held in 16 bits.
//!
//! `y = x Wᵀ`, W: (out, inp), in half the memory of [`Dense`](crate::Dense). Products widen the
//! numbers, which is exact, and compute in `f32`: results differ from those with `f32` weights at
//! most in the order of sums. Its kind is `dense`, and it is saved as such. It is not trainable: it
//! has no parameters, and [`Map::weight`] returns its numbers. Gradients pass through it to its
//! input, and it is never widened as a whole.

use crate::{
    Backward, DenseSpec, LinearOp, Map, Op, OpSpec, Param, ParamMut, Shape, Tape, Workspace,
};
use linwright_tensor::kernels::gemm::{Weight, linears, through_weight};
use linwright_tensor::{Halves, Mat, MatMut, MatRef, Shelf};
use std::io;
use std::sync::Arc;

/// A dense weight W (out, inp) in 16 bits: `y = x Wᵀ`. Copies share the numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct HalfDense {
    weight: Arc<Halves>,
}

impl HalfDense {
    /// From a weight (out, inp).
    #[must_use]
    pub fn new(weight: Halves) -> Self {
        Self::shared(Arc::new(weight))
    }

    /// From a shared weight (out, inp).
    #[must_use]
    pub fn shared(weight: Arc<Halves>) -> Self {
        Self { weight }
    }
}

impl Map<f32> for HalfDense {
    fn spec(&self) -> OpSpec {
        OpSpec::Dense(DenseSpec {})
    }

    fn shape(&self) -> Shape {
        Shape { out: self.weight.rows(), inp: self.weight.cols() }
    }

    fn macs_per_row(&self) -> u64 {
        self.shape().dense_parameters() as u64
    }

    fn params(&self) -> Vec<Param<'_, f32>> {
        Vec::new()
    }

    fn params_mut(&mut self) -> Vec<ParamMut<'_, f32>> {
        Vec::new()
    }

    fn weight(&self) -> Option<Weight<'_, f32>> {
        Some(Weight::Half(&self.weight))
    }

    fn forward(
        &self,
        x: MatRef<'_, f32>,
        y: MatMut<'_, f32>,
        _tape: Option<&mut Tape<f32>>,
        _ws: &mut Workspace<f32>,
    ) {
        linears(x, &mut [(Weight::Half(&self.weight), y)]);
    }

    fn backward(&self, args: Backward<'_, '_, f32>, _ws: &mut Workspace<f32>) {
        if let Some(dx) = args.dx {
            through_weight(args.dy, Weight::Half(&self.weight), dx);
        }
    }

    fn release(&self) {
        self.weight.release();
    }

    fn shelve(&mut self, shelf: &Shelf) -> io::Result<()> {
        match self.weight.is_mapped() {
            true => Ok(()),
            false => Arc::make_mut(&mut self.weight).shelve(shelf),
        }
    }

    fn clone_op(&self) -> Op<f32> {
        Op::Linear(Box::new(self.clone()))
    }
}

impl LinearOp<f32> for HalfDense {
    fn to_dense(&self) -> Mat<f32> {
        self.weight.to_mat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dense, InputId, LinearSlot, Place, SiteId, SlotRole, archive};
    use linwright_tensor::{HalfType, RngKey};

    fn pair(of: HalfType) -> (HalfDense, Dense<f32>) {
        let weight = Mat::from_vec(70, 130, RngKey::new(1).stream().normals(70 * 130, 1.0));
        let half = HalfDense::new(Halves::rounded(of, &weight));
        let wide = Dense::new(half.to_dense());
        (half, wide)
    }

    #[test]
    fn it_computes_what_the_same_numbers_compute_in_f32() {
        for of in HalfType::ALL {
            let (half, wide) = pair(of);
            for rows in [1, 4, 5, 47, 48, 130] {
                let x: Mat<f32> =
                    Mat::from_vec(rows, 130, RngKey::new(2).stream().normals(rows * 130, 1.0));
                let (mut a, mut b) = (Mat::zeros(rows, 70), Mat::zeros(rows, 70));
                half.forward(x.view(), a.view_mut(), None, &mut Workspace::default());
                wide.forward(x.view(), b.view_mut(), None, &mut Workspace::default());
                for (a, b) in a.data().iter().zip(b.data()) {
                    assert!((a - b).abs() < 2e-5, "{of:?}, {rows} rows: {a} and {b}");
                }
            }
        }
    }

    #[test]
    fn slots_count_it_and_archives_hold_it_as_any_dense_weight() {
        let (half, wide) = pair(HalfType::Bf16);
        let id = SiteId("a".into());
        let (reads, role) = (InputId("x".into()), SlotRole::new("query", &[]));
        let place = Place { reads, role, layer: None, stage: None };
        let slot = LinearSlot::new(id, place, half.clone_op(), None);
        assert_eq!(slot.parameters(), 70 * 130);
        let saved = [half.clone_op(), wide.clone_op()].map(|op| archive::save(&op).unwrap());
        assert_eq!(saved[0], saved[1]);
    }

    #[test]
    fn gradients_pass_through_it_as_through_the_same_numbers_in_f32() {
        for of in HalfType::ALL {
            let (half, wide) = pair(of);
            for rows in [1, 5, 130] {
                let x = Mat::zeros(rows, 130);
                let dy: Mat<f32> =
                    Mat::from_vec(rows, 70, RngKey::new(3).stream().normals(rows * 70, 1.0));
                let through = |op: &dyn Map<f32>| {
                    let (mut dx, tape) = (Mat::zeros(rows, 130), Tape::default());
                    let (x, dy, d_view) = (x.view(), dy.view(), Some(dx.view_mut()));
                    let args = Backward { x, dy, tape: &tape, dx: d_view, grads: None };
                    op.backward(args, &mut Workspace::default());
                    dx
                };
                let (a, b) = (through(&half), through(&wide));
                for (a, b) in a.data().iter().zip(b.data()) {
                    assert!((a - b).abs() < 2e-5, "{of:?}, {rows} rows: {a} and {b}");
                }
            }
        }
    }
}
