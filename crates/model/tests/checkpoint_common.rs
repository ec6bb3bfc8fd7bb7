//! A small model in a directory, for the tests of checkpoints.

use linwright_model::checkpoint::{Form, SaveOptions, SavedModel, Source, save};
use linwright_model::{Batch, Transformer, TransformerConfig};
use linwright_ops::NoProbe;
use linwright_tensor::{Mat, RngKey};
use serde_json::{Value, json};
use std::path::Path;

/// Configuration of the model, with a key that we do not know.
pub(crate) fn config_json() -> Value {
    json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 11,
        "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": null,
        "torch_dtype": "float32", "a_key_of_somebody_else": {"kept": [1, 2]},
    })
}

/// A word-level tokenizer of `count` tokens: `t0 t1 ...`.
pub(crate) fn tokenizer_json(count: usize) -> Value {
    let vocab: serde_json::Map<String, Value> =
        (0..count).map(|id| (format!("t{id}"), json!(id))).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "t1"},
    })
}

/// The model and what a directory of it holds besides weights.
pub(crate) fn small_model() -> (Transformer, Source) {
    let config = TransformerConfig::from_json(&config_json()).unwrap();
    let decoder = Transformer::random(config, RngKey::new(5));
    let companions = vec![
        ("tokenizer.json".to_owned(), tokenizer_json(11).to_string().into_bytes()),
        ("generation_config.json".to_owned(), b"{\"temperature\": 0.5}\n".to_vec()),
    ];
    let mut source = Source::of_new_model(decoder.config(), companions);
    source.config = config_json().as_object().unwrap().clone();
    (decoder, source)
}

/// Saves the model to `dir` in dense form.
pub(crate) fn save_small(dir: &Path) -> SavedModel {
    let (decoder, source) = small_model();
    save(&decoder, &source, &SaveOptions::new(Form::Dense), dir).unwrap()
}

/// Logits of one sequence.
pub(crate) fn logits(decoder: &Transformer, tokens: &[u32]) -> Mat<f32> {
    let batch = Batch::new(&[tokens]);
    let mut hidden = decoder.embed(&batch).unwrap();
    let layers = 0..decoder.config().layers.len();
    decoder.run_layers(&mut hidden, &batch, layers, &mut NoProbe).unwrap();
    decoder.logits(hidden.view())
}

/// Names of everything in a directory, hidden files included.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
