//! A small set of weights in a directory with companions, which is not a model.

use linwright_files::writer::{Planned, header_bytes, write_values};
use linwright_files::{FileError, INDEX, SINGLE};
use linwright_tensor::dtype::DType;
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Tensors of the given size in bytes.
const TENSORS: usize = 8;
const BYTES: usize = 512;

/// Names and contents of its files, with weights in one file or in one for each tensor.
pub(crate) fn files(sharded: bool) -> BTreeMap<String, Vec<u8>> {
    let vocab: Map<_, _> = (0..11).map(|id| (format!("t{id}"), json!(id))).collect();
    let tokenizer = json!({ "version": "1.0", "model": { "type": "WordLevel", "vocab": vocab } });
    let mut files = BTreeMap::from([
        ("config.json".to_owned(), json!({ "model_type": "llama" }).to_string().into_bytes()),
        ("tokenizer.json".to_owned(), tokenizer.to_string().into_bytes()),
        ("generation_config.json".to_owned(), b"{\"temperature\": 0.5}\n".to_vec()),
    ]);
    let names: Vec<String> = (0..TENSORS).map(|index| format!("layer.{index}.weight")).collect();
    if !sharded {
        files.insert(SINGLE.to_owned(), weights(&names));
        return files;
    }
    let mut map = Map::new();
    for (index, name) in names.iter().enumerate() {
        let shard = format!("model-{:05}-of-{TENSORS:05}.safetensors", index + 1);
        files.insert(shard.clone(), weights(std::slice::from_ref(name)));
        map.insert(name.clone(), json!(shard));
    }
    files.insert(INDEX.to_owned(), json!({ "weight_map": map }).to_string().into_bytes());
    files
}

/// A file of these tensors.
fn weights(names: &[String]) -> Vec<u8> {
    let shape = vec![BYTES / 32, 8];
    let planned: Vec<Planned> =
        names.iter().map(|name| Planned::values(name.clone(), DType::F32, shape.clone())).collect();
    let mut out = header_bytes(&planned);
    for (index, name) in names.iter().enumerate() {
        let values: Vec<f32> = (0..BYTES / 4).map(|at| (at * (index + 3)) as f32 * 0.25).collect();
        assert!(write_values::<FileError>(&mut out, name, DType::F32, &values).is_ok());
    }
    out
}
