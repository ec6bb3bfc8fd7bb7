//! Readers of model configurations.

use super::{few, outcome};
use linwright_model::TransformerConfig;
use linwright_model::generate::SamplingSettings;
use serde_json::Value;

/// Largest number of layers whose tensors are listed, to keep runs short.
const LAYERS: usize = 4;
/// Vocabulary of the generating model.
const VOCAB: usize = 300;

/// Reads a `config.json`, alone or in the field `config`, and counts and lists the tensors of the
/// model.
pub(super) fn config(bytes: &[u8]) -> String {
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return "no JSON".into() };
    let json = json.get("config").unwrap_or(&json);
    outcome(TransformerConfig::from_json(json).map(|config| {
        let parameters = config.parameters();
        if config.layers.len() <= LAYERS {
            let listed = config.tensor_shapes();
            let numbers: u64 = listed
                .iter()
                .map(|(_, shape)| shape.iter().map(|&n| n as u64).product::<u64>())
                .sum();
            assert_eq!(numbers, parameters, "parameters of the tensors and of the configuration");
        }
        let TransformerConfig { family, norm, placement, parallel, ropes, biases, .. } = &config;
        let family = family.model_type;
        let layers = few(config.layers.len());
        format!("{family} {layers} {norm:?} {placement:?} {parallel:?} {} {biases:?}", ropes.len())
    }))
}

/// Reads a `generation_config.json`.
pub(super) fn generation(bytes: &[u8]) -> String {
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return "no JSON".into() };
    outcome(SamplingSettings::from_json(&json, VOCAB).map(|settings| {
        let choice = format!("{:?}", settings.choice);
        let choice = choice.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        format!("{choice} {} {}", settings.new_tokens.is_some(), few(settings.end_tokens.len()))
    }))
}
