//! Rotary scaling, from keys and from tensors of factors.

use super::file::File;
use crate::checkpoint::gguf_fault::GgufFault;
use crate::config::yarn_attention;
use linwright_files::gguf::{ContainerFault, MetaValue};
use serde_json::{Value, json};

/// Original context.
pub(super) const ORIGINAL: &str = "rope.scaling.original_context_length";
/// Scale of cosines and sines.
const ATTENTION: &str = "rope.scaling.attn_factor";
/// Tensor of divisors of the rotary frequencies.
const FREQS: &str = "rope_freqs.weight";
/// Tensors of divisors for long and for short sequences.
const LONG: &str = "rope_factors_long.weight";
const SHORT: &str = "rope_factors_short.weight";
/// Relative tolerance between stored factors, which are f32, and those of a configuration.
const TOLERANCE: f64 = 1e-4;

/// The field `rope_scaling`, for `rotating` features of a head.
pub(super) fn scaling(file: &File<'_>, theta: f64, rotating: usize) -> Result<Value, GgufFault> {
    let factor = || -> Result<f64, GgufFault> {
        let key = "rope.scaling.factor";
        let missing = || GgufFault::MissingKey { key: file.key(key), expected: "a number" };
        file.optional_number(key)?.ok_or_else(missing)
    };
    if let Some(factors) = factors(file, FREQS)? {
        return llama3(file, &factors, theta, rotating);
    }
    match file.own("rope.scaling.type") {
        None => Ok(match file.optional_number("rope.scale_linear")? {
            Some(factor) if factor != 1.0 => json!({ "rope_type": "linear", "factor": factor }),
            _ => Value::Null,
        }),
        Some(MetaValue::Text(kind)) if kind == "none" => Ok(Value::Null),
        Some(MetaValue::Text(kind)) if kind == "linear" => {
            Ok(json!({ "rope_type": "linear", "factor": factor()? }))
        }
        Some(MetaValue::Text(kind)) if kind == "yarn" => {
            let (factor, original) = (factor()?, file.size(ORIGINAL)?);
            let mut scaling = json!({
                "rope_type": "yarn",
                "factor": factor,
                "original_max_position_embeddings": original,
            });
            if let Some(by) = file.optional_number(ATTENTION)? {
                scaling["attention_factor"] = json!(by * yarn_attention(factor));
            }
            Ok(scaling)
        }
        // Its factors are tensors.
        Some(MetaValue::Text(kind)) if kind == "longrope" && file.has(LONG) => Ok(Value::Null),
        Some(other) => Err(ContainerFault::Key {
            key: file.key("rope.scaling.type"),
            found: other.describe(),
            expected: "none, linear, yarn, or longrope with tensors of factors",
        }
        .into()),
    }
}

/// The scaling of a file with factors for long and for short sequences.
pub(super) fn long_and_short(file: &File<'_>) -> Result<Option<Value>, GgufFault> {
    match (factors(file, LONG)?, factors(file, SHORT)?) {
        (None, None) => Ok(None),
        (Some(long), Some(short)) => {
            let mut scaling = json!({
                "rope_type": "longrope",
                "type": "longrope",
                "long_factor": long,
                "short_factor": short,
            });
            // Without the key it is 1, unlike in transformers, which derives it from the factor.
            let attention = file.optional_number(ATTENTION)?.unwrap_or(1.0);
            scaling["attention_factor"] = json!(attention);
            Ok(Some(scaling))
        }
        (None, Some(_)) => Err(alone(SHORT)),
        (Some(_), None) => Err(alone(LONG)),
    }
}

fn alone(name: &'static str) -> GgufFault {
    let reason = "of one kind only; factors for long and short sequences must both be present";
    GgufFault::RotaryFactors { name, reason: reason.into() }
}

/// The numbers of a vector of factors as decimals of f32.
fn factors(file: &File<'_>, name: &'static str) -> Result<Option<Vec<f64>>, GgufFault> {
    let Some(tensor) = file.header.tensors.get(name) else {
        return Ok(None);
    };
    let unread = || super::unread(name, tensor);
    let numbers = tensor.dtype.numbers.ok_or_else(unread)?;
    let count: usize = tensor.shape.iter().product();
    let mut values = vec![0.0f32; count];
    numbers.decode_into(file.bytes_of(tensor), &mut values);
    match values.iter().find(|value| !value.is_finite() || **value <= 0.0) {
        None => Ok(Some(values.iter().filter_map(|v| v.to_string().parse().ok()).collect())),
        Some(value) => Err(GgufFault::RotaryFactors {
            name,
            reason: format!("among which is {value}; expected positive numbers"),
        }),
    }
}

/// The configuration that yields these factors ("llama3" scaling). It keeps frequencies that turn
/// more than four times within the original context and divides those that turn less than once by
/// the factor, with interpolation in between. The factor is the largest one in the file; the file
/// does not hold the original context, so those of known models are tried. Factors of no such rule
/// are LongRoPE with the same ones at all lengths.
fn llama3(
    file: &File<'_>,
    factors: &[f64],
    theta: f64,
    rotating: usize,
) -> Result<Value, GgufFault> {
    const LOW: f64 = 1.0;
    const HIGH: f64 = 4.0;
    let wrong = |reason| GgufFault::RotaryFactors { name: FREQS, reason };
    if factors.len() != rotating / 2 || factors.is_empty() {
        let (found, expected) = (factors.len(), rotating / 2);
        return Err(wrong(format!("for {found} pairs of features, expected {expected}")));
    }
    let factor = factors.iter().fold(1.0f64, |most, &factor| most.max(factor));
    let said = file.optional_size(ORIGINAL)?;
    let usual = [8192].into_iter().chain((5..=20).map(|power| 1 << power));
    for original in said.into_iter().chain(usual) {
        let expected = |pair: usize| {
            let turns = original as f64 * theta.powf(-2.0 * pair as f64 / rotating as f64)
                / std::f64::consts::TAU;
            let kept = ((turns - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
            1.0 / ((1.0 - kept) / factor + kept)
        };
        let fits = |(pair, &found): (usize, &f64)| {
            (found - expected(pair)).abs() <= TOLERANCE * found.abs()
        };
        if factors.iter().enumerate().all(fits) {
            return Ok(json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": LOW,
                "high_freq_factor": HIGH,
                "original_max_position_embeddings": original,
            }));
        }
    }
    Ok(json!({
        "rope_type": "longrope",
        "long_factor": factors,
        "short_factor": factors,
        "attention_factor": 1.0,
        "original_max_position_embeddings": file.size("context_length")?,
    }))
}
