//! Configurations good and bad.

use super::{AttentionConfig, Biases, HeadsConfig, RopeScaling, TransformerConfig};
use crate::error::ConfigError;
use crate::families::FAMILIES;
use serde_json::{Value, json};

fn llama() -> Value {
    json!({
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 100,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
    })
}

fn with(mut config: Value, field: &str, value: Value) -> Value {
    config[field] = value;
    config
}

fn error(field: &str, value: Value) -> String {
    match TransformerConfig::from_json(&with(llama(), field, value)) {
        Ok(config) => panic!("{field} was accepted: {config:?}"),
        Err(error) => error.to_string(),
    }
}

/// Heads of the first layer.
fn heads(config: &TransformerConfig) -> HeadsConfig {
    match config.layers[0].attention {
        AttentionConfig::Heads(heads) => heads,
        other => panic!("the first layer has {other:?}"),
    }
}

#[test]
fn absent_fields_take_the_defaults_of_the_family() {
    let config = TransformerConfig::from_json(&llama()).expect("a valid configuration");
    assert_eq!((heads(&config).kv_heads, config.head_dim), (4, 16));
    assert_eq!((config.ropes[0].theta, &config.ropes[0].scaling), (1e4, &RopeScaling::None));
    assert_eq!(config.biases, Biases::default());
    assert!(!config.tied_embeddings && heads(&config).window.is_none());
    let eight = with(llama(), "num_attention_heads", json!(8));
    let mistral = with(eight, "model_type", json!("mistral"));
    let config = TransformerConfig::from_json(&mistral).expect("a valid configuration");
    assert_eq!((heads(&config).kv_heads, heads(&config).window), (8, Some(4096)));
    let unwindowed = with(mistral, "sliding_window", Value::Null);
    let config = TransformerConfig::from_json(&unwindowed).expect("a valid configuration");
    assert_eq!(heads(&config).window, None);
}

#[test]
fn every_size_must_be_there_positive_whole_and_bounded() {
    for field in [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
        "max_position_embeddings",
    ] {
        assert!(error(field, Value::Null).contains(&format!("no field {field}")));
        for bad in [json!(0), json!(-4), json!(2.5), json!("64"), json!(1u64 << 40), json!([1])] {
            assert!(error(field, bad).contains(field), "{field}");
        }
    }
    assert!(error("rms_norm_eps", json!("small")).contains("rms_norm_eps is \"small\""));
    assert!(error("rms_norm_eps", json!(1e300)).contains("from 0 to 1"));
}

#[test]
fn contradictions_are_named() {
    assert!(error("num_attention_heads", json!(7)).contains("64 is not a multiple of 7"));
    assert!(
        error("num_key_value_heads", json!(3)).contains("4 query heads are not a multiple of 3")
    );
    assert!(error("head_dim", json!(15)).contains("15 features"));
    let wide = with(llama(), "num_attention_heads", json!(1 << 14));
    let wide = with(with(wide, "head_dim", json!(1 << 14)), "num_key_value_heads", json!(1));
    let refused = TransformerConfig::from_json(&wide).map_err(|error| error.to_string());
    assert!(refused.is_err_and(|text| text.contains("exceed")));
}

#[test]
fn what_the_transformer_does_not_have_is_refused_with_what_it_has() {
    assert!(
        error("model_type", json!("gpt9")).contains("known families are llama, mistral, qwen2")
    );
    assert!(error("model_type", Value::Null).contains("no field model_type"));
    assert!(error("hidden_act", json!("mish")).contains("supported: silu, swish, gelu"));
    let other = json!({ "type": "spiral", "factor": 2.0 });
    assert!(error("rope_scaling", other).contains("\"spiral\""));
    let phi = with(with(llama(), "model_type", json!("phi")), "layer_norm_eps", json!(1e-5));
    let odd = TransformerConfig::from_json(&with(phi, "partial_rotary_factor", json!(0.2)));
    assert!(odd.is_err_and(|error| error.to_string().contains("3 of a head's 16 features")));
    let chunked = with(llama(), "layer_types", json!(["full_attention", "chunked_attention"]));
    let chunked = with(with(chunked, "num_key_value_heads", json!(4)), "head_dim", json!(16));
    let refused = TransformerConfig::from_json(&with(chunked, "model_type", json!("gemma2")));
    assert!(matches!(refused, Err(ConfigError::Unsupported { field: "layer_types", .. })));
    let list = TransformerConfig::from_json(&json!([1]));
    assert_eq!(list, Err(ConfigError::NotAnObject { found: "an array" }));
}

#[test]
fn older_and_newer_ways_to_write_rotary_positions_say_the_same() {
    let scaling = json!({
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    });
    let older = with(with(llama(), "rope_theta", json!(5e5)), "rope_scaling", scaling.clone());
    let newer = with(llama(), "rope_parameters", with(scaling.clone(), "rope_theta", json!(5e5)));
    let older = TransformerConfig::from_json(&older).expect("a valid configuration");
    assert_eq!(TransformerConfig::from_json(&newer), Ok(older));
    let flat = with(scaling, "high_freq_factor", json!(1.0));
    assert!(error("rope_scaling", flat).contains("1 is not above 1"));
    assert!(error("rope_scaling", json!({ "rope_type": "linear" })).contains("no field factor"));
}

