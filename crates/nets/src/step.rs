//! Steps: what a network computes one after the other.

use linwright_ops::{Backward, LinearSlot, Tape, Workspace};
use linwright_tensor::{Mat, MatRef, RngKey, Scalar};
use std::fmt::Debug;

/// What a tensor of a network is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorUse {
    /// Trained, with weight decay.
    Weight,
    /// Trained, without: biases, scales, shifts.
    Vector,
    /// Not trained: running statistics.
    Statistic,
}

/// One named tensor of a network, mutable.
#[derive(Debug)]
pub struct NetTensor<'a, T> {
    /// Name, in files too.
    pub name: String,
    /// Shape in files, row-major.
    pub shape: Vec<usize>,
    /// The numbers.
    pub values: &'a mut [T],
    /// What it is for.
    pub purpose: TensorUse,
}

/// Sees the slots of a pass.
pub(crate) trait Watch<T: Scalar> {
    fn forward(&mut self, _slot: &LinearSlot<T>, _x: MatRef<'_, T>, _y: MatRef<'_, T>) {}
    fn backward(&mut self, _slot: &LinearSlot<T>, _x: MatRef<'_, T>, _dy: MatRef<'_, T>) {}
}

/// Sees nothing.
pub(crate) struct Blind;

impl<T: Scalar> Watch<T> for Blind {}

/// A pass forward, at one step.
pub(crate) struct Pass<'a, T: Scalar> {
    /// Inputs of the residual branches around this step.
    pub(crate) stack: &'a mut Vec<Mat<T>>,
    /// Sees the slots.
    pub(crate) watch: &'a mut dyn Watch<T>,
    /// Whether to keep what the pass back needs.
    pub(crate) keep: bool,
    /// In training, the key of the step.
    pub(crate) training: Option<RngKey>,
}

/// What a step keeps for the pass back.
#[derive(Debug, Default)]
pub(crate) struct Kept<T> {
    pub(crate) mats: Vec<Mat<T>>,
    pub(crate) tapes: Vec<Tape<T>>,
    pub(crate) vectors: Vec<Vec<T>>,
    pub(crate) picks: Vec<u32>,
}

/// A pass back, at one step.
pub(crate) struct Back<'a, T: Scalar> {
    /// Gradients for the inputs of residual branches.
    pub(crate) stack: &'a mut Vec<Mat<T>>,
    /// Sees the slots.
    pub(crate) watch: &'a mut dyn Watch<T>,
    /// Gradients of the tensors, in the order of [`Step::tensors_mut`], added to.
    pub(crate) grads: Option<&'a mut [Vec<T>]>,
    /// Whether the gradient of the input is needed; it may be empty otherwise.
    pub(crate) needs_dx: bool,
}

/// One step. A kind of layer is one file with an implementation, and its lines in `spec` and
/// `build`.
pub(crate) trait Step<T: Scalar>: Debug + Send + Sync {
    fn clone_step(&self) -> Box<dyn Step<T>>;

    fn slots(&self) -> Vec<&LinearSlot<T>> {
        Vec::new()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        Vec::new()
    }

    fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        let slots = self.slots_mut().into_iter();
        slots.flat_map(|slot| slot_tensors(slot, None)).collect()
    }

    /// Number of trained numbers outside the operators of slots.
    fn other_parameters(&self) -> usize {
        self.slots().iter().map(|slot| slot.bias().map_or(0, <[T]>::len)).sum()
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>);

    fn backward(&self, dy: Mat<T>, kept: &Kept<T>, back: &mut Back<'_, T>) -> Mat<T>;

    /// Takes statistics of a pass in training.
    fn learn(&mut self, _kept: &Kept<T>) {}
}

/// The tensors of a slot; a dense weight has this shape in files, if given.
pub(crate) fn slot_tensors<'a, T: Scalar>(
    slot: &'a mut LinearSlot<T>,
    shape: Option<&[usize]>,
) -> Vec<NetTensor<'a, T>> {
    let id = slot.id().clone();
    let dense = slot.op().map().weight().is_some();
    let (op, bias) = slot.parts_mut();
    let mut tensors: Vec<_> = op
        .map_mut()
        .params_mut()
        .into_iter()
        .map(|param| NetTensor {
            name: format!("{id}.{}", param.name),
            shape: shape.filter(|_| dense).map_or(param.shape, <[usize]>::to_vec),
            values: param.values,
            purpose: TensorUse::Weight,
        })
        .collect();
    tensors.extend(bias.map(|values| NetTensor {
        name: format!("{id}.bias"),
        shape: vec![values.len()],
        values,
        purpose: TensorUse::Vector,
    }));
    tensors
}

/// The output of a slot, which the watcher sees, and its tape.
pub(crate) fn slot_forward<T: Scalar>(
    slot: &LinearSlot<T>,
    x: &Mat<T>,
    pass: &mut Pass<'_, T>,
) -> (Mat<T>, Tape<T>) {
    let (mut y, mut tape) = (Mat::zeros(x.rows(), slot.shape().out), Tape::default());
    let into = pass.keep.then_some(&mut tape);
    slot.forward(x.view(), y.view_mut(), into, &mut Workspace::default());
    pass.watch.forward(slot, x.view(), y.view());
    (y, tape)
}

/// The gradient of a slot's input, empty unless needed; `first` is the number of its first tensor
/// in the step.
pub(crate) fn slot_backward<T: Scalar>(
    slot: &LinearSlot<T>,
    (x, tape): (&Mat<T>, &Tape<T>),
    dy: &Mat<T>,
    back: &mut Back<'_, T>,
    (first, needs_dx): (usize, bool),
) -> Mat<T> {
    back.watch.backward(slot, x.view(), dy.view());
    let mut dx = if needs_dx { Mat::zeros(x.rows(), x.cols()) } else { Mat::default() };
    let mut own = back.grads.is_some().then(|| slot.zero_grads());
    let count = own.as_ref().map_or(0, linwright_ops::Grads::len);
    let mut of_slot = back.grads.as_deref_mut().map(|grads| &mut grads[first..]);
    let bias = match (slot.bias(), &mut of_slot) {
        (Some(_), Some(grads)) => Some(&mut grads[count][..]),
        _ => None,
    };
    let into = needs_dx.then(|| dx.view_mut());
    let args = Backward { x: x.view(), dy: dy.view(), tape, dx: into, grads: own.as_mut() };
    slot.backward(args, bias, &mut Workspace::default());
    if let (Some(own), Some(grads)) = (own, of_slot) {
        for (sum, own) in grads.iter_mut().zip(own.iter()) {
            sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += *own);
        }
    }
    dx
}
