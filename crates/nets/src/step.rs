//! Steps: what a network computes one after the other.

use linwright_ops::{Backward, LinearSlot, Tape, Workspace};
use linwright_tensor::kernels::batch_norm::column_sums;
use linwright_tensor::kernels::gemm::{Arg, Weight, Write, product};
use linwright_tensor::{Mat, MatMut, MatRef, RngKey, Scalar};
use std::fmt::Debug;

/// The role of a tensor in a network.
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
    /// Its role.
    pub purpose: TensorUse,
}

impl<'a, T> NetTensor<'a, T> {
    /// A vector of this name.
    pub(crate) fn vector(name: String, values: &'a mut [T], purpose: TensorUse) -> Self {
        Self { name, shape: vec![values.len()], values, purpose }
    }
}

/// Observes the slots of a pass.
pub(crate) trait Watch<T: Scalar> {
    /// Whether it observes anything; otherwise inputs and outputs need not be formed.
    fn looks(&self) -> bool {
        true
    }

    fn forward(&mut self, _slot: &LinearSlot<T>, _x: MatRef<'_, T>, _y: MatRef<'_, T>) {}

    /// Whether [`Self::backward`] needs the input of a slot, too.
    fn wants_input(&self, _slot: &LinearSlot<T>) -> bool {
        false
    }

    fn backward(&mut self, _slot: &LinearSlot<T>, _x: Option<&Mat<T>>, _dy: &Mat<T>) {}
}

/// Sees nothing.
pub(crate) struct Blind;

impl<T: Scalar> Watch<T> for Blind {
    fn looks(&self) -> bool {
        false
    }
}

/// Which data a forward pass keeps for the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing.
    Nothing,
    /// Data for gradients of inputs.
    ForInputs,
    /// Also data for gradients of tensors.
    ForTensors,
}

/// A forward pass, at one step.
pub(crate) struct Pass<'a, T: Scalar> {
    /// Inputs of the enclosing residual branches.
    pub(crate) stack: &'a mut Vec<Mat<T>>,
    /// Sees the slots.
    pub(crate) watch: &'a mut dyn Watch<T>,
    /// What to keep.
    pub(crate) keep: Keep,
    /// In training, the key of the step.
    pub(crate) training: Option<RngKey>,
    /// Memory.
    pub(crate) ws: &'a mut Workspace<T>,
}

impl<T: Scalar> Pass<'_, T> {
    /// Whether anything is kept.
    pub(crate) fn keeps(&self) -> bool {
        self.keep != Keep::Nothing
    }

    /// The output of a slot, which is shown to the observer, and its tape.
    pub(crate) fn through(&mut self, slot: &LinearSlot<T>, x: &Mat<T>) -> (Mat<T>, Tape<T>) {
        let (mut y, mut tape) = (self.ws.take(x.rows(), slot.shape().out), Tape::default());
        let into = self.keeps().then_some(&mut tape);
        slot.forward(x.view(), y.view_mut(), into, self.ws);
        self.watch.forward(slot, x.view(), y.view());
        (y, tape)
    }

    /// Keeps the input of slots if the backward pass reads it; otherwise its memory is reused.
    pub(crate) fn keep_input(&mut self, slots: &[&LinearSlot<T>], x: Mat<T>) -> Option<Mat<T>> {
        let reads =
            |slot: &&LinearSlot<T>| dense_weight(slot).is_none() || self.watch.wants_input(slot);
        let kept = match self.keep {
            Keep::Nothing => false,
            Keep::ForInputs => slots.iter().any(reads),
            Keep::ForTensors => true,
        };
        if kept {
            return Some(x);
        }
        self.ws.give(x);
        None
    }
}

/// Data of a step for the backward pass.
#[derive(Debug, Default)]
pub(crate) struct Kept<T> {
    pub(crate) mats: Vec<Mat<T>>,
    pub(crate) input: Option<Mat<T>>,
    pub(crate) tapes: Vec<Tape<T>>,
    pub(crate) vectors: Vec<Vec<T>>,
    pub(crate) picks: Vec<u32>,
}

impl<T: Scalar> Kept<T> {
    /// A matrix alone.
    pub(crate) fn of(mat: Mat<T>) -> Self {
        Self { mats: vec![mat], ..Self::default() }
    }

