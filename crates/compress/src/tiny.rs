//! Tiny models of `testdata`, for tests.

use linwright_model::checkpoint::{LoadedModel, load};
use linwright_model::{Split, Transformer, Windows};
use linwright_tensor::RngKey;
use std::path::Path;

/// A checkpoint of `testdata` in the layout of a model directory.
pub(crate) fn checkpoint(stem: &str) -> LoadedModel {
    checkpoint_in("decoder", stem)
}

/// A tiny model of a folder of test vectors.
pub(crate) fn checkpoint_in(folder: &str, stem: &str) -> LoadedModel {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder);
    let record = std::fs::read(sets.join(format!("{stem}.json"))).expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let weights = std::fs::read(sets.join(format!("{stem}.safetensors"))).expect("weights");
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("config.json"), record["config"].to_string()).expect("writes");
    std::fs::write(dir.path().join("model.safetensors"), weights).expect("writes");
    load(dir.path()).expect("loads")
}

/// Random tokens as calibration text.
pub(crate) fn calibration(model: &Transformer, tokens: usize) -> Windows {
    let mut stream = RngKey::new(6).stream();
    let vocab = model.config().vocab;
    let text: Vec<u32> = (0..tokens).map(|_| stream.below(vocab) as u32).collect();
    Windows::new(&[text], None, 32, tokens, Split::Contiguous).expect("enough")
}
