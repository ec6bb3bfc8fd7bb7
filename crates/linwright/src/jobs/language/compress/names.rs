//! Names that are values of options of `compress`.

use crate::jobs::kit::fields::Name;
use crate::jobs::kit::named::NameList;
use crate::jobs::kit::terms::{Catalogue, Entry, TermOf, Terms};
use linwright_compress::{MethodSpec, form};
use linwright_lm::prune::PruneSpec;
use linwright_ops::OpSpec;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The choice of a method for each layer.
const AUTO: &str = "auto";

/// The choice of one method for all layers.
const BEST: &str = "best";

/// The method that an operator is fitted by.
const STRUCTURED: &str = "structured";

/// Epochs of trained methods here: those of a plan are one by default.
const EPOCHS: u32 = 8;

/// Methods: those of the registry, ways of structured pruning, kinds of operators, each of which
/// stands for `structured` with this operator, `auto` and `best`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods;

/// A method with its options.
pub type MethodTerm = TermOf<Methods>;

static METHODS: LazyLock<Catalogue> = LazyLock::new(|| {
    let slots = MethodSpec::IDS.iter().zip(MethodSpec::SUMMARIES);
    let mut entries: Vec<Entry> = slots.map(|(id, summary)| of_slots(id, summary)).collect();
    let pruning = PruneSpec::IDS.iter().zip(PruneSpec::SUMMARIES);
    entries.extend(pruning.map(|(id, summary)| of_pruning(id, summary)));
    entries.extend(kinds().into_iter().map(of_kind));
    let help = "for each layer the method and size that cost least loss";
    entries.push(Entry::new(AUTO, help));
    let help = "the method that costs least loss at this share, the same for all layers";
    entries.push(Entry::new(BEST, help));
    Catalogue::new("method", entries)
});

impl Terms for Methods {
    const NAME: &'static str = "method";

    fn catalogue() -> &'static Catalogue {
        &METHODS
    }
}

/// What a method does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jobs) enum Way {
    /// It replaces layers one by one.
    Slots,
    /// It narrows layers together.
    Pruning,
    /// Each layer gets what costs least loss.
    Auto,
    /// All layers get what costs least loss.
    Best,
}

impl MethodTerm {
    /// What it does.
    pub(in crate::jobs) fn way(&self) -> Way {
        match self.name() {
            AUTO => Way::Auto,
            BEST => Way::Best,
            name if PruneSpec::IDS.contains(&name) => Way::Pruning,
            _ => Way::Slots,
        }
    }
}

/// An entry of the registry of methods.
fn of_slots(id: &'static str, summary: &str) -> Entry {
    let mut standard = options(json!({ "method": id }));
    let spec: Option<MethodSpec> = serde_json::from_value(standard.clone().into()).ok();
    if let Some(spec) = spec {
        standard = options(json!(spec));
        if let Some(epochs) = standard.get_mut("training").and_then(|own| own.get_mut("epochs")) {
            *epochs = EPOCHS.into();
        }
    }
    let entry = Entry::new(id, summary).with_standard(standard);
    MethodSpec::schema_of(id).iter().fold(entry, |entry, schema| entry.with_keys(schema, &[]))
}

/// A way of structured pruning.
fn of_pruning(id: &'static str, summary: &str) -> Entry {
    let standard = json!({ "method": id });
    let spec: Option<PruneSpec> = serde_json::from_value(standard.clone()).ok();
    let standard = spec.map_or(standard, |spec| json!(spec));
    let entry = Entry::new(id, summary).with_standard(options(standard));
    PruneSpec::schema_of(id).iter().fold(entry, |entry, schema| entry.with_keys(schema, &[]))
}

/// A kind of operator: its options, and those of its fit.
fn of_kind(kind: &'static str) -> Entry {
    let operator = form::operator(kind).or_else(|_| form::operator(&ranked(kind)));
    let operator = operator.map_or_else(|_| json!({ "kind": kind }), |operator| json!(operator));
    let fit = of_slots(STRUCTURED, "");
    let entry = Entry::new(kind, format!("structured, with a {kind} in place of each weight"))
        .with_standard(options(json!({ "method": STRUCTURED, "operator": operator })));
    let schema = OpSpec::schema_of(kind);
    let mut entry =
        schema.iter().fold(entry, |entry, schema| entry.with_keys(schema, &["operator"]));
    entry.keys.extend(fit.keys.into_iter().filter(|key| key.name != "operator"));
    entry
}

fn options(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(options) => options,
        _ => Map::new(),
    }
}

/// Kinds of operators that are methods by their names: they need no options but a rank, which
/// follows from the size, and no method has the same name.
fn kinds() -> Vec<&'static str> {
    let kinds = OpSpec::KINDS.iter().copied().filter(|kind| !MethodSpec::IDS.contains(kind));
    let is_structured = |kind: &&str| {
        let spec = form::operator(kind).or_else(|_| form::operator(&ranked(kind)));
        spec.is_ok_and(|operator| operator.is_linear())
    };
    kinds.filter(is_structured).collect()
}

/// A kind with a rank, any.
pub(super) fn ranked(kind: &str) -> String {
    format!("{{kind: {}, rank: 1}}", kind.replace('-', "_"))
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