    /// Returns the memory.
    pub(crate) fn release(self, ws: &mut Workspace<T>) {
        self.mats.into_iter().chain(self.input).for_each(|mat| ws.give(mat));
    }
}

/// Factors of the gradient `dyᵀ x` of a weight.
#[derive(Debug)]
pub(crate) struct Factors<T> {
    pub(crate) dy: Mat<T>,
    pub(crate) x: Mat<T>,
}

/// Gradients of tensors.
pub(crate) struct TensorGrads<'a, T> {
    /// The gradients, which are overwritten. They are empty if only factors are needed.
    pub(crate) numbers: &'a mut [Vec<T>],
    /// Factors of gradients that are products, which are overwritten; may be empty.
    pub(crate) factors: &'a mut [Option<Factors<T>>],
}

/// A backward pass, at one step.
pub(crate) struct Back<'a, T: Scalar> {
    /// Gradients for the inputs of residual branches.
    pub(crate) stack: &'a mut Vec<Mat<T>>,
    /// Sees the slots.
    pub(crate) watch: &'a mut dyn Watch<T>,
    /// Gradients of the tensors, in the order of [`Step::tensors_mut`].
    pub(crate) grads: Option<TensorGrads<'a, T>>,
    /// Whether the gradient of the input is needed; it may be empty otherwise.
    pub(crate) needs_dx: bool,
    /// Memory.
    pub(crate) ws: &'a mut Workspace<T>,
}

/// A slot in a pass back.
pub(crate) struct SlotBack<'a, T: Scalar> {
    pub(crate) slot: &'a LinearSlot<T>,
    /// Its input, if it was kept.
    pub(crate) x: Option<&'a Mat<T>>,
    pub(crate) tape: &'a Tape<T>,
    /// Gradient of its output.
    pub(crate) dy: &'a Mat<T>,
    /// Number of its first tensor in the step.
    pub(crate) first_tensor: usize,
    /// Whether the gradient of its input is needed.
    pub(crate) needs_dx: bool,
}

impl<T: Scalar> Back<'_, T> {
    /// The gradient of a slot's input, empty unless needed.
    ///
    /// # Panics
    /// If the input was not kept, and is needed.
    pub(crate) fn through(&mut self, at: &SlotBack<'_, T>) -> Mat<T> {
        let SlotBack { slot, x, tape, dy, first_tensor, needs_dx } = *at;
        self.watch.backward(slot, x, dy);
        let mut dx = match needs_dx {
            true => self.ws.take(dy.rows(), slot.shape().inp),
            false => Mat::default(),
        };
        let grads = self.grads.as_mut();
        let mut grads = grads.map(|grads| &mut grads.numbers[first_tensor..]);
        if let Some(weight) = dense_weight(slot) {
            if let Some(grads) = grads.as_mut().filter(|grads| !grads[0].is_empty()) {
                let x = x.expect("the input of a slot with gradients is kept");
                let into = MatMut::new(&mut grads[0], weight.rows(), weight.cols());
                let (dy, x) = (Arg::Transposed(dy.view()), Arg::Plain(x.view()));
                product(T::ONE, dy, x, into, Write::Set);
            }
            if needs_dx {
                let (dy, weight) = (Arg::Plain(dy.view()), Arg::Plain(weight));
                product(T::ONE, dy, weight, dx.view_mut(), Write::Set);
            }
        } else {
            let x = x.expect("the input of an operator is kept").view();
            let mut own = grads.is_some().then(|| slot.zero_grads());
            let into = needs_dx.then(|| dx.view_mut());
            let args = Backward { x, dy: dy.view(), tape, dx: into, grads: own.as_mut() };
            slot.op().map().backward(args, self.ws);
            if let Some((grads, own)) = grads.as_mut().zip(own) {
                grads.iter_mut().zip(own.iter()).for_each(|(to, own)| to.copy_from_slice(own));
            }
        }
        if let Some((grads, _)) = grads.zip(slot.bias()) {
            let sums = column_sums(dy.view()).into_iter().map(T::from_f64);
            grads[tensors_of(slot) - 1].iter_mut().zip(sums).for_each(|(to, sum)| *to = sum);
        }
        dx
    }

    /// Gradients of a step from a tensor on, if they are needed.
    pub(crate) fn numbers(&mut self, first_tensor: usize) -> Option<&mut [Vec<T>]> {
        self.grads.as_mut().map(|grads| &mut grads.numbers[first_tensor..])
    }

    /// Stores the factors of the gradient of a step's first tensor if only they are needed,
    /// otherwise reuses their memory.
    pub(crate) fn take_factors(&mut self, dy: Mat<T>, x: Option<Mat<T>>) {
        let wanted = self.grads.as_mut().filter(|grads| grads.numbers[0].is_empty());
        let place = wanted.and_then(|grads| grads.factors.first_mut());
        let unused = match (place, x) {
            (Some(place), Some(x)) => place.replace(Factors { dy, x }),
            (_, x) => Some(Factors { dy, x: x.unwrap_or_default() }),
        };
        if let Some(Factors { dy, x }) = unused {
            self.ws.give(dy);
            self.ws.give(x);
        }
    }
}

