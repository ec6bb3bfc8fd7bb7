//! Gradients of the parameters of some slots, from those of their outputs.

use linwright_ops::{
    Backward, Grads, LinearSlot, Probe, Seen, SeenGradient, SiteId, Sites, Tape, Workspace,
};
use linwright_tensor::Mat;
use linwright_tensor::kernels::elementwise::add;
use std::collections::{BTreeMap, BTreeSet};

/// Gradients of one slot; empty where the operator is not trained.
#[derive(Debug)]
pub(super) struct SlotGradients {
    pub(super) op: Grads<f32>,
    pub(super) bias: Option<Vec<f32>>,
}

/// Gradients of the trained slots, and the memory to compute them.
#[derive(Debug, Default)]
pub(super) struct Gradients {
    pub(super) slots: BTreeMap<SiteId, SlotGradients>,
    tape: Tape<f32>,
    workspace: Workspace<f32>,
    outputs: Mat<f32>,
}

impl Gradients {
    /// Zero gradients for operators and biases of the slots in `trained`, and for the biases of
    /// those in `biases`.
    pub(super) fn zeros(
        network: &impl Sites,
        trained: &BTreeSet<SiteId>,
        biases: &BTreeSet<SiteId>,
    ) -> Self {
        let of_slot = |slot: &LinearSlot| {
            let op = match trained.contains(slot.id()) {
                true => slot.zero_grads(),
                false => Grads::default(),
            };
            let bias = slot.bias().map(|bias| vec![0.0; bias.len()]);
            (slot.id().clone(), SlotGradients { op, bias })
        };
        let wanted = |slot: &&LinearSlot| trained.contains(slot.id()) || biases.contains(slot.id());
        let slots = network.slots().into_iter().filter(wanted).map(of_slot);
        // A slot without numbers to train would only cost its gradient.
        let slots = slots.filter(|(_, slot)| slot.numbers() > 0).collect();
        Self { slots, ..Self::default() }
    }

    /// Number of trained parameters.
    pub(super) fn numbers(&self) -> usize {
        self.slots.values().map(SlotGradients::numbers).sum()
    }

    /// Sets all gradients to zero.
    pub(super) fn clear(&mut self) {
        for SlotGradients { op, bias } in self.slots.values_mut() {
            op.clear();
            bias.iter_mut().for_each(|bias| bias.fill(0.0));
        }
    }
}

impl SlotGradients {
    fn numbers(&self) -> usize {
        self.op.iter().map(<[f32]>::len).sum::<usize>() + self.bias.as_ref().map_or(0, Vec::len)
    }
}

/// Adds to the gradients what a pass shows.
pub(super) struct Collecting<'a> {
    slots: BTreeMap<&'a SiteId, &'a LinearSlot>,
    gradients: &'a mut Gradients,
}

impl<'a> Collecting<'a> {
    pub(super) fn new(network: &'a impl Sites, gradients: &'a mut Gradients) -> Self {
        let slots = network.slots().into_iter().map(|slot| (slot.id(), slot)).collect();
        Self { slots, gradients }
    }
}

impl Probe for Collecting<'_> {
    fn wants(&self, _site: &SiteId) -> bool {
        false
    }

    fn on_forward(&mut self, _site: &SiteId, _seen: Seen<'_>) {}

    fn wants_gradient(&self, site: &SiteId) -> bool {
        self.gradients.slots.contains_key(site)
    }

    fn wants_input_again(&self, site: &SiteId) -> bool {
        self.gradients.slots.get(site).is_some_and(|slot| !slot.op.is_empty())
    }

    fn on_backward(&mut self, site: &SiteId, seen: SeenGradient<'_>) {
        let Gradients { slots, tape, workspace, outputs } = &mut *self.gradients;
        let (Some(slot), Some(gradients)) = (self.slots.get(site), slots.get_mut(site)) else {
            return;
        };
        let (SeenGradient { x, dy, .. }, SlotGradients { op, bias }) = (seen, gradients);
        if let Some(bias) = bias {
            (0..dy.rows()).for_each(|row| add(bias, dy.row(row)));
        }
        let Some(x) = x else { return };
        // The tape of the pass belongs to the network, so the operator runs once more.
        tape.clear();
        outputs.resize(x.rows(), dy.cols());
        slot.op().map().forward(x, outputs.view_mut(), Some(tape), workspace);
        let args = Backward { x, dy, tape, dx: None, grads: Some(op) };
        slot.op().map().backward(args, workspace);
    }
}
