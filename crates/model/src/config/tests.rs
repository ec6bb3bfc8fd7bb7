//! Configurations good and bad.

use super::*;

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

#[test]
fn absent_fields_take_the_defaults_of_the_family() {
    let config = TransformerConfig::from_json(&llama()).expect("a valid configuration");
    assert_eq!((config.kv_heads, config.head_dim), (4, 16));
    assert_eq!(config.rope, Rope { theta: 10_000.0, scaling: RopeScaling::None });
    assert_eq!(config.biases, Biases::default());
    assert!(!config.tied_embeddings && config.sliding_window.is_none());
    let eight = with(llama(), "num_attention_heads", json!(8));
    let mistral = with(eight, "model_type", json!("mistral"));
    let config = TransformerConfig::from_json(&mistral).expect("a valid configuration");
    assert_eq!((config.kv_heads, config.sliding_window), (8, Some(4096)));
    let unwindowed = with(mistral, "sliding_window", Value::Null);
    let config = TransformerConfig::from_json(&unwindowed).expect("a valid configuration");
    assert_eq!(config.sliding_window, None);
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
    assert!(error("num_attention_heads", json!(7)).contains("64 is no multiple of 7"));
    assert!(error("num_key_value_heads", json!(3)).contains("4 query heads are no multiple of 3"));
    assert!(error("head_dim", json!(15)).contains("15 features"));
    assert!(error("eos_token_id", json!([2, 100])).contains("below vocab_size = 100"));
    let wide = with(llama(), "num_attention_heads", json!(1 << 14));
    let wide = with(with(wide, "head_dim", json!(1 << 14)), "num_key_value_heads", json!(1));
    let refused = TransformerConfig::from_json(&wide).map_err(|error| error.to_string());
    assert!(refused.is_err_and(|text| text.contains("exceed")));
}

#[test]
fn what_the_decoder_does_not_have_is_refused_with_what_it_has() {
    assert!(
        error("model_type", json!("gpt9")).contains("known families are llama, qwen2, mistral")
    );
    assert!(error("model_type", Value::Null).contains("no field model_type"));
    assert!(error("hidden_act", json!("gelu")).contains("supported: \"silu\""));
    let dynamic = json!({ "type": "dynamic", "factor": 2.0 });
    assert!(error("rope_scaling", dynamic).contains("\"dynamic\""));
    assert!(error("partial_rotary_factor", json!(0.5)).contains("all features"));
    let windowed =
        with(with(llama(), "model_type", json!("qwen2")), "use_sliding_window", json!(true));
    let refused = TransformerConfig::from_json(&with(windowed, "num_key_value_heads", json!(4)));
    assert!(matches!(refused, Err(ConfigError::Unsupported { field: "use_sliding_window", .. })));
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
fn parameters_are_counted_with_biases_and_norms() {
    let biased = with(with(llama(), "attention_bias", json!(true)), "mlp_bias", json!(true));
    let biased = with(biased, "num_key_value_heads", json!(2));
    let config = TransformerConfig::from_json(&biased).expect("a valid configuration");
    let layer = (64 * 64 + 64) * 2 + (32 * 64 + 32) * 2 + (64 * 96 + 96) * 2 + 96 * 64 + 64 + 128;
    assert_eq!(config.parameters(), 2 * 100 * 64 + 64 + 2 * layer);
    assert_eq!(TransformerConfig::from_json(&config.to_json()), Ok(config));
}
