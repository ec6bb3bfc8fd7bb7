//! Selection of slots of a model.

use super::Lname;
use crate::CompressError;
use linwright_measure::inspect::NameFilter;
use linwright_ops::{Role, SiteId, Sites};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A set of slots. All given conditions must hold; one of several names or roles is enough.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlotSet {
    /// The paper's names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lnames: Vec<Lname>,
    /// Roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// Layers, from zero; all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<usize>>,
    /// A glob over names of slots, or a regular expression after `re:`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

impl SlotSet {
    /// The slots with this name in some layers.
    #[must_use]
    pub fn named(lname: Lname, layers: Option<Vec<usize>>) -> Self {
        Self { lnames: vec![lname], layers, ..Self::default() }
    }

    /// Slots of a model in the set, in the order of computation. Only slots of layers can be in a
    /// set.
    ///
    /// # Errors
    /// [`CompressError::Layer`] if a layer does not exist, [`CompressError::Pattern`] for an
    /// invalid pattern, [`CompressError::Slots`] if no slot is in the set and it is not
    /// [`Lname::Dont`].
    pub fn of(&self, model: &impl Sites) -> Result<Vec<SiteId>, CompressError> {
        let slots = model.slots();
        let present: BTreeSet<usize> = slots.iter().filter_map(|slot| slot.layer()).collect();
        let last = present.last().copied().unwrap_or(0);
        if let Some(&layer) = self.layers.iter().flatten().find(|layer| **layer > last) {
            return Err(CompressError::Layer { layer, last });
        }
        if self.lnames == [Lname::Dont] {
            return Ok(Vec::new());
        }
        let pattern = self.pattern.as_deref().map(NameFilter::parse).transpose();
        let pattern =
            pattern.map_err(|error| CompressError::Pattern { reason: error.to_string() })?;
        let of_name: Vec<Role> =
            self.lnames.iter().flat_map(|name| name.roles()).copied().collect();
        let any_role = self.lnames.is_empty() && self.roles.is_empty();
        let chosen: Vec<SiteId> = slots
            .iter()
            .filter(|slot| {
                let role = slot.role();
                slot.layer()
                    .is_some_and(|layer| self.layers.as_ref().is_none_or(|l| l.contains(&layer)))
                    && (any_role || of_name.contains(&role) || self.roles.contains(&role))
                    && pattern.as_ref().is_none_or(|pattern| pattern.matches(&slot.id().0))
            })
            .map(|slot| slot.id().clone())
            .collect();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let roles: BTreeSet<Role> =
            slots.iter().filter(|s| s.layer().is_some()).map(|s| s.role()).collect();
        let knows = |name: &Lname| name.roles().iter().any(|role| roles.contains(role));
        let names = Lname::ALL.into_iter().filter(knows).map(Lname::name);
        Err(CompressError::Slots {
            wanted: serde_json::to_string(self).unwrap_or_default(),
            names: names.collect::<Vec<_>>().join(", "),
            roles: roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use linwright_data::sets::name_matches;
    use linwright_measure::inspect::NameFilter;

    #[test]
    fn globs_of_slots_and_of_tasks_say_the_same_but_for_brackets() {
        let name = "layers.3.mlp.up";
        let same = ["*", "*.mlp.*", "layers.?.mlp.up", "layers.??.mlp.up", "mlp", "", "*.up", "*?"];
        for pattern in same {
            let filter = NameFilter::parse(pattern).expect("a glob");
            assert_eq!(filter.matches(name), name_matches(pattern, name), "{pattern}");
        }
        let brackets = "layers.[0-3].mlp.up";
        let filter = NameFilter::parse(brackets).expect("a glob");
        assert!(name_matches(brackets, name) && !filter.matches(name) && filter.matches(brackets));
    }
}
