//! Slots that heal after a replacement.

use linwright_compress::fit::Ridge;
use linwright_compress::methods::{DenseMethod, How, MethodSpec, Training};
use linwright_compress::plan::{Edit, SlotSet};
use serde::{Deserialize, Serialize};

/// A set of slots, each of which gets a refitted dense weight after the replacement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Healing {
    /// Roles of the slots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Globs over names of slots, or regular expressions after `re:`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// Their layers; by default those of the edited set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<usize>>,
    /// Closed form or training.
    pub fit: How,
    /// Ridge of the regression towards the weight.
    pub ridge: Ridge,
    /// Options of a trained fit.
    pub training: Training,
}

impl Default for Healing {
    fn default() -> Self {
        let DenseMethod { fit, ridge, training } = DenseMethod::default();
        Self { roles: Vec::new(), patterns: Vec::new(), layers: None, fit, ridge, training }
    }
}

impl Healing {
    /// Slots of a role in the layers of the edited set, with the default method.
    #[must_use]
    pub fn of_role(role: impl ToString) -> Self {
        Self { roles: vec![role.to_string()], ..Self::default() }
    }

    /// The method that refits the slots.
    #[must_use]
    pub fn method(&self) -> MethodSpec {
        let Self { fit, ridge, training, .. } = *self;
        MethodSpec::Dense(DenseMethod { fit, ridge, training })
    }

    /// The edit after a replacement in these layers.
    #[must_use]
    pub fn edit(&self, layers: &[usize]) -> Edit {
        let Self { roles, patterns, layers: own, .. } = self.clone();
        let layers = Some(own.unwrap_or_else(|| layers.to_vec()));
        let sites = SlotSet { roles, patterns, layers, ..SlotSet::default() };
        Edit { sites, method: self.method(), size: None, heals: true }
    }
}
