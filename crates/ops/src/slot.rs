//! Slots: named linear layers of a model.

use crate::{Backward, Grads, Op, OpError, Shape, Tape, Workspace, parameter_count};
use linwright_tensor::kernels::gemm::linears;
use linwright_tensor::{Mat, MatMut, MatRef, parallel};
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

/// Role of a slot in its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Query projection.
    Query,
    /// Key projection.
    Key,
    /// Value projection.
    Value,
    /// Query, key and value projection in one matrix.
    QueryKeyValue,
    /// Output projection of attention.
    Output,
    /// Gate of a gated MLP.
    Gate,
    /// Up projection of a gated MLP.
    Up,
    /// Gate and up projection in one matrix.
    GateUp,
    /// Down projection of a gated MLP.
    Down,
    /// The first layer of an MLP without a gate.
    FcIn,
    /// The second layer of an MLP without a gate.
    FcOut,
    /// Projection from an embedding to a residual stream of another width.
    ProjectIn,
    /// Projection from a residual stream to a head of another width.
    ProjectOut,
    /// Linear layer before the output matrix of a masked language model.
    Transform,
    /// Output matrix (language-model head).
    Head,
    /// Pooler of the first token.
    Pooler,
}

impl Role {
    /// Every role, in the order of computation.
    pub const ALL: [Self; 16] = [
        Self::Query,
        Self::Key,
        Self::Value,
        Self::QueryKeyValue,
        Self::Output,
        Self::Gate,
        Self::Up,
        Self::GateUp,
        Self::Down,
        Self::FcIn,
        Self::FcOut,
        Self::ProjectIn,
        Self::ProjectOut,
        Self::Transform,
        Self::Head,
        Self::Pooler,
    ];

    /// Name in options, recipes and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Key => "key",
            Self::Value => "value",
            Self::QueryKeyValue => "query_key_value",
            Self::Output => "output",
            Self::Gate => "gate",
            Self::Up => "up",
            Self::GateUp => "gate_up",
            Self::Down => "down",
            Self::FcIn => "fc_in",
            Self::FcOut => "fc_out",
            Self::ProjectIn => "project_in",
            Self::ProjectOut => "project_out",
            Self::Transform => "transform",
            Self::Head => "head",
            Self::Pooler => "pooler",
        }
    }

    /// Aliases of a role: module names in checkpoints. Options and recipes accept them wherever
    /// they accept [`Self::name`]; they are never printed.
    #[must_use]
    pub fn other_names(self) -> &'static [&'static str] {
        match self {
            Self::Query => &["q_proj"],
            Self::Key => &["k_proj"],
            Self::Value => &["v_proj"],
            Self::QueryKeyValue => &["qkv", "qkv_proj", "c_attn"],
            Self::Output => &["o_proj", "out_proj"],
            Self::Gate => &["gate_proj"],
            Self::Up => &["up_proj", "fc_up"],
            Self::GateUp => &["gate_up_proj"],
            Self::Down => &["down_proj"],
            Self::FcIn => &["fc1", "c_fc"],
            Self::FcOut => &["fc2"],
            Self::Head => &["lm_head"],
            Self::ProjectIn | Self::ProjectOut | Self::Transform | Self::Pooler => &[],
        }
    }

    /// The role with this name or alias.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let is_called = |role: &Self| role.name() == word || role.other_names().contains(&word);
        Self::ALL.into_iter().find(is_called)
    }
}

/// Every [`Role::name`], for messages.
const ROLE_NAMES: [&str; 16] = {
    let mut names = [""; 16];
    let mut k = 0;
    while k < names.len() {
        names[k] = Role::ALL[k].name();
        k += 1;
    }
    names
};

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Self::parse(&word).ok_or_else(|| serde::de::Error::unknown_variant(&word, &ROLE_NAMES))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Slot of one linear layer: an operator and a bias.
#[derive(Clone, Debug)]
pub struct LinearSlot {
    id: SiteId,
    role: Role,
    layer: Option<usize>,
    op: Op<f32>,
    bias: Option<Vec<f32>>,
}

impl LinearSlot {
    /// A slot; `layer` counts from zero, and is absent outside the layers.
    ///
    /// # Panics
    /// If the bias has another length than the operator has outputs.
    #[must_use]
    #[track_caller]
    pub fn new(
        id: SiteId,
        role: Role,
        layer: Option<usize>,
        op: Op<f32>,
        bias: Option<Vec<f32>>,
    ) -> Self {
        if let Some(bias) = &bias {
            assert_eq!(bias.len(), op.map().shape().out, "bias of {id}");
        }
        Self { id, role, layer, op, bias }
    }

    /// The name.
    #[must_use]
    pub fn id(&self) -> &SiteId {
        &self.id
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Index of its layer, from zero.
    #[must_use]
    pub fn layer(&self) -> Option<usize> {
        self.layer
    }

    /// The operator.
    #[must_use]
    pub fn op(&self) -> &Op<f32> {
        &self.op
    }

    /// The operator, mutable: for training its parameters in place.
    pub fn op_mut(&mut self) -> &mut Op<f32> {
        &mut self.op
    }

    /// The bias (out).
    #[must_use]
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// The bias (out), mutable.
    pub fn bias_mut(&mut self) -> Option<&mut [f32]> {
        self.bias.as_deref_mut()
    }

    /// Operator and bias at once, mutable: for optimisers that hold all parameters together.
    pub fn parts_mut(&mut self) -> (&mut Op<f32>, Option<&mut [f32]>) {
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
        match self.op.map().weight() {
            Some(weight) => weight.rows() * weight.cols(),
            None => parameter_count(&self.op.map().params()),
        }
    }

    /// Replaces the operator and returns the old one.
    ///
    /// # Errors
    /// [`OpError::Unsupported`] if the shapes differ.
    pub fn replace(&mut self, op: Op<f32>) -> Result<Op<f32>, OpError> {
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
        x: MatRef<'_, f32>,
        mut y: MatMut<'_, f32>,
        tape: Option<&mut Tape<f32>>,
        ws: &mut Workspace<f32>,
    ) {
        self.op.map().forward(x, y.reborrow(), tape, ws);
        self.add_bias(y);
    }

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

    fn add_bias(&self, y: MatMut<'_, f32>) {
        if let Some(bias) = &self.bias {
            parallel::for_each(y.row_blocks(parallel::ROW_BLOCK), |_, mut y| {
                for i in 0..y.rows() {
                    y.row_mut(i).iter_mut().zip(bias).for_each(|(y, b)| *y += b);
                }
            });
        }
    }

    /// Gradients of operator, input and, in `bias_grad`, bias.
    pub fn backward(
        &self,
        args: Backward<'_, '_, f32>,
        bias_grad: Option<&mut [f32]>,
        ws: &mut Workspace<f32>,
    ) {
        if let Some(grad) = bias_grad {
            for i in 0..args.dy.rows() {
                grad.iter_mut().zip(args.dy.row(i)).for_each(|(g, d)| *g += d);
            }
        }
        self.op.map().backward(args, ws);
    }

    /// Zero gradients for the operator.
    #[must_use]
    pub fn zero_grads(&self) -> Grads<f32> {
        Grads::zeros(&self.op.map().params())
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
}
