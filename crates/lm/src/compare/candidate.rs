//! What is compared: methods for single sites, structured pruning, and controls.

use super::quantised::Rounding;
use crate::prune::PruneSpec;
use linwright_compress::form;
use linwright_compress::methods::How;
use linwright_compress::methods::{
    BlockHadamardMethod, LowRankMethod, MethodSpec, RandomMethod, RotorMethod, StructuredMethod,
};
use linwright_ops::OpSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Methods of sites in closed form, in the order of a comparison.
const CLOSED: [&str; 6] = ["low_rank", "feature", "whitened_svd", "swift_svd", "asvd", "svd"];
/// A closed form with the optimum of another one, `swift_svd`, by another decomposition.
const SAME: &str = "whitened_svd";
/// Kinds of operators that few alternations fit.
const QUICK: [&str; 2] = ["monarch", "block_hadamard"];
/// Starts and iterations of their fits; more gain little in an alternation from a closed form.
const EFFORT: (u32, u32) = (1, 20);
/// Methods that train each operator.
const TRAINED: [&str; 3] = ["low_rank_trained", "block_hadamard_trained", "rotor"];
/// The control without the weights.
const RANDOM: &str = "random";

/// A way to a smaller model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Candidate {
    /// A method at each site.
    Sites(MethodSpec),
    /// Structured pruning.
    Pruned(PruneSpec),
    /// Rounded weights.
    Rounded(Rounding),
}

impl Candidate {
    /// Those of a comparison without a choice: closed forms, kinds of operators that are fitted
    /// quickly, and pruning.
    #[must_use]
    pub fn standard() -> Vec<&'static str> {
        Self::untrained().into_iter().filter(|name| *name != SAME).collect()
    }

    fn untrained() -> Vec<&'static str> {
        CLOSED.into_iter().chain(QUICK).chain(PruneSpec::IDS.iter().copied()).collect()
    }

    /// Controls, which belong to every comparison.
    #[must_use]
    pub fn controls() -> Vec<&'static str> {
        [RANDOM].into_iter().chain(Rounding::ALL.map(Rounding::name)).collect()
    }

    /// All names, controls last.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let mut names = Self::untrained();
        names.extend(OpSpec::KINDS.iter().filter(|kind| is_further(kind)));
        names.extend(TRAINED);
        names.extend(Self::controls());
        names
    }

    /// The candidate with this name, with its standard options.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if let Some(rounding) = Rounding::ALL.into_iter().find(|own| own.name() == name) {
            return Some(Self::Rounded(rounding));
        }
        if PruneSpec::IDS.contains(&name) {
            return serde_json::from_value(json!({ "method": name })).ok().map(Self::Pruned);
        }
        let method = match name {
            RANDOM => MethodSpec::Random(RandomMethod {}),
            "low_rank_trained" => {
                MethodSpec::LowRank(LowRankMethod { fit: How::Trained, ..LowRankMethod::default() })
            }
            "block_hadamard_trained" => MethodSpec::BlockHadamard(BlockHadamardMethod::default()),
            "rotor" => MethodSpec::Rotor(RotorMethod::default()),
            _ if CLOSED.contains(&name) => {
                serde_json::from_value(json!({ "method": name })).ok()?
            }
            _ if QUICK.contains(&name) || is_further(&name) => {
                let operator = of_kind(name)?;
                let (starts, iterations) = EFFORT;
                MethodSpec::Structured(StructuredMethod {
                    starts,
                    iterations,
                    ..StructuredMethod::new(operator)
                })
            }
            _ => return None,
        };
        Some(Self::Sites(method))
    }

    /// The same with these options, as plans call them; those that are missing are as in plans.
    ///
    /// # Errors
    /// What is wrong with them, for a message.
    pub fn with_options(&self, options: Options) -> Result<Self, String> {
        let name = self.name();
        let wrong = |error: serde_json::Error| error.to_string();
        let found = match self {
            Self::Sites(_) => Self::Sites(serde_json::from_value(options.into()).map_err(wrong)?),
            Self::Pruned(_) => {
                let spec: PruneSpec = serde_json::from_value(options.into()).map_err(wrong)?;
                spec.check()?;
                Self::Pruned(spec)
            }
            Self::Rounded(_) => return Err("has no options".to_owned()),
        };
        match found.name() == name {
            true => Ok(found),
            false => Err(format!("with these options is {}, which has its own row", found.name())),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Sites(MethodSpec::Structured(own)) => own.operator.kind().to_owned(),
            Self::Sites(MethodSpec::LowRank(own)) if own.fit == How::Trained => {
                TRAINED[0].to_owned()
            }
            Self::Sites(MethodSpec::BlockHadamard(_)) => TRAINED[1].to_owned(),
            Self::Sites(method) => method.id().to_owned(),
            Self::Pruned(spec) => spec.id().to_owned(),
            Self::Rounded(rounding) => rounding.name().to_owned(),
        }
    }

    /// Whether it is a control.
    #[must_use]
    pub fn is_control(&self) -> bool {
        match self {
            Self::Sites(method) => matches!(method, MethodSpec::Random(_)),
            Self::Pruned(_) => false,
            Self::Rounded(_) => true,
        }
    }

    /// Whether it has a size; otherwise it is compared once.
    #[must_use]
    pub fn has_sizes(&self) -> bool {
        match self {
            Self::Sites(_) | Self::Pruned(_) => true,
            Self::Rounded(rounding) => rounding.has_sizes(),
        }
    }

    /// What it is, for listings.
    #[must_use]
    pub fn summary(&self) -> String {
        let of = |ids: &[&str], summaries: &[&str], id: &str| {
            let place = ids.iter().position(|own| *own == id);
            place.map_or_else(String::new, |place| summaries[place].to_owned())
        };
        match self {
            Self::Sites(MethodSpec::Structured(own)) => {
                format!("a {} in place of each weight", own.operator.kind())
            }
            Self::Sites(method) => of(MethodSpec::IDS, MethodSpec::SUMMARIES, method.id()),
            Self::Pruned(spec) => of(PruneSpec::IDS, PruneSpec::SUMMARIES, spec.id()),
            Self::Rounded(rounding) => rounding.summary().to_owned(),
        }
    }

    /// Whether it reads calibration text.
    #[must_use]
    pub fn needs_text(&self) -> bool {
        match self {
            Self::Sites(method) => method.needs_text(),
            Self::Pruned(spec) => spec.needs_text(),
            Self::Rounded(_) => false,
        }
    }
}