#[test]
fn what_a_family_passes_over_changes_nothing_and_what_none_follows_is_refused() {
    let plain = TransformerConfig::from_json(&llama()).expect("a valid configuration");
    for (field, value) in [
        ("clip_qkv", json!(0.5)),
        ("final_logit_softcapping", json!(30.0)),
        ("query_pre_attn_scalar", json!("anything")),
        ("sliding_window", json!(-1)),
        ("no_rope_layers", json!([0, 0])),
        ("partial_rotary_factor", json!(0.5)),
        ("rotary_dim", json!(4)),
        ("use_bidirectional_attention", json!(true)),
        ("is_causal", json!(true)),
        ("position_embedding_type", json!("absolute")),
        ("logits_scaling", json!(1)),
    ] {
        let read = TransformerConfig::from_json(&with(llama(), field, value));
        assert_eq!(read.as_ref(), Ok(&plain), "{field}");
    }
    for (field, value) in [
        ("is_causal", json!(false)),
        ("per_layer_config", json!({ "0": {} })),
        ("logits_scaling", json!(4.0)),
        ("position_embedding_type", json!("relative_key")),
    ] {
        let said = error(field, value);
        assert!(said.contains(field) && said.contains("not supported"), "{said}");
    }
    let scaled = json!({ "type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5 });
    assert!(error("rope_scaling", scaled).contains("partial_rotary_factor is 0.5"));
    let kinds = json!({ "full_attention": {}, "sliding_attention": {} });
    assert!(error("rope_parameters", kinds).contains("one object for all layers"));
}

#[test]
fn parameters_are_counted_with_biases_and_norms() {
    let biased = with(with(llama(), "attention_bias", json!(true)), "mlp_bias", json!(true));
    let biased = with(biased, "num_key_value_heads", json!(2));
    let config = TransformerConfig::from_json(&biased).expect("a valid configuration");
    let layer = (64 * 64 + 64) * 2 + (32 * 64 + 32) * 2 + (64 * 96 + 96) * 2 + 96 * 64 + 64 + 128;
    assert_eq!(config.parameters(), 2 * 100 * 64 + 64 + 2 * layer);
    assert_eq!(TransformerConfig::from_json(&config.to_json()), Ok(config));
}

#[test]
fn fields_are_called_as_the_family_calls_them() {
    let gpt2 = json!({
        "model_type": "gpt2", "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 16,
        "vocab_size": 9, "n_inner": null, "layer_norm_epsilon": 1e-5,
    });
    let config = TransformerConfig::from_json(&gpt2).expect("a valid configuration");
    assert_eq!(config.layers[1].mlp, super::MlpConfig::Inner(96));
    let error = TransformerConfig::from_json(&with(gpt2.clone(), "n_head", json!(0)));
    assert!(error.is_err_and(|error| error.to_string().contains("n_head")));
    let error = TransformerConfig::from_json(&with(gpt2, "n_embd", Value::Null));
    assert!(error.is_err_and(|error| error.to_string().contains("no field n_embd")));
}

#[test]
fn families_are_told_apart_and_none_asks_for_what_cannot_be() {
    for (index, family) in FAMILIES.iter().enumerate() {
        let names = || family.aliases.iter().chain([&family.model_type]);
        for other in &FAMILIES[..index] {
            let taken = |name| other.model_type == name || other.aliases.contains(&name);
            assert!(!names().any(|name| taken(name)), "{} twice", family.model_type);
        }
        let fused = family.names.attention.len() == 1;
        assert!(matches!(family.names.attention.len(), 1 | 3), "{}", family.model_type);
        assert!(!fused || family.query_key_norm.is_none(), "{}", family.model_type);
        assert!(matches!(family.names.mlp.len(), 1 | 2), "{}", family.model_type);
    }
}

#[test]
fn layers_of_deci_differ_or_are_missing() {
    let block = |attention: Value, ffn: Value| json!({ "attention": attention, "ffn": ffn });
    let blocks = json!([
        block(json!({ "n_heads_in_group": 4 }), json!({ "ffn_mult": 3.0 })),
        block(json!({ "no_op": true }), json!({ "replace_with_linear": true })),
    ]);
    let deci = with(with(llama(), "model_type", json!("nemotron-nas")), "block_configs", blocks);
    let deci = with(with(deci, "intermediate_size", Value::Null), "num_key_value_heads", json!(9));
    let config = TransformerConfig::from_json(&deci).expect("a valid configuration");
    assert_eq!(heads(&config).kv_heads, 1);
    // 2 * 3 * 64 / 3 = 128, rounded up.
    assert_eq!(config.layers[0].mlp, super::MlpConfig::Inner(256));
    assert_eq!(config.layers[1].attention, AttentionConfig::Absent);
    let names: Vec<String> = config.tensor_shapes().into_iter().map(|(name, _)| name).collect();
    let second: Vec<&str> =
        names.iter().filter_map(|name| name.strip_prefix("model.layers.1.")).collect();
    assert_eq!(second, ["post_attention_layernorm.weight", "mlp.linear_mlp.weight"]);
    let few = with(deci, "block_configs", json!([{}]));
    assert!(
        TransformerConfig::from_json(&few)
            .is_err_and(|error| error.to_string().contains("a list of 2"))
    );
}