/// The weight of a slot with a dense weight.
pub(crate) fn dense_weight<T: Scalar>(slot: &LinearSlot<T>) -> Option<MatRef<'_, T>> {
    match slot.op().map().weight() {
        Some(Weight::Full(weight)) => Some(weight),
        Some(Weight::Half(_)) | None => None,
    }
}

/// Number of tensors of a slot.
pub(crate) fn tensors_of<T: Scalar>(slot: &LinearSlot<T>) -> usize {
    slot.op().map().params().len() + usize::from(slot.bias().is_some())
}

/// One step of a layer.
pub(crate) trait Step<T: Scalar>: Debug + Send + Sync {
    fn clone_step(&self) -> Box<dyn Step<T>>;

    fn slots(&self) -> Vec<&LinearSlot<T>> {
        Vec::new()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        Vec::new()
    }

    /// Shape in files of the dense weights of its slots, if they are not matrices there.
    fn weight_shape(&self) -> Option<Vec<usize>> {
        None
    }

    /// Rows per example of the factors of its first tensor's gradient, if that is large and a
    /// product.
    fn factor_rows(&self) -> Option<usize> {
        None
    }

    /// Tensors outside the slots: names and numbers.
    fn vectors(&self) -> Vec<(String, &[T])> {
        Vec::new()
    }

    /// Tensors outside the slots, mutable, in the same order.
    fn vectors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        Vec::new()
    }

    /// All tensors.
    fn tensors_mut(&mut self) -> Vec<NetTensor<'_, T>> {
        if self.slots().is_empty() {
            return self.vectors_mut();
        }
        let shape = self.weight_shape();
        let slots = self.slots_mut().into_iter();
        slots.flat_map(|slot| slot_tensors(slot, shape.as_deref())).collect()
    }

    /// Number of trained numbers outside the operators of slots.
    fn other_parameters(&self) -> usize {
        self.slots().iter().map(|slot| slot.bias().map_or(0, <[T]>::len)).sum()
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>);

    fn backward(&self, dy: Mat<T>, kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T>;

    /// Updates statistics from a pass in training.
    fn learn(&mut self, _kept: &Kept<T>) {}
}

/// The tensors of a slot; a dense weight has this shape in files, if given.
fn slot_tensors<'a, T: Scalar>(
    slot: &'a mut LinearSlot<T>,
    shape: Option<&[usize]>,
) -> Vec<NetTensor<'a, T>> {
    let id = slot.id().clone();
    let shape = shape.filter(|_| slot.op().map().weight().is_some()).map(<[usize]>::to_vec);
    let (op, bias) = slot.parts_mut();
    let params = op.map_mut().params_mut().into_iter();
    let mut tensors: Vec<_> = params
        .map(|param| NetTensor {
            name: format!("{id}.{}", param.name),
            shape: shape.clone().unwrap_or(param.shape),
            values: param.values,
            purpose: TensorUse::Weight,
        })
        .collect();
    let bias = bias.map(|bias| NetTensor::vector(format!("{id}.bias"), bias, TensorUse::Vector));
    tensors.extend(bias);
    tensors
}
