//! The form for transformers: operator parameters, and a Python file that puts the operators into
//! the class of the original model.
//!
//! Its `config.json` has the model type of the native form, and names the Python file.

use super::super::error::CheckpointError;
use super::super::native;
use super::super::source::Source;
use crate::families::{self, Head};
use crate::transformer::Transformer;
use linwright_files::CONFIG;
use linwright_ops::{LinearSlot, OpError, OpSpec, Sites};
use serde_json::{Map, Value, json};

/// Name of the Python file.
pub const FILE: &str = "modeling_linwright.py";
/// Source of the Python file.
pub const MODELLING: &str = include_str!("../../../assets/modeling_linwright.py");

/// The first kind in an operator and its parts that the Python file does not implement.
#[must_use]
pub fn missing_kind(spec: &OpSpec) -> Option<&'static str> {
    match spec.is_exported() {
        true => spec.nested().iter().find_map(missing_kind),
        false => Some(spec.kind()),
    }
}

/// The first site whose operator the Python file does not implement, and its kind.
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
            path: source.transformer_dir().join(CONFIG),
            place: "model_type".into(),
            reason: format!(
                "is {}, for which transformers has no class; save the model in dense or native form",
                family.model_type
            ),
        });
    }
    Ok(())
}

/// Converts a `config.json` of the native form into one of this form.
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
    let more = Map::from_iter([("tensors".to_owned(), tensors(model))]);
    native::rename(config, class, more);
    let module = FILE.trim_end_matches(".py");
    let map = [("AutoConfig", "LinwrightConfig"), ("AutoModel", "LinwrightModel"), (auto, class)];
    let map: Map<String, Value> = map
        .into_iter()
        .map(|(auto, class)| (auto.into(), json!(format!("{module}.{class}"))))
        .collect();
    config.insert("auto_map".into(), Value::Object(map));
}

/// Parameter shapes and buffer lengths of every site, by name.
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
