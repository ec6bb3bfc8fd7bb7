//! What heals after a replacement, as an option of networks without roles of their own for it.

use crate::jobs::kit::terms::{Catalogue, Entry, TermOf, Terms};
use crate::jobs::kit::{JobError, parse_layers, schema};
use linwright_compress::fit::Ridge;
use linwright_compress::methods::{DenseMethod, How, Training};
use linwright_compress::{Edit, MethodSpec, SlotSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::LazyLock;

/// Linear layers that are refitted, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::jobs) struct Healing {
    /// Roles of linear layers, such as linear.
    pub roles: Vec<String>,
    /// Names of linear layers: globs, or regular expressions after `re:`.
    pub sites: Vec<String>,
    /// Their layers, counted from zero [default: those that are replaced].
    pub layers: Option<String>,
    /// Ridge regression in closed form, or training.
    pub fit: How,
    /// Ridge of the regression towards the weight.
    pub ridge: Ridge,
    /// Options of a trained fit.
    pub training: Training,
}

impl Default for Healing {
    fn default() -> Self {
        let DenseMethod { fit, ridge, training } = DenseMethod::default();
        Self { roles: Vec::new(), sites: Vec::new(), layers: None, fit, ridge, training }
    }
}

/// Linear layers that are refitted, as a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Healings;

static HEALINGS: LazyLock<Catalogue> = LazyLock::new(|| {
    let standard = super::names::fields_of(json!(Healing::default()));
    let entry = Entry::new("", "linear layers to refit after the replacement");
    let entry = entry.with_standard(standard).with_keys(&schema::<Healing>(), &[]);
    Catalogue::new("heal", vec![entry])
});

impl Terms for Healings {
    const NAME: &'static str = "healing";

    fn catalogue() -> &'static Catalogue {
        &HEALINGS
    }
}

impl Healing {
    /// What a term says.
    ///
    /// # Errors
    /// [`JobError`] for one that selects nothing, or cannot be carried out.
    fn of(term: &TermOf<Healings>) -> Result<Self, JobError> {
        let wrong = |reason: String| JobError::new(format!("--heal {}: {reason}", term.0));
        let own: Self = serde_json::from_value(term.options().into())
            .map_err(|error| wrong(error.to_string()))?;
        if own.roles.is_empty() && own.sites.is_empty() {
            return Err(wrong("selects no layers; give roles or sites".to_owned()));
        }
        own.method().check(None).map_err(wrong)?;
        own.layers.as_deref().map(|text| parse_layers("heal layers", text)).transpose()?;
        Ok(own)
    }

    fn method(&self) -> MethodSpec {
        let Self { fit, ridge, training, .. } = *self;
        MethodSpec::Dense(DenseMethod { fit, ridge, training })
    }

    /// The edit after a replacement in these layers, or in all of them.
    fn edit(&self, replaced: Option<&[usize]>) -> Edit {
        let own = self.layers.as_deref().and_then(|text| parse_layers("layers", text).ok());
        let layers = own.or_else(|| replaced.map(<[usize]>::to_vec));
        let (roles, patterns) = (self.roles.clone(), self.sites.clone());
        let sites = SlotSet { roles, patterns, layers, ..SlotSet::default() };
        Edit { sites, method: self.method(), size: None, heals: true }
    }
}

/// The edits that heal after a replacement in these layers, or in all of them.
///
/// # Errors
/// [`JobError`] for a term that selects nothing, or refits what is replaced.
pub(super) fn healing(terms: &[TermOf<Healings>], sites: &SlotSet) -> Result<Vec<Edit>, JobError> {
    let edit = |term: &TermOf<Healings>| {
        let own = Healing::of(term)?;
        let again = own.roles.iter().find(|role| sites.roles.contains(role));
        match again.filter(|_| own.layers.is_none() && own.sites.is_empty()) {
            Some(role) => {
                Err(JobError::new(format!("--heal {}: {role} is replaced in these layers", term.0)))
            }
            None => Ok(own.edit(sites.layers.as_deref())),
        }
    };
    terms.iter().map(edit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(texts: &[&str]) -> Vec<TermOf<Healings>> {
        texts.iter().map(|text| serde_json::from_value((*text).into()).unwrap()).collect()
    }

    #[test]
    fn a_term_selects_layers_and_says_how_they_are_refitted() {
        let replaced = SlotSet::with_roles(&["conv"], Some(vec![0, 1]));
        let of = |text: &str| healing(&terms(&[text]), &replaced);
        let edits = of("roles=linear,layers=4,ridge=0.001").unwrap();
        assert_eq!(edits[0].sites, SlotSet::with_roles(&["linear"], Some(vec![4])));
        assert!(edits[0].heals);
        let MethodSpec::Dense(method) = &edits[0].method else { panic!("{edits:?}") };
        assert_eq!(json!(method.ridge), json!(0.001));
        assert_eq!(of("roles=[linear]").unwrap()[0].sites.layers, Some(vec![0, 1]));
        for (text, word) in [
            ("ridge=0.001", "selects no layers"),
            ("roles=conv", "conv is replaced"),
            ("roles=linear,layers=x", "expected layers"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        for wrong in ["role=linear", "roles=linear,fit=trained,epochs=0"] {
            assert!(serde_json::from_value::<TermOf<Healings>>(wrong.into()).is_err(), "{wrong}");
        }
    }
}
