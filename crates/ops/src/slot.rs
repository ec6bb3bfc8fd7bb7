//! Slots: named linear layers of a model.

use crate::{Backward, Grads, Op, OpError, Shape, Tape, Workspace};
use linwright_tensor::kernels::gemm::linears;
use linwright_tensor::{Mat, MatMut, MatRef, Scalar, parallel};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of a linear layer, as in the checkpoint without `.weight`:
/// `model.layers.3.self_attn.q_proj`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SiteId(pub String);

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The role of a slot in its network, as a word of that network: `query`, `conv`.
///
/// Options, recipes and reports select slots by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotRole {
    name: &'static str,
    other_names: &'static [&'static str],
}

impl SlotRole {
    /// A role with its name, and aliases that options accept for it.
    #[must_use]
    pub const fn new(name: &'static str, other_names: &'static [&'static str]) -> Self {
        Self { name, other_names }
    }

    /// Its name, as printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Whether a word is its name or an alias.
    #[must_use]
    pub fn is_called(self, word: &str) -> bool {
        self.name == word || self.other_names.contains(&word)
    }
}

impl fmt::Display for SlotRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The name of an input of linear layers in a network. Slots that read the same input are captured
/// together, and share the sums over it: query, key and value; gate and up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputId(pub String);

/// Position of a slot in its network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The input that it reads.
    pub reads: InputId,
    /// What it does.
    pub role: SlotRole,
    /// Index of its layer, from zero; absent outside the layers.
    pub layer: Option<usize>,
    /// Index of the stage that computes it, from zero; absent outside the stages.
    pub stage: Option<usize>,
}

/// Slot of one linear layer: an operator and a bias.
#[derive(Clone, Debug)]
pub struct LinearSlot<T: Scalar = f32> {
    id: SiteId,
    place: Place,
    op: Op<T>,
    bias: Option<Vec<T>>,
}

impl<T: Scalar> LinearSlot<T> {
    /// A slot at its position.
    ///
    /// # Panics
    /// If the bias has another length than the operator has outputs.
    #[must_use]
    #[track_caller]
    pub fn new(id: SiteId, place: Place, op: Op<T>, bias: Option<Vec<T>>) -> Self {
        if let Some(bias) = &bias {
            assert_eq!(bias.len(), op.map().shape().out, "bias of {id}");
        }
        Self { id, place, op, bias }
    }

    /// The name.
    #[must_use]
    pub fn id(&self) -> &SiteId {
        &self.id
    }

    /// Its position in the network.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The input that it reads.
    #[must_use]
    pub fn reads(&self) -> &InputId {
        &self.place.reads
    }

    /// Its role in the network.
    #[must_use]
    pub fn role(&self) -> SlotRole {
        self.place.role
    }

    /// Index of its layer, from zero; none outside the layers.
    #[must_use]
    pub fn layer(&self) -> Option<usize> {
        self.place.layer
    }

    /// Index of its stage, from zero; none outside the stages of its network.
    #[must_use]
    pub fn stage(&self) -> Option<usize> {
        self.place.stage
    }

    /// The operator.
    #[must_use]
    pub fn op(&self) -> &Op<T> {
        &self.op
    }

    /// The operator, mutable: for training its parameters in place.
    pub fn op_mut(&mut self) -> &mut Op<T> {
        &mut self.op
    }

    /// The bias (out).
    #[must_use]
    pub fn bias(&self) -> Option<&[T]> {
        self.bias.as_deref()
    }

    /// The bias (out), mutable.
    pub fn bias_mut(&mut self) -> Option<&mut [T]> {
        self.bias.as_deref_mut()
    }

    /// Operator and bias at once, mutable: for optimisers that hold all parameters together.
    pub fn parts_mut(&mut self) -> (&mut Op<T>, Option<&mut [T]>) {
        (&mut self.op, self.bias.as_deref_mut())
    }

