//! Selection of slots of a network.

use crate::CompressError;
use crate::intervention::Lname;
use linwright_measure::inspect::NameFilter;
use linwright_ops::{LinearSlot, SiteId, Sites, SlotRole};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A set of slots of layers. All given conditions must hold; one of several names, roles or
/// patterns is enough. Without conditions, it has every slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlotSet {
    /// The paper's names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lnames: Vec<Lname>,
    /// Roles, by name or alias.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Layers, from zero; all by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<usize>>,
    /// Globs over names of slots, or regular expressions after `re:`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// Patterns of slots that are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
}

impl SlotSet {
    /// The slots with these roles in some layers.
    #[must_use]
    pub fn with_roles<R: ToString>(roles: &[R], layers: Option<Vec<usize>>) -> Self {
        let roles = roles.iter().map(ToString::to_string).collect();
        Self { roles, layers, ..Self::default() }
    }

    /// The slots with this name in some layers.
    #[must_use]
    pub fn named(lname: Lname, layers: Option<Vec<usize>>) -> Self {
        Self { lnames: vec![lname], layers, ..Self::default() }
    }

    /// Slots of a model in the set, in the order of computation. Only slots of layers can be in a
    /// set.
    ///
    /// # Errors
    /// [`CompressError::Layer`] if a layer does not exist, [`CompressError::Role`] if one of the
    /// given layers lacks one of the roles, [`CompressError::Pattern`] for an invalid pattern,
    /// [`CompressError::Unused`] for a pattern that no slot has, [`CompressError::Slots`] if no
    /// slot is in the set and it is not [`Lname::Dont`].
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
        self.check_roles(&slots)?;
        let (patterns, ignored) = (parsed(&self.patterns, &slots)?, parsed(&self.ignore, &slots)?);
        let any_role = self.lnames.is_empty() && self.roles.is_empty();
        let chosen: Vec<SiteId> = slots
            .iter()
            .filter(|slot| {
                let role = slot.role();
                let has_role = |word: &String| role.is_called(word);
                slot.layer()
                    .is_some_and(|layer| self.layers.as_ref().is_none_or(|l| l.contains(&layer)))
                    && (any_role
                        || self.lnames.iter().any(|name| name.covers(role))
                        || self.roles.iter().any(has_role))
                    && (patterns.is_empty() || any(&patterns, slot))
                    && !any(&ignored, slot)
            })
            .map(|slot| slot.id().clone())
            .collect();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let roles = roles_of(&slots, |layer| layer.is_some());
        let knows = |name: &Lname| roles.iter().any(|role| name.covers(*role));
        let names = Lname::ALL.into_iter().filter(knows).map(Lname::name);
        Err(CompressError::Slots {
            wanted: serde_json::to_string(self).unwrap_or_default(),
            names: names.collect::<Vec<_>>().join(", "),
            roles: joined(&roles),
        })
    }

    /// Checks that the given layers, or some layer, have the given roles.
    fn check_roles(&self, slots: &[&LinearSlot]) -> Result<(), CompressError> {
        for &layer in self.layers.iter().flatten() {
            let has = roles_of(slots, |own| own == Some(layer));
            if let Some(role) = self.roles.iter().find(|role| !has_any(&has, role)) {
                let (role, has) = (role.clone(), joined(&has));
                return Err(CompressError::Role { layer, role, has });
            }
        }
        let has = roles_of(slots, |layer| layer.is_some());
        match self.roles.iter().find(|role| !has_any(&has, role)) {
            Some(role) => Err(CompressError::NoRole { role: role.clone(), has: joined(&has) }),
            None => Ok(()),
        }
    }
}

/// Roles of slots in some layers, each once, in the order of computation.
fn roles_of(slots: &[&LinearSlot], layers: impl Fn(Option<usize>) -> bool) -> Vec<SlotRole> {
    let mut roles = Vec::new();
    for slot in slots.iter().filter(|slot| layers(slot.layer())) {
        if !roles.contains(&slot.role()) {
            roles.push(slot.role());
        }
    }
    roles
}

fn has_any(roles: &[SlotRole], word: &str) -> bool {
    roles.iter().any(|role| role.is_called(word))
}

fn joined(roles: &[SlotRole]) -> String {
    roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn any(patterns: &[NameFilter], slot: &LinearSlot) -> bool {
    patterns.iter().any(|pattern| pattern.matches(&slot.id().0))
}

/// Patterns, each of which some slot of a layer must match: a misspelt one would be ignored.
fn parsed(patterns: &[String], slots: &[&LinearSlot]) -> Result<Vec<NameFilter>, CompressError> {
    let mut filters = Vec::new();
    for pattern in patterns {
        let filter = NameFilter::parse(pattern)
            .map_err(|error| CompressError::Pattern { reason: error.to_string() })?;
        let mut of_layers = slots.iter().filter(|slot| slot.layer().is_some());
        if !of_layers.clone().any(|slot| filter.matches(&slot.id().0)) {
            let example = of_layers.next().map_or_else(String::new, |slot| slot.id().to_string());
            return Err(CompressError::Unused { pattern: pattern.clone(), example });
        }
        filters.push(filter);
    }
    Ok(filters)
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
