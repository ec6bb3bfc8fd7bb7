//! The form that transformers runs: parameters of operators, and a Python file that puts them into
//! the class of the original model.
//!
//! Its `config.json` has a model type of its own. With that of the original, a program that does not
//! run the Python file would load the original class with random weights at every replaced site, and
//! only warn.

use super::super::error::CheckpointError;
use super::super::native;
use super::super::source::{CONFIG, Source};
use crate::families::{self, Head};
use crate::transformer::Transformer;
use linwright_ops::{LinearSlot, OpError, OpSpec, Sites};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Name of the Python file.
pub const FILE: &str = "modeling_linwright.py";
/// The Python file.
pub const MODELLING: &str = include_str!("../../../assets/modeling_linwright.py");
/// The `model_type` of this form.
const MODEL_TYPE: &str = "linwright";
/// What the form keeps of the original, within the `linwright` object.
const BASE: &str = "base";
const TYPE: &str = "model_type";
const ARCHITECTURES: &str = "architectures";
const AUTO_MAP: &str = "auto_map";
/// Kinds of operators that the Python file has.
pub const KINDS: [&str; 9] = [
    "block_hadamard",
    "circulant_diagonal",
    "dense",
    "diagonal_low_rank",
    "kronecker",
    "low_rank",
    "monarch",
    "product",
    "sum",
];

/// The first kind of an operator, or of those that it is made of, that the Python file lacks.
#[must_use]
pub fn missing_kind(spec: &OpSpec) -> Option<&'static str> {
    let own = spec.kind();
    if !KINDS.contains(&own) {
        return Some(own);
    }
    let inner = match spec {
        OpSpec::Sum(sum) => sum.terms.as_slice(),
        OpSpec::Product(product) => product.factors.as_slice(),
        _ => &[],
    };
    inner.iter().find_map(missing_kind)
}

/// The first site whose operator the Python file lacks, and its kind.
pub(crate) fn missing_site(model: &Transformer) -> Option<(&LinearSlot, &'static str)> {
    let of = |slot: &&LinearSlot| missing_kind(&slot.op().map().spec());
    model.slots().into_iter().find_map(|slot| Some((slot, of(&slot)?)))
}

/// Whether a model can be saved in this form.
pub(in super::super) fn check(model: &Transformer, source: &Source) -> Result<(), CheckpointError> {
    if let Some((slot, kind)) = missing_site(model) {
        let reason = "the file for transformers has no such operator; save the model in native \
                      form, or dense if the operator is linear"
            .into();
        let source = OpError::Unsupported { kind, shape: slot.shape(), reason };
        return Err(CheckpointError::Operator { site: slot.id().clone(), source });
    }
    let family = model.config().family;
    if family == families::BLOCKS {
        return Err(CheckpointError::Native {
            path: source.dir.join(CONFIG),
            place: TYPE.into(),
            reason: format!(
                "is {}, which transformers has no class for; save the model in dense or native form",
                family.model_type
            ),
        });
    }
    Ok(())
}

/// Turns the configuration of the native form into that of this one.
pub(in super::super) fn decorate(config: &mut Map<String, Value>, model: &Transformer) {
    let causal = model.config().is_causal();
    let headed = match model.config().family.names.head {
        Head::Linear(_) => true,
        Head::Masked { .. } => model.config().masked_head,
    };
    let (auto, class) = match (headed, causal) {
        (true, true) => ("AutoModelForCausalLM", "LinwrightForCausalLM"),
        (true, false) => ("AutoModelForMaskedLM", "LinwrightForMaskedLM"),
        (false, _) => ("AutoModel", "LinwrightModel"),
    };
    let base = json!({
        TYPE: config.get(TYPE).cloned(),
        ARCHITECTURES: config.get(ARCHITECTURES).cloned(),
        "tensors": tensors(model),
    });
    config.insert(TYPE.into(), json!(MODEL_TYPE));
    config.insert(ARCHITECTURES.into(), json!([class]));
    let module = FILE.trim_end_matches(".py");
    let map = [("AutoConfig", "LinwrightConfig"), ("AutoModel", "LinwrightModel"), (auto, class)];
    let map: Map<String, Value> = map
        .into_iter()
        .map(|(auto, class)| (auto.into(), json!(format!("{module}.{class}"))))
        .collect();
    config.insert(AUTO_MAP.into(), Value::Object(map));
    // Also where nothing was replaced: the Python file asks for it.
    let object = config.entry(native::KEY).or_insert_with(|| json!({ "schema": native::SCHEMA }));
    if let Value::Object(object) = object {
        object.entry("sites").or_insert_with(|| json!({}));
        object.insert(BASE.into(), base);
    }
}

/// Shapes of the parameters and lengths of the buffers of every site, by name.
fn tensors(model: &Transformer) -> Value {
    let replaced = |slot: &&LinearSlot| !matches!(slot.op().map().spec(), OpSpec::Dense(_));
    let of = |slot: &LinearSlot| {
        let map = slot.op().map();
        let parameters = map.params().into_iter().map(|p| (p.name, json!(p.shape)));
        let buffers = map.buffers().into_iter().map(|b| (b.name, json!([b.values.len()])));
        let both = json!({
            "parameters": parameters.collect::<Map<_, _>>(),
            "buffers": buffers.collect::<Map<_, _>>(),
        });
        (slot.id().0.clone(), both)
    };
    let slots = model.slots().into_iter().filter(replaced);
    Value::Object(slots.map(of).collect())
}

/// Turns the configuration of this form into that of the native one.
pub(in super::super) fn undo(
    dir: &Path,
    config: &mut Map<String, Value>,
) -> Result<(), CheckpointError> {
    if config.get(TYPE).and_then(Value::as_str) != Some(MODEL_TYPE) {
        return Ok(());
    }
    let wrong = |reason: &str| CheckpointError::Native {
        path: dir.join(CONFIG),
        place: format!("{}.{BASE}", native::KEY),
        reason: reason.into(),
    };
    let object = config.get_mut(native::KEY).and_then(Value::as_object_mut);
    let base = object.and_then(|object| object.shift_remove(BASE));
    let Some(Value::Object(mut base)) = base else {
        return Err(wrong("is missing; expected an object with the model_type of the original"));
    };
    let Some(Value::String(model_type)) = base.remove(TYPE) else {
        return Err(wrong("has no model_type; expected that of the original"));
    };
    config.insert(TYPE.into(), json!(model_type));
    match base.remove(ARCHITECTURES) {
        None | Some(Value::Null) => config.shift_remove(ARCHITECTURES),
        Some(architectures) => config.insert(ARCHITECTURES.into(), architectures),
    };
    config.shift_remove(AUTO_MAP);
    Ok(())
}
