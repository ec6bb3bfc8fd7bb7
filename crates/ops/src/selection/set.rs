//! Selection of slots of a network.

use super::{NameFilter, PatternError};
use crate::{LinearSlot, SiteId, Sites, SlotRole};
use linwright_run::shown;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A set of slots that a network does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotSetError {
    /// A layer that the model does not have.
    #[error("layer {layer} is out of range; the model has layers 0 to {last}")]
    Layer {
        /// The layer.
        layer: usize,
        /// The last layer of the model.
        last: usize,
    },
    /// No slot has the requested roles.
    #[error("layer {layer} has no slot of role {role}; it has {has}")]
    Role {
        /// The layer.
        layer: usize,
        /// The role.
        role: String,
        /// The roles of its slots.
        has: String,
    },
    /// An empty set of slots.
    #[error("no slot of the model is in {wanted}; its layers have {names} (roles: {roles})")]
    Empty {
        /// Description of the set.
        wanted: String,
        /// The names of groups of roles that exist in the model.
        names: String,
        /// The roles of its slots.
        roles: String,
    },
    /// A role that no layer has.
    #[error("no layer has a slot of role {role}; there are {has}")]
    NoRole {
        /// The role.
        role: String,
        /// The roles of slots in layers.
        has: String,
    },
    /// A pattern that no slot matches.
    #[error("pattern {pattern} matches no slot of a layer; they have names such as {example}", pattern = shown(pattern))]
    Unused {
        /// The pattern.
        pattern: String,
        /// Name of the first slot.
        example: String,
    },
    /// An invalid name pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

/// A name for several roles of one kind of network, such as those that a paper gives to weights.
pub trait RoleGroup: Copy + PartialEq + Serialize + 'static {
    /// All names.
    const ALL: &'static [Self];

    /// The name.
    fn name(self) -> &'static str;

    /// Whether slots of this role belong to it.
    fn covers(self, role: SlotRole) -> bool;

    /// Whether it stands for no slot at all, in whatever network.
    fn is_none(self) -> bool;
}

/// No names of groups: slots are selected by layer, role and pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoGroup {}

impl RoleGroup for NoGroup {
    const ALL: &'static [Self] = &[];

    fn name(self) -> &'static str {
        match self {}
    }

    fn covers(self, _: SlotRole) -> bool {
        match self {}
    }

    fn is_none(self) -> bool {
        match self {}
    }
}

/// A set of slots of layers. All given conditions must hold; one of several names, roles or
/// patterns is enough. Without conditions, it has every slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, bound(deserialize = "G: Deserialize<'de>"))]
pub struct SlotSet<G = NoGroup> {
    /// Names of groups of roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lnames: Vec<G>,
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

impl<G> Default for SlotSet<G> {
    fn default() -> Self {
        Self {
            lnames: Vec::new(),
            roles: Vec::new(),
            layers: None,
            patterns: Vec::new(),
            ignore: Vec::new(),
        }
    }
}

impl<G: RoleGroup> SlotSet<G> {
    /// The slots with these roles in some layers.
    #[must_use]
    pub fn with_roles<R: ToString>(roles: &[R], layers: Option<Vec<usize>>) -> Self {
        let roles = roles.iter().map(ToString::to_string).collect();
        Self { roles, layers, ..Self::default() }
    }

    /// The slots with this name in some layers.
    #[must_use]
    pub fn named(lname: G, layers: Option<Vec<usize>>) -> Self {
        Self { lnames: vec![lname], layers, ..Self::default() }
    }

    /// Slots of a model in the set, in the order of computation. Only slots of layers can be in a
    /// set.
    ///
    /// # Errors
    /// [`SlotSetError::Layer`] if a layer does not exist, [`SlotSetError::Role`] if one of the
    /// given layers lacks one of the roles, [`SlotSetError::Pattern`] for an invalid pattern,
    /// [`SlotSetError::Unused`] for a pattern that no slot has, [`SlotSetError::Empty`] if no
    /// slot is in the set and it is not that of the name for none.
    pub fn of(&self, model: &impl Sites) -> Result<Vec<SiteId>, SlotSetError> {
        let slots = model.slots();
        let present: BTreeSet<usize> = slots.iter().filter_map(|slot| slot.layer()).collect();
        let last = present.last().copied().unwrap_or(0);
        if let Some(&layer) = self.layers.iter().flatten().find(|layer| **layer > last) {
            return Err(SlotSetError::Layer { layer, last });
        }
        if let [name] = self.lnames.as_slice()
            && name.is_none()
        {
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
        let knows = |name: &G| roles.iter().any(|role| name.covers(*role));
        let names = G::ALL.iter().copied().filter(knows).map(G::name);
        Err(SlotSetError::Empty {
            wanted: serde_json::to_string(self).unwrap_or_default(),
            names: names.collect::<Vec<_>>().join(", "),
            roles: joined(&roles),
        })
    }

    /// Checks that the given layers, or some layer, have the given roles.
    fn check_roles(&self, slots: &[&LinearSlot]) -> Result<(), SlotSetError> {
        for &layer in self.layers.iter().flatten() {
            let has = roles_of(slots, |own| own == Some(layer));
            if let Some(role) = self.roles.iter().find(|role| !has_any(&has, role)) {
                let (role, has) = (role.clone(), joined(&has));
                return Err(SlotSetError::Role { layer, role, has });
            }
        }
        let has = roles_of(slots, |layer| layer.is_some());
        match self.roles.iter().find(|role| !has_any(&has, role)) {
            Some(role) => Err(SlotSetError::NoRole { role: role.clone(), has: joined(&has) }),
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
fn parsed(patterns: &[String], slots: &[&LinearSlot]) -> Result<Vec<NameFilter>, SlotSetError> {
    let mut filters = Vec::new();
    for pattern in patterns {
        let filter = NameFilter::parse(pattern)?;
        let mut of_layers = slots.iter().filter(|slot| slot.layer().is_some());
        if !of_layers.clone().any(|slot| filter.matches(&slot.id().0)) {
            let example = of_layers.next().map_or_else(String::new, |slot| slot.id().to_string());
            return Err(SlotSetError::Unused { pattern: pattern.clone(), example });
        }
        filters.push(filter);
    }
    Ok(filters)
}
