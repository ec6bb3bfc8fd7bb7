//! Plans: which method and size each site gets, as plain data.
//!
//! A [`Plan`] is a list of [`Edit`]s, each of which selects slots and names a method and a size.
//! Where several edits select a slot, the last one counts, so a general edit comes first and
//! exceptions follow. The order of edits has no other meaning: [`Plan::sites`] arranges the work in
//! the order of computation of the model.
//!
//! ```json
//! {"edits": [
//!   {"sites": {}, "method": {"method": "low_rank"}, "size": {"keep": 0.8}},
//!   {"sites": {"roles": ["down"]}, "method": {"method": "low_rank"}, "size": {"rank": 64}}
//! ]}
//! ```

mod read;
mod slots;

use crate::methods::MethodSpec;
use crate::{CompressError, Size};
use linwright_model::Transformer;
use linwright_ops::{LinearSlot, Role, SiteId, Sites};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use read::{MAX_PLAN_BYTES, parse_plan, read_plan};
pub use slots::SlotSet;

/// Roles of a layer in groups with a common input, in the order of computation.
pub const INPUTS: [&[Role]; 8] = [
    &[Role::Query, Role::Key, Role::Value],
    &[Role::QueryKeyValue],
    &[Role::Output],
    &[Role::Gate, Role::Up],
    &[Role::GateUp],
    &[Role::FcIn],
    &[Role::Down],
    &[Role::FcOut],
];

/// One method and size for a set of slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The slots.
    pub sites: SlotSet,
    /// The method that replaces each.
    pub method: MethodSpec,
    /// Size of the replacement; the method's standard one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Whether the edit heals, so its slots do not count as replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub heals: bool,
}

impl Edit {
    /// Label of method and size, such as `LR4-closed`.
    #[must_use]
    pub fn label(&self) -> String {
        self.method.label(self.size)
    }
}

/// Edits of a model, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seed of random numbers.
    #[serde(default)]
    pub seed: u64,
    /// The edits; of those that select a slot, the last counts.
    pub edits: Vec<Edit>,
}

/// Slots of one layer with a common input and the same edit, which are captured together.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerEdit<'a> {
    /// The layer.
    pub layer: usize,
    /// The edit.
    pub edit: &'a Edit,
    /// The slots.
    pub sites: Vec<SiteId>,
}

impl Plan {
    /// Whether a method of the plan is fitted to calibration text.
    #[must_use]
    pub fn needs_text(&self) -> bool {
        self.edits.iter().any(|edit| edit.method.needs_text())
    }

    /// Checks options and sizes independently of a model.
    ///
    /// # Errors
    /// [`CompressError::Size`] for a size that the method does not have,
    /// [`CompressError::Options`] for invalid options, [`CompressError::SameSites`] for two edits
    /// of the same set of slots, of which the first would do nothing.
    pub fn check(&self) -> Result<(), CompressError> {
        for (index, edit) in self.edits.iter().enumerate() {
            edit.method
                .check_size(edit.size)
                .map_err(|source| CompressError::Size { edit: index + 1, source })?;
            edit.method
                .check(edit.size)
                .map_err(|reason| CompressError::Options { method: edit.label(), reason })?;
            if let Some(first) = self.edits[..index].iter().position(|e| e.sites == edit.sites) {
                return Err(CompressError::SameSites { first: first + 1, second: index + 1 });
            }
        }
        Ok(())
    }

    /// Checks the plan against a model, and returns its work in the order of computation: layers
    /// ascend; within a layer, slots are in groups with a common input.
    ///
    /// # Errors
    /// As [`Self::check`] and [`SlotSet::of`]; [`CompressError::Healed`] for a slot that one edit
    /// replaces and another one heals, [`CompressError::Fit`] for a size that a shape cannot have.
    pub fn sites(&self, model: &Transformer) -> Result<Vec<LayerEdit<'_>>, CompressError> {
        self.check()?;
        // The last edit of each slot.
        let mut chosen: BTreeMap<SiteId, usize> = BTreeMap::new();
        for (index, edit) in self.edits.iter().enumerate() {
            for site in edit.sites.of(model)? {
                if let Some(before) = chosen.insert(site.clone(), index)
                    && (edit.heals || self.edits[before].heals)
                {
                    return Err(CompressError::Healed {
                        site,
                        first: before + 1,
                        second: index + 1,
                    });
                }
            }
        }
        let mut slots: Vec<(usize, usize, &LinearSlot, usize)> = Vec::new();
        for slot in model.slots() {
            if let (Some(layer), Some(&edit)) = (slot.layer(), chosen.get(slot.id())) {
                slots.push((layer, input_of(slot.role()), slot, edit));
            }
        }
        // A stable sort: slots with a common input keep the order of the model.
        slots.sort_by_key(|(layer, input, ..)| (*layer, *input));
        let mut all: Vec<LayerEdit<'_>> = Vec::new();
        let mut last = None;
        let mut start = 0;
        for (layer, input, slot, index) in slots {
            let edit = &self.edits[index];
            edit.method
                .parameters(edit.size, slot.shape())
                .map_err(|source| CompressError::Fit { site: slot.id().clone(), source })?;
            if last.replace((layer, input)) != Some((layer, input)) {
                start = all.len();
            }
            let known = all[start..].iter_mut().find(|group| {
                (&group.edit.method, group.edit.size, group.edit.heals)
                    == (&edit.method, edit.size, edit.heals)
            });
            match known {
                Some(group) => group.sites.push(slot.id().clone()),
                None => all.push(LayerEdit { layer, edit, sites: vec![slot.id().clone()] }),
            }
        }
        Ok(all)
    }
}

/// Place of a role's input in the order of computation.
fn input_of(role: Role) -> usize {
    INPUTS.iter().position(|group| group.contains(&role)).unwrap_or(INPUTS.len())
}

#[cfg(test)]
mod tests;
