//! Candidates that replace single slots: methods and rounded weights.

use crate::judge::Way;
use crate::quantised::Rounding;
use linwright_compress::intervention::Intervention;
use linwright_compress::methods::How;
use linwright_compress::methods::{
    BlockHadamardMethod, LowRankMethod, MethodSpec, RandomMethod, RotorMethod, StructuredMethod,
};
use linwright_compress::{Size, form};
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
/// Methods that are compared where they are named alone: weights that are only refitted, cuts of
/// weights, and operators with all options of their fits.
const NAMED: [&str; 3] = ["dense", "laser", "structured"];

/// A way to a smaller network by its slots alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotMethod {
    /// A method at each site.
    Sites(MethodSpec),
    /// Rounded weights.
    Rounded(Rounding),
}

/// A share, by which methods that have sizes are told from others.
const ANY_SHARE: Size = Size::Keep(0.5);

/// Options of a method by name.
pub type Options = serde_json::Map<String, Value>;

impl SlotMethod {
    /// Those of a comparison without a choice: closed forms, and kinds of operators that are fitted
    /// quickly.
    #[must_use]
    pub fn standard() -> Vec<&'static str> {
        Self::untrained().into_iter().filter(|name| *name != SAME).collect()
    }

    /// Closed forms, and kinds of operators that are fitted quickly.
    #[must_use]
    pub fn untrained() -> Vec<&'static str> {
        CLOSED.into_iter().chain(QUICK).collect()
    }

    /// Further kinds of operators, and those that are trained.
    #[must_use]
    pub fn slower() -> Vec<&'static str> {
        let further = OpSpec::KINDS.iter().copied().filter(|kind| is_further(kind));
        further.chain(TRAINED).collect()
    }

    /// Controls, which belong to every comparison.
    #[must_use]
    pub fn controls() -> Vec<&'static str> {
        [RANDOM].into_iter().chain(Rounding::ALL.map(Rounding::name)).collect()
    }

    /// All names, controls last.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let all = [Self::untrained(), Self::slower(), Self::controls()];
        all.into_iter().flatten().collect()
    }

    /// Methods that are compared where they are named alone.
    #[must_use]
    pub fn others() -> Vec<&'static str> {
        NAMED.to_vec()
    }

    /// The candidate with this name, with its standard options.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if let Some(rounding) = Rounding::ALL.into_iter().find(|own| own.name() == name) {
            return Some(Self::Rounded(rounding));
        }
        let method = match name {
            RANDOM => MethodSpec::Random(RandomMethod {}),
            "low_rank_trained" => {
                MethodSpec::LowRank(LowRankMethod { fit: How::Trained, ..LowRankMethod::default() })
            }
            "block_hadamard_trained" => MethodSpec::BlockHadamard(BlockHadamardMethod::default()),
            "rotor" => MethodSpec::Rotor(RotorMethod::default()),
            "structured" => MethodSpec::Structured(StructuredMethod::new(of_kind(QUICK[0])?)),
            _ if CLOSED.contains(&name) || NAMED.contains(&name) => {
                serde_json::from_value(json!({ "method": name })).ok()?
            }
            _ if QUICK.contains(&name) || is_further(name) => {
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
        let found = match self {
            Self::Sites(_) => Self::of_options(options)?,
            Self::Rounded(_) => return Err("has no options".to_owned()),
        };
        match found.name() == name {
            true => Ok(found),
            false => Err(format!("with these options is {}, which has its own row", found.name())),
        }
    }

    /// The method with these options, as plans call them.
    ///
    /// # Errors
    /// What is wrong with them, for a message.
    pub fn of_options(options: Options) -> Result<Self, String> {
        let method = serde_json::from_value(options.into());
        method.map(Self::Sites).map_err(|error| error.to_string())
    }

    /// Checks options and a size of its own.
    ///
    /// # Errors
    /// What is wrong with them, for a message.
    pub fn check(&self, size: Option<Size>) -> Result<(), String> {
        match (self, size) {
            (Self::Sites(method), _) => {
                method.check_size(size).map_err(|error| error.to_string())?;
                method.check(size)
            }
            (Self::Rounded(_), None) => Ok(()),
            (Self::Rounded(_), Some(size)) => Err(format!("has {size}, and its bytes are fixed")),
        }
    }

    /// What it is, for listings.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Sites(MethodSpec::Structured(own)) => {
                format!("a {} in place of each weight", own.operator.kind())
            }
            Self::Sites(method) => {
                let place = MethodSpec::IDS.iter().position(|own| *own == method.id());
                let summary = place.map(|place| MethodSpec::SUMMARIES[place].to_owned());
                summary.unwrap_or_default()
            }
            Self::Rounded(rounding) => rounding.summary().to_owned(),
        }
    }

    /// Whether it reads examples.
    #[must_use]
    pub fn needs_examples(&self) -> bool {
        match self {
            Self::Sites(method) => method.needs_text(),
            Self::Rounded(_) => false,
        }
    }

    /// Whether its operators are linear.
    #[must_use]
    pub fn is_linear(&self) -> bool {
        match self {
            Self::Sites(method) => method.is_linear(),
            Self::Rounded(_) => true,
        }
    }
}

