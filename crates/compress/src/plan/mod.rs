//! Plans: which method and size each site gets, as plain data.
//!
//! A [`Plan`] is a list of [`Edit`]s, each of which selects slots and names a method and a size.
//! Where several edits select a slot, the last one counts, so a general edit comes first and
//! exceptions follow. The order of edits has no other meaning: [`Plan::sites`] arranges the work in
//! the order of computation of the network.
//!
//! ```json
//! {"edits": [
//!   {"sites": {}, "method": {"method": "low_rank"}, "size": {"keep": 0.8}},
//!   {"sites": {"roles": ["down"]}, "method": {"method": "low_rank"}, "size": {"rank": 64}}
//! ]}
//! ```

mod read;
mod slots;

use crate::fit::Ridge;
use crate::methods::MethodSpec;
use crate::{CompressError, Size};
use linwright_ops::{InputId, Shape, SiteId, Sites};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use read::{MAX_PLAN_BYTES, parse_plan, read_plan};
pub use slots::SlotSet;

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

/// Slots that read one input, which are captured together, with their edits.
#[derive(Clone, Debug, PartialEq)]
pub struct InputEdits<'a> {
    /// The layer.
    pub layer: usize,
    /// The slots, in the order of computation.
    pub slots: Vec<SlotEdit<'a>>,
}

/// A slot and its edit.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotEdit<'a> {
    /// The slot.
    pub site: SiteId,
    /// Its stage.
    pub stage: usize,
    /// The edit.
    pub edit: &'a Edit,
}

impl Plan {
    /// Whether a method of the plan is fitted to calibration text.
    #[must_use]
    pub fn needs_text(&self) -> bool {
        self.edits.iter().any(|edit| edit.method.needs_text())
    }

    /// Whether a fit chooses its end or its start on validation examples.
    pub(crate) fn needs_validation(&self) -> bool {
        self.edits.iter().any(|edit| edit.method.needs_validation())
    }

    /// Whether ridges are chosen in a pass before the one that counts.
    pub(crate) fn chooses_ridges(&self) -> bool {
        let is_automatic = |edit: &Edit| edit.method.traits().ridge == Some(Ridge::Auto);
        !self.needs_validation() && self.edits.iter().any(is_automatic)
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

    /// Checks the plan against a network, and returns its work in the order of computation, slots
    /// that read one input together.
    ///
    /// # Errors
    /// As [`Self::check`] and [`SlotSet::of`]; [`CompressError::Healed`] for a slot that one edit
    /// replaces and another one heals, [`CompressError::TwoParts`] for one of which two edits cut
    /// different parts, [`CompressError::NoPart`] for a part that a weight lacks,
    /// [`CompressError::Fit`] for a size that a shape cannot have.
    pub fn sites(&self, network: &impl Sites) -> Result<Vec<InputEdits<'_>>, CompressError> {
        self.check()?;
        let chosen = self.chosen(network)?;
        let mut all: Vec<InputEdits<'_>> = Vec::new();
        let mut inputs: Vec<&InputId> = Vec::new();
        for slot in network.slots() {
            let (Some(&index), Some(layer)) = (chosen.get(slot.id()), slot.layer()) else {
                continue;
            };
            let edit = &self.edits[index];
            let rows = edit.method.part().map(|part| part.rows(network, slot.id())).transpose()?;
            let out = rows.map_or(slot.shape().out, |rows| rows.len());
            edit.method
                .parameters(edit.size, Shape { out, ..slot.shape() })
                .map_err(|source| CompressError::Fit { site: slot.id().clone(), source })?;
            let stage = slot.stage().expect("a slot of a layer has a stage");
            let slot_edit = SlotEdit { site: slot.id().clone(), stage, edit };
            match inputs.iter().position(|input| *input == slot.reads()) {
                Some(known) => all[known].slots.push(slot_edit),
                None => {
                    inputs.push(slot.reads());
                    all.push(InputEdits { layer, slots: vec![slot_edit] });
                }
            }
        }
        Ok(all)
    }

    /// The last edit of each slot, by its index.
    fn chosen(&self, network: &impl Sites) -> Result<BTreeMap<SiteId, usize>, CompressError> {
        let mut chosen: BTreeMap<SiteId, usize> = BTreeMap::new();
        for (index, edit) in self.edits.iter().enumerate() {
            for site in edit.sites.of(network)? {
                let Some(before) = chosen.insert(site.clone(), index) else { continue };
                let (other, first, second) = (&self.edits[before], before + 1, index + 1);
                if edit.heals || other.heals {
                    return Err(CompressError::Healed { site, first, second });
                }
                if edit.method.part() != other.method.part() {
                    return Err(CompressError::TwoParts { site, first, second });
                }
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests;
