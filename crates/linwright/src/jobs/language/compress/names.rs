//! Names that are values of options of `compress`.

use super::plan::{ROLES, kinds};
use crate::jobs::kit::fields::Name;
use crate::jobs::kit::named::NameList;
use linwright_compress::MethodSpec;
use linwright_lm::prune::PruneSpec;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::LazyLock;

/// A method of the registry, a way of structured pruning, a kind of operator, which stands for
/// `structured` with this operator, or `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName(&'static str);

static METHODS: LazyLock<Vec<MethodName>> = LazyLock::new(|| {
    let methods = MethodSpec::IDS.iter().chain(PruneSpec::IDS).copied();
    let names = methods.chain(kinds()).chain([AUTO]);
    names.map(MethodName).collect()
});

/// The choice of a method for each layer.
const AUTO: &str = "auto";

impl MethodName {
    /// All names.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &METHODS
    }

    /// The method with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().iter().copied().find(|method| method.name() == name)
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Whether it is a kind of operator.
    pub(super) fn is_kind(self) -> bool {
        !self.is_auto() && !self.is_pruning() && !MethodSpec::IDS.contains(&self.0)
    }

    /// Whether it narrows layers together instead of replacing each.
    pub(super) fn is_pruning(self) -> bool {
        PruneSpec::IDS.contains(&self.0)
    }

    /// Whether each layer gets the method that costs least loss.
    pub(super) fn is_auto(self) -> bool {
        self.0 == AUTO
    }

    /// Whether it replaces layers one by one, by what it says.
    pub(in crate::jobs) fn is_of_slots(self) -> bool {
        !self.is_pruning() && !self.is_auto()
    }

    /// One sentence about it.
    #[must_use]
    pub fn help(self) -> String {
        if self.is_auto() {
            return "for each layer the method and size that cost least loss".to_owned();
        }
        let methods = MethodSpec::IDS.iter().zip(MethodSpec::SUMMARIES);
        let mut known = methods.chain(PruneSpec::IDS.iter().zip(PruneSpec::SUMMARIES));
        match known.find(|(id, _)| **id == self.0) {
            Some((_, summary)) => (*summary).to_owned(),
            None => format!("structured, with --operator {}", self.0),
        }
    }
}

impl NameList for MethodName {
    fn names() -> Vec<Name> {
        let name = |method: &Self| Name::new(method.name()).with_help(method.help());
        Self::all().iter().map(name).collect()
    }
}

impl Serialize for MethodName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for MethodName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("there is no method {name}")))
    }
}

/// How the next linear layer is refitted after those before it in attention or MLP were replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heal {
    /// Ridge regression in closed form.
    #[default]
    Ridge,
    /// Trained from a random start, as in the rotor paper.
    Trained,
    /// No refit.
    None,
}

impl NameList for Heal {
    fn names() -> Vec<Name> {
        vec![
            Name::new("ridge").with_help("Ridge regression in closed form"),
            Name::new("trained").with_help("Trained from a random start, as in the rotor paper"),
            Name::new("none").with_help("No refit"),
        ]
    }
}

/// Storage type of saved weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredDType {
    /// 32 bits.
    F32,
    /// 16 bits, IEEE 754.
    F16,
    /// 16 bits, as wide a range as `f32`.
    Bf16,
}

impl StoredDType {
    /// The type.
    #[must_use]
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::Bf16,
        }
    }
}

impl NameList for StoredDType {
    fn names() -> Vec<Name> {
        ["f32", "f16", "bf16"].map(Name::new).into()
    }
}

/// The roles of a layer.
pub(in crate::jobs) struct LayerRoles;

impl NameList for LayerRoles {
    fn names() -> Vec<Name> {
        ROLES.iter().map(|role| Name::new(role.name()).with_others(role.other_names())).collect()
    }
}