impl Way for SlotMethod {
    fn name(&self) -> String {
        match self {
            Self::Sites(MethodSpec::Structured(own)) => own.operator.kind().to_owned(),
            Self::Sites(MethodSpec::LowRank(own)) if own.fit == How::Trained => {
                TRAINED[0].to_owned()
            }
            Self::Sites(MethodSpec::BlockHadamard(_)) => TRAINED[1].to_owned(),
            Self::Sites(method) => method.id().to_owned(),
            Self::Rounded(rounding) => rounding.name().to_owned(),
        }
    }

    fn is_control(&self) -> bool {
        match self {
            Self::Sites(method) => matches!(method, MethodSpec::Random(_) | MethodSpec::Dense(_)),
            Self::Rounded(_) => true,
        }
    }

    fn has_sizes(&self) -> bool {
        match self {
            // Zeros have no size that matters.
            Self::Sites(MethodSpec::Laser(own)) if own.intervention == Intervention::Zero => false,
            Self::Sites(method) => method.check_size(Some(ANY_SHARE)).is_ok(),
            Self::Rounded(rounding) => rounding.has_sizes(),
        }
    }

    fn sized(&self, size: Size) -> String {
        match self {
            Self::Sites(method) => method.label(Some(size)),
            Self::Rounded(rounding) => format!("{} at {size}", rounding.name()),
        }
    }

    fn is_rounding(&self) -> bool {
        matches!(self, Self::Rounded(_))
    }
}

/// An operator of a kind with default options, whose rank, if it has one, follows from a size.
fn of_kind(kind: &str) -> Option<OpSpec> {
    let ranked = format!("{{kind: {kind}, rank: 1}}");
    form::operator(kind).or_else(|_| form::operator(&ranked)).ok()
}

/// Whether a kind is a candidate of its own: a linear operator, of which no method has the name.
fn is_further(kind: &str) -> bool {
    let is_known = CLOSED.contains(&kind) || QUICK.contains(&kind) || TRAINED.contains(&kind);
    !is_known && kind != "dense" && of_kind(kind).is_some_and(|operator| operator.is_linear())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_a_candidate_of_that_name() {
        let names = SlotMethod::names();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        for name in &names {
            let candidate = SlotMethod::named(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(candidate.name(), *name);
            assert_eq!(candidate.is_control(), SlotMethod::controls().contains(name), "{name}");
        }
        assert!(names.contains(&"kronecker") && SlotMethod::named("absent").is_none());
    }

    #[test]
    fn what_is_compared_where_it_is_named_alone_is_in_no_list() {
        for name in SlotMethod::others() {
            assert!(!SlotMethod::names().contains(&name), "{name}");
            assert!(SlotMethod::named(name).is_some(), "{name}");
        }
        let of = |options: Value| SlotMethod::of_options(options.as_object().unwrap().clone());
        let rotor = of(json!({"method": "structured", "operator": {"kind": "rotor"}})).unwrap();
        assert_eq!(
            (rotor.name().as_str(), rotor.sized(Size::Keep(0.5)).as_str()),
            ("rotor", "rotor-keep0.5")
        );
        let zero = of(json!({"method": "laser", "intervention": "zero"})).unwrap();
        assert!(!zero.has_sizes() && zero.check(None).is_ok());
        assert!(SlotMethod::named("dense").is_some_and(|own| own.is_control() && !own.has_sizes()));
        let random = SlotMethod::named("random").unwrap();
        assert!(random.check(None).unwrap_err().contains("needs a size"));
        assert!(SlotMethod::named("q8_0").unwrap().check(Some(Size::Rank(1))).is_err());
    }
}
