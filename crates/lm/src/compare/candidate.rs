//! What is compared: methods for single sites, structured pruning, and controls.

use crate::prune::PruneSpec;
use linwright_compare::{Options, Rounding, SlotMethod, Way};
use linwright_compress::Size;
use linwright_compress::methods::MethodSpec;
use serde::{Deserialize, Serialize};
use serde_json::json;

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

impl From<SlotMethod> for Candidate {
    fn from(method: SlotMethod) -> Self {
        match method {
            SlotMethod::Sites(method) => Self::Sites(method),
            SlotMethod::Rounded(rounding) => Self::Rounded(rounding),
        }
    }
}

/// A candidate, apart by what it changes: single slots, or whole layers.
pub(super) enum Part<'a> {
    Slots(SlotMethod),
    Layers(&'a PruneSpec),
}

impl Candidate {
    /// Those of a comparison without a choice: closed forms, kinds of operators that are fitted
    /// quickly, and pruning.
    #[must_use]
    pub fn standard() -> Vec<&'static str> {
        SlotMethod::standard().into_iter().chain(PruneSpec::IDS.iter().copied()).collect()
    }

    /// Controls, which belong to every comparison.
    #[must_use]
    pub fn controls() -> Vec<&'static str> {
        SlotMethod::controls()
    }

    /// All names, controls last.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let pruning = PruneSpec::IDS.to_vec();
        let all = [SlotMethod::untrained(), pruning, SlotMethod::slower(), Self::controls()];
        all.into_iter().flatten().collect()
    }

    /// Methods that are compared where they are named alone.
    #[must_use]
    pub fn others() -> Vec<&'static str> {
        SlotMethod::others()
    }

    /// The candidate with this name, with its standard options.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if PruneSpec::IDS.contains(&name) {
            return serde_json::from_value(json!({ "method": name })).ok().map(Self::Pruned);
        }
        SlotMethod::named(name).map(Self::from)
    }

    /// The same with these options, as plans call them; those that are missing are as in plans.
    ///
    /// # Errors
    /// What is wrong with them, for a message.
    pub fn with_options(&self, options: Options) -> Result<Self, String> {
        match self.part() {
            Part::Slots(own) => own.with_options(options).map(Self::from),
            Part::Layers(own) => {
                let spec: PruneSpec = serde_json::from_value(options.into())
                    .map_err(|error: serde_json::Error| error.to_string())?;
                spec.check()?;
                match spec.id() == own.id() {
                    true => Ok(Self::Pruned(spec)),
                    false => {
                        let name = spec.id();
                        Err(format!("with these options is {name}, which has its own row"))
                    }
                }
            }
        }
    }

    /// Checks options and a size of its own.
    ///
    /// # Errors
    /// What is wrong with them, for a message.
    pub fn check(&self, size: Option<Size>) -> Result<(), String> {
        match (self.part(), size) {
            (Part::Slots(own), _) => own.check(size),
            (Part::Layers(_), Some(Size::Keep(share))) if share < 1.0 => Ok(()),
            (Part::Layers(_), Some(Size::Keep(share))) => {
                Err(format!("keeps {share}, expected a share below 1"))
            }
            (Part::Layers(_), Some(size)) => {
                Err(format!("has no {}; it has keep", size.unit().name()))
            }
            (Part::Layers(_), None) => Err("needs a size: keep".to_owned()),
        }
    }

    /// What it is, for listings.
    #[must_use]
    pub fn summary(&self) -> String {
        match self.part() {
            Part::Slots(own) => own.summary(),
            Part::Layers(spec) => {
                let place = PruneSpec::IDS.iter().position(|own| *own == spec.id());
                let summary = place.map(|place| PruneSpec::SUMMARIES[place].to_owned());
                summary.unwrap_or_default()
            }
        }
    }

    /// Whether it reads calibration text.
    #[must_use]
    pub fn needs_text(&self) -> bool {
        match self.part() {
            Part::Slots(own) => own.needs_examples(),
            Part::Layers(spec) => spec.needs_text(),
        }
    }

    /// What it changes.
    pub(super) fn part(&self) -> Part<'_> {
        match self {
            Self::Sites(method) => Part::Slots(SlotMethod::Sites(method.clone())),
            Self::Rounded(rounding) => Part::Slots(SlotMethod::Rounded(*rounding)),
            Self::Pruned(spec) => Part::Layers(spec),
        }
    }
}

impl Way for Candidate {
    fn name(&self) -> String {
        match self.part() {
            Part::Slots(own) => own.name(),
            Part::Layers(spec) => spec.id().to_owned(),
        }
    }

    fn is_control(&self) -> bool {
        match self.part() {
            Part::Slots(own) => own.is_control(),
            Part::Layers(_) => false,
        }
    }

    fn has_sizes(&self) -> bool {
        match self.part() {
            Part::Slots(own) => own.has_sizes(),
            Part::Layers(_) => true,
        }
    }

    fn is_rounding(&self) -> bool {
        match self.part() {
            Part::Slots(own) => own.is_rounding(),
            Part::Layers(_) => false,
        }
    }

    fn sized(&self, size: Size) -> String {
        match self.part() {
            Part::Slots(own) => own.sized(size),
            Part::Layers(spec) => format!("{} at {size}", spec.id()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
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
        assert!(names.contains(&"kronecker") && Candidate::named("absent").is_none());
        for name in Candidate::others() {
            assert!(!names.contains(&name) && Candidate::named(name).is_some(), "{name}");
        }
        let width = Candidate::named("width").unwrap();
        assert!(width.check(Some(Size::Keep(0.5))).is_ok());
        for (size, word) in [(None, "needs a size"), (Some(Size::Rank(4)), "has no rank")] {
            assert!(width.check(size).unwrap_err().contains(word), "{size:?}");
        }
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
