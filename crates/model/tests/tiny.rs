//! Small random decoders for tests.

use linwright_model::{Transformer, TransformerConfig};
use linwright_tensor::RngKey;
use serde_json::{Value, json};

/// A configuration of a small decoder of the given family, changed by `changes`.
pub(crate) fn config(model_type: &str, changes: Value) -> TransformerConfig {
    let mut config = json!({
        "model_type": model_type,
        "hidden_size": 24,
        "intermediate_size": 20,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 50,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
    });
    for (field, value) in changes.as_object().expect("changes are an object") {
        config[field] = value.clone();
    }
    TransformerConfig::from_json(&config).expect("a valid configuration")
}

/// A decoder with weights large enough that every part of it matters.
pub(crate) fn decoder(config: TransformerConfig, seed: u64) -> Transformer {
    let mut decoder = Transformer::random(config, RngKey::new(seed));
    let key = RngKey::new(seed).fold("test weights");
    decoder.for_each_param_mut(&mut |name, values| {
        let noise = key.fold(name).stream().normals::<f32>(values.len(), 0.2);
        let centre = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        values.iter_mut().zip(noise).for_each(|(value, noise)| *value = centre + noise);
    });
    decoder
}

/// Random tokens below `vocab`.
pub(crate) fn tokens(count: usize, vocab: usize, seed: u64) -> Vec<u32> {
    let mut stream = RngKey::new(seed).fold("tokens").stream();
    (0..count).map(|_| stream.below(vocab) as u32).collect()
}
