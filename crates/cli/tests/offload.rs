//! Models larger than memory: `compress --offload`.

use crate::workshop::{Outcome, VOCAB, Workshop, names};
use linwright::model::checkpoint::{Form, SaveOptions, Source, save};
use linwright::model::{Transformer, TransformerConfig};
use linwright::tensor::RngKey;
use linwright::tensor::dtype::DType;
use serde_json::{Value, json};

/// Saves a random model.
fn save_model(w: &Workshop, name: &str, [hidden, layers]: [usize; 2], dtype: DType) {
    let config = json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden, "intermediate_size": 4 * hidden, "num_hidden_layers": layers,
        "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": VOCAB,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 1,
    });
    let config = TransformerConfig::from_json(&config).unwrap();
    let decoder = Transformer::random(config, RngKey::new(1));
    let companion = |name: &str| (name.to_owned(), w.read(&format!("model/{name}")));
    let companions = ["tokenizer.json", "tokenizer_config.json"].map(companion).to_vec();
    let source = Source::of_new_model(decoder.config(), companions);
    let options = SaveOptions { dtype: Some(dtype), ..SaveOptions::new(Form::Dense) };
    save(&decoder, &source, &options, &w.path(name)).unwrap();
}

#[test]
fn weights_in_files_give_the_bytes_of_weights_in_memory() {
    let w = Workshop::new();
    for (name, dtype) in [("full", DType::F32), ("half", DType::Bf16)] {
        save_model(&w, name, [32, 2], dtype);
        for method in [
            "--keep 0.5",
            "--keep 0.6 --form dense",
            "--method monarch --layers 1",
            "--method feature --keep 0.5",
        ] {
            // Fewer tokens than inputs of a down projection, and more than those of the others.
            let data = "--calibration calibration.jsonl:num_tokens=120,seq_len=40";
            let plan = format!("compress {name} {method} {data} --force");
            let held = w.ok_json(&format!("{plan} -o held"));
            let offloaded = w.ok_json(&format!("{plan} --offload -o offloaded"));
            let what = format!("{name} {method}");
            assert_eq!(
                held["sites"].as_array().map(Vec::len),
                offloaded["sites"].as_array().map(Vec::len)
            );
            assert!(w.weights("held") == w.weights("offloaded"), "{what}");
        }
    }
    let left: Vec<String> =
        names(&w.path(".")).into_iter().filter(|n| n.starts_with('.')).collect();
    assert!(left.is_empty(), "files without a name leave nothing: {left:?}");
}

#[test]
fn more_layers_take_no_more_memory() {
    /// Bytes of six layers in `f32`, which are large beside the rest of the process.
    const SIX_LAYERS: f64 = 6.0 * 4.2e6;
    const WHAT: &str = "--keep 0.8 --roles query,down --heal none --threads 1";
    let w = Workshop::new();
    let peaks = |layers: usize| -> [f64; 2] {
        save_model(&w, "deep", [256, layers], DType::Bf16);
        let peaks = ["--offload", ""].map(|how| {
            let data = "--calibration calibration.jsonl:num_tokens=400,seq_len=64";
            let plan = format!("compress deep {WHAT} {data} --force {how} -o out --json");
            let mut command = w.command(&plan);
            // What the allocator keeps for a moment is not growth.
            command.env("MIMALLOC_PURGE_DELAY", "0");
            let json: Value = serde_json::from_str(&Outcome::of(command).succeeded(&plan)).unwrap();
            json["summary"]["peak_resident_bytes"].as_f64().unwrap()
        });
        std::fs::remove_dir_all(w.path("deep")).unwrap();
        peaks
    };
    let (few, many) = (peaks(6), peaks(12));
    let (offloaded, held) = (many[0] - few[0], many[1] - few[1]);
    assert!(held > SIX_LAYERS, "in memory the peak grows with the layers: {few:?}, {many:?}");
    assert!(offloaded < 0.25 * SIX_LAYERS, "with files it does not: {few:?}, {many:?}");
}
