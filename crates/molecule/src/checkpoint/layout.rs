//! Translation of older checkpoints, as in the loader of torchmd-net.

use super::{Checkpoint, Numbers, Weight};
use serde_json::Value;

/// Hyper-parameter in files of the old layout.
const OLD: &str = "check_errors";

/// Translates names, rows and hyper-parameters. The error is a description in words.
pub(super) fn translate(checkpoint: &mut Checkpoint) -> Result<(), String> {
    let tensors = std::mem::take(&mut checkpoint.tensors);
    for (name, weight) in tensors {
        let new = renamed(&name);
        if checkpoint.tensors.insert(new.clone(), weight).is_some() {
            return Err(format!("has tensor {new} twice, with and without model."));
        }
    }
    let model = checkpoint.hyper.get("model").and_then(Value::as_str).unwrap_or("tensornet");
    if matches!(model, "tensornetv2_alt" | "tensornet-nqe") {
        checkpoint.hyper.insert("model".into(), "tensornet2".into());
    }
    let two = checkpoint.hyper.get("model").and_then(Value::as_str) == Some("tensornet2");
    if checkpoint.hyper.remove(OLD).is_some() {
        for (name, weight) in &mut checkpoint.tensors {
            if is_interleaved(name, two) {
                sort_rows(weight).map_err(|what| format!("has tensor {name} {what}"))?;
            }
        }
        checkpoint.notes.push("rows of the old layout were sorted by component".into());
    }
    let boxed = "representation_model.distance.box";
    if checkpoint.tensors.contains_key("representation_model.tensor_embedding.emb.weight") {
        let zeros = || Weight { shape: vec![3, 3], numbers: Numbers::F32(vec![0.0; 9]) };
        checkpoint.tensors.entry(boxed.into()).or_insert_with(zeros);
    }
    Ok(())
}

/// A name without `model.`, with the current numbering of layers of the head.
fn renamed(name: &str) -> String {
    let name = name.strip_prefix("model.").unwrap_or(name);
    for layer in ["0", "2"] {
        let old = format!("output_network.{layer}.");
        if name.contains(&old) {
            return name.replace(&old, &format!("output_network.layers.{layer}."));
        }
    }
    name.to_owned()
}

/// Whether rows of a tensor are ordered by channel, then component, in the old layout.
fn is_interleaved(name: &str, two: bool) -> bool {
    let Some(part) = name.strip_prefix("representation_model.") else { return false };
    let last = |index: &str| {
        part.ends_with(&format!("linears_scalar.{index}.weight"))
            || part.ends_with(&format!("linears_scalar.{index}.bias"))
    };
    (part.starts_with("tensor_embedding.") && last("1"))
        || (!two && part.starts_with("layers.") && last("2"))
}

/// Moves row `channel * 3 + component` to `component * channels + channel`.
fn sort_rows(weight: &mut Weight) -> Result<(), String> {
    let rows = weight.shape.first().copied().unwrap_or(0);
    if rows == 0 || rows % 3 != 0 {
        return Err(format!("with {rows} rows, expected a multiple of 3"));
    }
    let width: usize = weight.shape[1..].iter().product();
    match &mut weight.numbers {
        Numbers::F32(values) => *values = sorted(values, rows / 3, width),
        Numbers::F64(values) => *values = sorted(values, rows / 3, width),
        Numbers::U32(values) => *values = sorted(values, rows / 3, width),
    }
    Ok(())
}

fn sorted<T: Copy>(values: &[T], channels: usize, width: usize) -> Vec<T> {
    let mut sorted = Vec::with_capacity(values.len());
    for component in 0..3 {
        for channel in 0..channels {
            let row = channel * 3 + component;
            sorted.extend_from_slice(&values[row * width..(row + 1) * width]);
        }
    }
    sorted
}
