//! Names of what is compared.

use crate::jobs::kit::JobError;
use crate::jobs::kit::fields::Name;
use crate::jobs::kit::named::NameList;
use linwright_lm::compare::{Candidate, candidate_options};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A candidate of a comparison, or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compares(&'static str);

/// Everything but controls.
const ALL: &str = "all";

impl Compares {
    fn all_names() -> Vec<Self> {
        Candidate::names().into_iter().chain([ALL]).map(Self).collect()
    }

    /// The candidates that a list of names stands for, each once; the standard ones if it is empty.
    pub(in crate::jobs) fn candidates(names: &[Self], with_controls: bool) -> Vec<Candidate> {
        let controls = Candidate::controls();
        let mut chosen: Vec<&'static str> = match names.is_empty() {
            true => Candidate::standard(),
            false => names.iter().map(|name| name.0).collect(),
        };
        if chosen.contains(&ALL) {
            chosen = Candidate::names().into_iter().filter(|own| !controls.contains(own)).collect();
        }
        if with_controls {
            chosen.extend(controls);
        }
        let mut unique: Vec<&str> = Vec::new();
        for name in chosen {
            if !unique.contains(&name) {
                unique.push(name);
            }
        }
        unique.into_iter().filter_map(Candidate::named).collect()
    }
}

/// Candidates with the options that are given to some of them.
pub(super) fn with_options(
    mut candidates: Vec<Candidate>,
    text: &str,
) -> Result<Vec<Candidate>, JobError> {
    let all = candidate_options(text).map_err(|error| {
        JobError::new(format!("--method-options: {error}"))
            .hint("expected options by method, such as '{modegpt: {temperature: 0}}'")
    })?;
    for (name, options) in &all {
        let Some(own) = candidates.iter_mut().find(|own| own.name() == *name) else {
            let names: Vec<String> = candidates.iter().map(Candidate::name).collect();
            return Err(JobError::new(format!("--method-options: {name} is not compared"))
                .hint(format!("compared are {}", names.join(", "))));
        };
        *own = own
            .with_options(options)
            .map_err(|reason| JobError::new(format!("--method-options: {name} {reason}")))?;
    }
    Ok(candidates)
}

impl NameList for Compares {
    fn names() -> Vec<Name> {
        let name = |own: Self| {
            let help = Candidate::named(own.0).map(|candidate| candidate.summary());
            Name::new(own.0).with_help(help.unwrap_or_else(|| "all but the controls".to_owned()))
        };
        Self::all_names().into_iter().map(name).collect()
    }
}

impl Serialize for Compares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for Compares {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = Self::all_names().into_iter().find(|own| own.0 == name);
        known.ok_or_else(|| serde::de::Error::custom(format!("there is no method {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&'static str], with_controls: bool) -> Vec<String> {
        let of: Vec<Compares> = of.iter().map(|name| Compares(name)).collect();
        Compares::candidates(&of, with_controls).iter().map(Candidate::name).collect()
    }

    #[test]
    fn a_list_has_each_name_once_and_controls_unless_they_are_left_out() {
        assert_eq!(names(&["svd", "svd"], false), ["svd"]);
        assert_eq!(names(&["svd", "q4_0"], true), ["svd", "q4_0", "random", "q8_0", "quantised"]);
        assert_eq!(names(&[], false), Candidate::standard());
        let all = names(&["svd", ALL], false);
        assert!(all.contains(&"rotor".to_owned()) && !all.contains(&"random".to_owned()));
    }
}
