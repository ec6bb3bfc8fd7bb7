//! Training of one operator by mean squared error, step by step.

use linwright_ops::{Backward, Grads, Op, Tape, Workspace};
use linwright_tensor::kernels::elementwise::all_finite;
use linwright_tensor::{Mat, parallel};
use linwright_train::{Optimizer, OptimizerSettings, Slice};

/// Numbers per work item.
const PIECE: usize = 1 << 14;

/// An operator with the state of Adam.
#[derive(Debug)]
pub(crate) struct Learner {
    pub(crate) op: Op<f32>,
    grads: Grads<f32>,
    optimizer: Optimizer,
    steps: u64,
    tape: Tape<f32>,
    ws: Workspace<f32>,
}

impl Learner {
    pub(crate) fn new(op: Op<f32>) -> Self {
        let grads = Grads::zeros(&op.map().params());
        let (optimizer, tape, ws) = (Optimizer::default(), Tape::default(), Workspace::default());
        Self { op, grads, optimizer, steps: 0, tape, ws }
    }

    /// One step of Adam from the rows of `x` (rows, inp) towards `target` (rows, out); `y`
    /// (rows, out) is overwritten.
    ///
    /// # Panics
    /// If the shapes do not match.
    pub(crate) fn step(&mut self, x: &Mat<f32>, target: &Mat<f32>, y: &mut Mat<f32>, rate: f64) {
        let Self { op, grads, optimizer, steps, tape, ws } = self;
        *steps += 1;
        tape.clear();
        op.map().forward(x.view(), y.view_mut(), Some(tape), ws);
        mean_square_gradient(y, target);
        grads.clear();
        let args = Backward { x: x.view(), dy: y.view(), tape, dx: None, grads: Some(grads) };
        op.map().backward(args, ws);
        let params = op.map_mut().params_mut().into_iter().zip(grads.iter_mut());
        let slices = params
            .map(|(p, gradient)| Slice {
                name: p.name,
                values: p.values,
                gradient: gradient.into(),
                decay: false,
            })
            .collect();
        optimizer.update(&OptimizerSettings::default(), rate, *steps, slices);
    }

    /// Whether all parameters are finite.
    pub(crate) fn is_finite(&self) -> bool {
        self.op.map().params().iter().all(|p| all_finite(p.values))
    }
}

/// Replaces y by the gradient of the mean of (y - target)² over all entries.
fn mean_square_gradient(y: &mut Mat<f32>, target: &Mat<f32>) {
    assert_eq!((y.rows(), y.cols()), (target.rows(), target.cols()), "shapes of y and target");
    let scale = 2.0 / y.data().len().max(1) as f32;
    let target = target.data();
    parallel::for_each_chunk(y.data_mut(), PIECE, |piece, y| {
        let target = &target[piece * PIECE..][..y.len()];
        y.iter_mut().zip(target).for_each(|(y, t)| *y = scale * (*y - t));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_ops::{OpSpec, RotorSpec, Shape};
    use linwright_tensor::RngKey;

    #[test]
    fn the_gradient_is_that_of_the_mean() {
        let mut y = Mat::from_vec(2, 2, vec![1.0, 2.0, 3.0, 4.0]);
        let target = Mat::from_vec(2, 2, vec![1.0, 0.0, 3.0, 8.0]);
        mean_square_gradient(&mut y, &target);
        assert_eq!(y.data(), [0.0, 1.0, 0.0, -2.0]);
    }

    #[test]
    fn a_rotor_comes_nearer_to_another() {
        let spec = OpSpec::Rotor(RotorSpec::default());
        let shape = Shape { out: 16, inp: 16 };
        let target: Op<f32> = spec.random(shape, RngKey::new(1)).unwrap();
        let mut learner = Learner::new(spec.random(shape, RngKey::new(2)).unwrap());
        let x = Mat::from_vec(64, 16, RngKey::new(3).stream().normals(64 * 16, 1.0));
        let map = |op: &Op<f32>| {
            let mut y = Mat::zeros(64, 16);
            op.map().forward(x.view(), y.view_mut(), None, &mut Workspace::default());
            y
        };
        let wanted = map(&target);
        let off = |op: &Op<f32>| -> f32 {
            map(op).data().iter().zip(wanted.data()).map(|(a, b)| (a - b).powi(2)).sum()
        };
        let before = off(&learner.op);
        let mut y = Mat::zeros(64, 16);
        for _ in 0..50 {
            learner.step(&x, &wanted, &mut y, 0.05);
        }
        assert!(off(&learner.op) < 0.5 * before && learner.is_finite());
    }
}