/// Options of a method by name.
pub type Options = serde_json::Map<String, Value>;

/// An operator of a kind with default options, whose rank, if it has one, follows from a size.
fn of_kind(kind: &str) -> Option<OpSpec> {
    let ranked = format!("{{kind: {kind}, rank: 1}}");
    form::operator(kind).or_else(|_| form::operator(&ranked)).ok()
}

/// Whether a kind is a candidate of its own: a linear operator, of which no method has the name.
fn is_further(kind: &&str) -> bool {
    let is_known = CLOSED.contains(kind) || QUICK.contains(kind) || TRAINED.contains(kind);
    !is_known && *kind != "dense" && of_kind(kind).is_some_and(|operator| operator.is_linear())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_a_candidate_of_that_name() {
        let names = Candidate::names();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        for name in &names {
            let candidate = Candidate::named(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(candidate.name(), *name);
            assert_eq!(candidate.is_control(), Candidate::controls().contains(name), "{name}");
        }
        assert!(names.contains(&"kronecker") && Candidate::named("dense").is_none());
    }

    #[test]
    fn options_replace_the_standard_ones_and_change_no_name() {
        let given = |name: &str, options: Value| {
            let candidate = Candidate::named(name).unwrap();
            candidate.with_options(options.as_object().unwrap().clone())
        };
        let found = given("modegpt", json!({"method": "modegpt", "temperature": 0})).unwrap();
        assert_ne!(Some(&found), Candidate::named("modegpt").as_ref());
        let Candidate::Pruned(PruneSpec::Modegpt(own)) = found else { panic!("{found:?}") };
        assert_eq!(own, crate::prune::Modegpt { temperature: 0.0, ..Default::default() });
        assert!(given("asvd", json!({"method": "asvd", "alpha": 0.3})).is_ok());
        for (name, options, word) in [
            ("modegpt", json!({"method": "modegpt", "heat": 0}), "unknown field `heat`"),
            ("modegpt", json!({"method": "modegpt", "temperature": -1}), "temperature -1"),
            ("low_rank", json!({"method": "low_rank", "fit": "trained"}), "is low_rank_trained"),
            ("svd", json!({"method": "feature"}), "is feature"),
            ("q8_0", json!({"block": 16}), "no options"),
        ] {
            let error = given(name, options).unwrap_err();
            assert!(error.contains(word), "{name}: {error}");
        }
    }
}
