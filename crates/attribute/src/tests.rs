//! Small networks and examples for tests.

use crate::{Classified, CompressorKey, CompressorSpec, Documents, GradientMap};
use linwright_model::{Transformer, TransformerConfig};
use linwright_nets::{Labelled, Net, NetSpec, Targets};
use linwright_ops::{LinearSlot, Network};
use linwright_tensor::{Mat, RngKey};
use serde_json::json;
use std::collections::BTreeMap;

/// A decoder whose attention has biases.
pub(crate) fn decoder() -> Transformer {
    random(json!({
        "model_type": "llama", "attention_bias": true, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 50,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    }))
}

/// An encoder with the head of a masked language model.
pub(crate) fn encoder() -> Transformer {
    random(json!({
        "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 16,
        "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "vocab_size": 50, "max_position_embeddings": 64, "hidden_act": "gelu",
        "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    }))
}

fn random(config: serde_json::Value) -> Transformer {
    let config = TransformerConfig::from_json(&config).expect("a configuration");
    let mut model = Transformer::random(config, RngKey::new(1));
    // Large enough that every part of it matters.
    let key = RngKey::new(2);
    model.for_each_param_mut(&mut |name, values| {
        let noise = key.fold(name).stream().normals::<f32>(values.len(), 0.2);
        let centre = if name.to_lowercase().contains("norm.weight") { 1.0 } else { 0.0 };
        values.iter_mut().zip(noise).for_each(|(value, noise)| *value = centre + noise);
    });
    model
}

/// Texts of these lengths.
pub(crate) fn documents(lengths: &[usize]) -> Documents {
    let text = |(seed, &length): (usize, &usize)| {
        let mut stream = RngKey::new(seed as u64).fold("text").stream();
        (0..length).map(|_| stream.below(50) as u32).collect()
    };
    Documents::new(lengths.iter().enumerate().map(text).collect()).expect("long enough")
}

/// A classifier of 12 numbers with two linear layers with biases, and one without.
pub(crate) fn classifier(seed: u64) -> Net {
    let text = "{input: {channels: 12}, layers: [{linear: {name: a, out: 10}}, tanh, {linear: {name: b, out: 8, bias: false}}, tanh, {linear: {name: c, out: 3}}]}";
    let spec: NetSpec = serde_saphyr::from_str(text).expect("a description");
    let mut net = Net::random(&spec, RngKey::new(seed)).expect("a network");
    for (index, tensor) in net.tensors_mut().into_iter().enumerate() {
        let noise = RngKey::new(seed).fold_index(index as u64).stream();
        let noise = { noise }.normals::<f32>(tensor.values.len(), 0.5);
        tensor.values.iter_mut().zip(noise).for_each(|(value, noise)| *value = noise);
    }
    net
}

/// Points with classes.
pub(crate) fn points(count: usize) -> Labelled {
    let rows = Mat::from_vec(count, 12, RngKey::new(8).stream().normals(12 * count, 1.0));
    let mut stream = RngKey::new(9).stream();
    let classes = (0..count).map(|_| stream.below(3) as u32).collect();
    Labelled::new(rows, 1, Targets::Classes(classes)).expect("examples")
}

pub(crate) fn classified(labelled: &Labelled) -> Classified<'_> {
    Classified::new(labelled).expect("classes")
}

pub(crate) const KEY: CompressorKey = CompressorKey { seed: 7, checkpoint: 0 };

/// The maps of a compressor for all layers for which `chosen` holds.
pub(crate) fn map_of<N: Network>(
    network: &N,
    compressor: &str,
    chosen: &dyn Fn(&LinearSlot) -> bool,
) -> GradientMap {
    let spec: CompressorSpec = compressor.parse().expect("a compressor");
    GradientMap::build(network, chosen, &spec, KEY, &BTreeMap::new()).expect("maps")
}