    /// Features out and in.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.op.map().shape()
    }

    /// Number of parameters of the operator, without the bias.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.op.parameters()
    }

    /// Replaces the operator and returns the old one.
    ///
    /// # Errors
    /// [`OpError::Unsupported`] if the shapes differ.
    pub fn replace(&mut self, op: Op<T>) -> Result<Op<T>, OpError> {
        let (have, want) = (op.map().shape(), self.shape());
        if have != want {
            return Err(OpError::Unsupported {
                kind: op.map().spec().kind(),
                shape: have,
                reason: format!("slot {} maps {} to {}", self.id, want.inp, want.out),
            });
        }
        Ok(std::mem::replace(&mut self.op, op))
    }

    /// `y = op(x) + bias`.
    pub fn forward(
        &self,
        x: MatRef<'_, T>,
        mut y: MatMut<'_, T>,
        tape: Option<&mut Tape<T>>,
        ws: &mut Workspace<T>,
    ) {
        self.op.map().forward(x, y.reborrow(), tape, ws);
        self.add_bias(y);
    }

    fn add_bias(&self, y: MatMut<'_, T>) {
        if let Some(bias) = &self.bias {
            parallel::for_each(y.row_blocks(parallel::ROW_BLOCK), |_, mut y| {
                for i in 0..y.rows() {
                    y.row_mut(i).iter_mut().zip(bias).for_each(|(y, b)| *y += *b);
                }
            });
        }
    }

    /// Gradients of operator, input and, in `bias_grad`, bias.
    pub fn backward(
        &self,
        args: Backward<'_, '_, T>,
        bias_grad: Option<&mut [T]>,
        ws: &mut Workspace<T>,
    ) {
        if let Some(grad) = bias_grad {
            for i in 0..args.dy.rows() {
                grad.iter_mut().zip(args.dy.row(i)).for_each(|(g, d)| *g += *d);
            }
        }
        self.op.map().backward(args, ws);
    }

    /// Zero gradients for the operator.
    #[must_use]
    pub fn zero_grads(&self) -> Grads<T> {
        Grads::zeros(&self.op.map().params())
    }
}

impl LinearSlot {
    /// [`Self::forward`] of several slots with the same input; faster for dense weights. Returns
    /// false, and computes nothing, if one of them holds another operator.
    ///
    /// # Panics
    /// If the shapes do not match, or the numbers of results and slots differ.
    #[track_caller]
    pub fn forward_together(slots: &[Self], x: MatRef<'_, f32>, ys: &mut [Mat<f32>]) -> bool {
        assert_eq!(slots.len(), ys.len(), "results of slots");
        let weights = slots.iter().map(|slot| slot.op.map().weight()).zip(&mut *ys);
        let into: Option<Vec<_>> = weights.map(|(w, y)| Some((w?, y.view_mut()))).collect();
        let Some(mut into) = into else {
            return false;
        };
        linears(x, &mut into);
        slots.iter().zip(ys).for_each(|(slot, y)| slot.add_bias(y.view_mut()));
        true
    }
}

/// Anything with linear slots: language models, flows, molecular networks, classifiers.
pub trait Sites {
    /// All slots, in the order of computation.
    fn slots(&self) -> Vec<&LinearSlot>;

    /// All slots, in the order of computation, mutable.
    fn slots_mut(&mut self) -> Vec<&mut LinearSlot>;

    /// The slot of this name.
    fn slot(&self, id: &SiteId) -> Option<&LinearSlot> {
        self.slots().into_iter().find(|slot| slot.id() == id)
    }

    /// The slot of this name, mutable.
    fn slot_mut(&mut self, id: &SiteId) -> Option<&mut LinearSlot> {
        self.slots_mut().into_iter().find(|slot| slot.id() == id)
    }

    /// Output rows of one projection within a slot that holds several: of the query in one matrix
    /// of query, key and value. `part` is the role of that projection. `None` if the slot has no
    /// such part, as in networks without fused weights.
    fn part_rows(&self, _id: &SiteId, _part: &str) -> Option<Vec<usize>> {
        None
    }
}
