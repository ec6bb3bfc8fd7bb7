//! Attention between the positions of an example.

use super::{Layer, yes};
use crate::build::{Builder, SlotPlan};
use crate::chain::Chain;
use crate::step::{Back, Kept, Pass, SlotBack, Step, tensors_of};
use crate::{Extent, NetError};
use linwright_ops::{LinearSlot, SlotRole};
use linwright_tensor::kernels::elementwise::add;
use linwright_tensor::kernels::softmax_attention::{
    AttentionShape, Projections, attend, attend_backward,
};
use linwright_tensor::{Mat, Scalar};
use serde::{Deserialize, Serialize};

/// Attention between the positions of an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Prefix of its slots `query`, `key`, `value` and `output`.
    pub name: String,
    /// Number of heads; divides the channels.
    pub heads: usize,
    /// Whether a position attends only to itself and earlier ones.
    #[serde(default)]
    pub causal: bool,
    /// Whether a projection follows.
    #[serde(default = "yes")]
    pub output: bool,
    /// Whether the projections add biases.
    #[serde(default = "yes")]
    pub bias: bool,
}

impl Layer for Attention {
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError> {
        if self.heads == 0 || !input.channels.is_multiple_of(self.heads) {
            let found = format!("{} heads for {} channels", self.heads, input.channels);
            return Err(chain.refuse(found, "heads that divide the channels"));
        }
        let output = self.output.then_some("output");
        for role in ["query", "key", "value"].into_iter().chain(output) {
            chain.weight(&format!("{}.{role}", self.name), [input.channels; 2]);
        }
        let weights = input.places().saturating_mul(self.heads);
        Extent { channels: weights, ..input }.bounded(chain.label()).map(|_| input)
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        let Extent { channels, .. } = builder.extent;
        let name = &self.name;
        let mut slot = |role: &'static str, reads: &str| {
            builder.slot(SlotPlan {
                id: &format!("{name}.{role}"),
                reads,
                role: SlotRole::new(role, &[]),
                shape: vec![channels, channels],
                bias: self.bias,
            })
        };
        let inputs = [slot("query", name)?, slot("key", name)?, slot("value", name)?];
        let output = match self.output {
            true => Some(slot("output", &format!("{name}.mixed"))?),
            false => None,
        };
        let places = builder.extent.places();
        let shape = AttentionShape { places, heads: self.heads, causal: self.causal };
        builder.push(AttentionStep { inputs, output, shape });
        Ok(())
    }
}

/// Attention with slots for queries, keys, values and, if there is one, the output.
#[derive(Clone, Debug)]
struct AttentionStep<T: Scalar> {
    inputs: [LinearSlot<T>; 3],
    output: Option<LinearSlot<T>>,
    shape: AttentionShape,
}

impl<T: Scalar> AttentionStep<T> {
    /// Number of the first tensor of a slot.
    fn first_tensor(&self, slot: usize) -> usize {
        self.inputs[..slot].iter().map(tensors_of).sum()
    }
}

/// Queries, keys and values.
fn projections<T: Scalar>(mats: &[Mat<T>]) -> Projections<'_, T> {
    Projections { query: mats[0].view(), key: mats[1].view(), value: mats[2].view() }
}

impl<T: Scalar> Step<T> for AttentionStep<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn slots(&self) -> Vec<&LinearSlot<T>> {
        self.inputs.iter().chain(&self.output).collect()
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        self.inputs.iter_mut().chain(&mut self.output).collect()
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let mut kept = Kept::default();
        for slot in &self.inputs {
            let (y, tape) = pass.through(slot, &x);
            kept.mats.push(y);
            kept.tapes.push(tape);
        }
        let (mut mixed, weights) = attend(self.shape, projections(&kept.mats));
        kept.mats.push(weights);
        kept.input = pass.keep_input(&self.inputs.each_ref(), x);
        if let Some(output) = &self.output {
            let (y, tape) = pass.through(output, &mixed);
            kept.tapes.push(tape);
            kept.mats.extend(pass.keep_input(&[output], mixed));
            mixed = y;
        }
        if pass.keeps() {
            return (mixed, kept);
        }
        kept.release(pass.ws);
        (mixed, Kept::default())
    }

    fn backward(&self, mut dy: Mat<T>, kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        if let Some(output) = &self.output {
            dy = back.through(&SlotBack {
                slot: output,
                x: kept.mats.get(4),
                tape: &kept.tapes[3],
                dy: &dy,
                first_tensor: self.first_tensor(3),
                needs_dx: true,
            });
        }
        let of = projections(&kept.mats);
        let parts = attend_backward(self.shape, of, kept.mats[3].view(), dy.view());
        let mut dx = Mat::default();
        for (i, part) in parts.iter().enumerate() {
            let added = back.through(&SlotBack {
                slot: &self.inputs[i],
                x: kept.input.as_ref(),
                tape: &kept.tapes[i],
                dy: part,
                first_tensor: self.first_tensor(i),
                needs_dx: back.needs_dx,
            });
            if i == 0 {
                dx = added;
            } else {
                add(dx.data_mut(), added.data());
                back.ws.give(added);
            }
        }
        kept.release(back.ws);
        dx
    }
}
