//! Linear layers.

use super::{Layer, yes};
use crate::build::{Builder, SlotPlan};
use crate::chain::Chain;
use crate::step::{Back, Kept, Pass, SlotBack, Step, dense_weight};
use crate::{Extent, NetError};
use linwright_ops::{LinearSlot, SlotRole};
use linwright_tensor::{Mat, Scalar};
use serde::{Deserialize, Serialize};

/// A linear map of the channels of each position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linear {
    /// Name of its slot and tensors.
    pub name: String,
    /// Channels out.
    pub out: usize,
    /// Whether it adds a bias.
    #[serde(default = "yes")]
    pub bias: bool,
}

impl Layer for Linear {
    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn output(&self, input: Extent, chain: &mut Chain) -> Result<Extent, NetError> {
        chain.weight(&self.name, [self.out, input.channels]);
        Extent { channels: self.out, ..input }.bounded(chain.label())
    }

    fn build<T: Scalar>(&self, builder: &mut Builder<'_, T>) -> Result<(), NetError> {
        let shape = vec![self.out, builder.extent.channels];
        let role = SlotRole::new("linear", &[]);
        let slot = builder.slot(SlotPlan {
            id: &self.name,
            reads: &self.name,
            role,
            shape,
            bias: self.bias,
        })?;
        builder.push(LinearStep { slot, places: builder.extent.places() });
        Ok(())
    }
}

/// Smallest weight whose gradient is kept as factors if there are few rows: it exceeds the caches.
const LARGE: usize = 1 << 19;

#[derive(Clone, Debug)]
struct LinearStep<T: Scalar> {
    slot: LinearSlot<T>,
    places: usize,
}

impl<T: Scalar> Step<T> for LinearStep<T> {
    fn clone_step(&self) -> Box<dyn Step<T>> {
        Box::new(self.clone())
    }

    fn slots(&self) -> Vec<&LinearSlot<T>> {
        vec![&self.slot]
    }

    fn slots_mut(&mut self) -> Vec<&mut LinearSlot<T>> {
        vec![&mut self.slot]
    }

    fn factor_rows(&self) -> Option<usize> {
        let weight = dense_weight(&self.slot)?;
        (weight.rows() * weight.cols() >= LARGE).then_some(self.places)
    }

    fn forward(&self, x: Mat<T>, pass: &mut Pass<'_, T>) -> (Mat<T>, Kept<T>) {
        let (y, tape) = pass.through(&self.slot, &x);
        let input = pass.keep_input(&[&self.slot], x);
        (y, Kept { input, tapes: vec![tape], ..Kept::default() })
    }

    fn backward(&self, dy: Mat<T>, kept: Kept<T>, back: &mut Back<'_, T>) -> Mat<T> {
        let dx = back.through(&SlotBack {
            slot: &self.slot,
            x: kept.input.as_ref(),
            tape: &kept.tapes[0],
            dy: &dy,
            first_tensor: 0,
            needs_dx: back.needs_dx,
        });
        back.take_factors(dy, kept.input);
        dx
    }
}
