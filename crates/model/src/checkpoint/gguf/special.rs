//! Configuration fields that single architectures need beyond the common ones.

use super::file::{File, Heads};
use super::rope;
use crate::checkpoint::gguf_fault::GgufFault;
use crate::families::gguf::Special;
use linwright_files::gguf::ContainerFault;
use serde_json::{Map, Value, json};

type Done = Result<(), GgufFault>;

/// Adds the special fields of an architecture.
pub(super) fn add(
    special: Special,
    file: &File<'_>,
    heads: Heads,
    config: &mut Map<String, Value>,
) -> Done {
    match special {
        Special::Nothing => Ok(()),
        Special::Llama => llama(file, config),
        Special::NoWindow => no_window(file, config),
        Special::Gemma2 => gemma2(file, heads, config),
        Special::Gemma3 => gemma3(file, heads, config),
        Special::Phi3 => phi3(file, config),
        Special::GptNeox => gptneox(file, config),
        Special::StableLm => stablelm(file, config),
        Special::Olmo => olmo(file, config),
        Special::Bert => bert(file, config),
    }
}

fn set(config: &mut Map<String, Value>, field: &str, value: Value) {
    config.insert(field.to_owned(), value);
}

/// Biases if the file has them; with a sliding window the model belongs to the other family of this
/// architecture.
fn llama(file: &File<'_>, config: &mut Map<String, Value>) -> Done {
    if let Some(window) = file.optional_size("attention.sliding_window")? {
        set(config, "model_type", json!("mistral"));
        set(config, "architectures", json!(["MistralForCausalLM"]));
        set(config, "sliding_window", json!(window));
    } else {
        set(config, "attention_bias", json!(file.has("blk.0.attn_q.bias")));
        set(config, "mlp_bias", json!(file.has("blk.0.ffn_gate.bias")));
    }
    if let Some(mut scaling) = rope::long_and_short(file)? {
        scaling["original_max_position_embeddings"] = json!(original(file)?);
        set(config, "rope_scaling", scaling);
    }
    Ok(())
}

/// The context length of pre-training.
fn original(file: &File<'_>) -> Result<u64, GgufFault> {
    match file.optional_size(rope::ORIGINAL)? {
        Some(original) => Ok(original),
        None => file.size("context_length"),
    }
}

/// Global attention only. A window would mean another family.
fn no_window(file: &File<'_>, config: &mut Map<String, Value>) -> Done {
    if let Some(window) = file.optional_size("attention.sliding_window")? {
        return Err(ContainerFault::Key {
            key: file.key("attention.sliding_window"),
            found: window.to_string(),
            expected: "no such key: attention windows of this architecture are not supported",
        }
        .into());
    }
    set(config, "use_sliding_window", json!(false));
    Ok(())
}

/// Sliding windows in every other layer, soft caps on logits, with llama.cpp's own defaults. The
/// file does not hold the query scale: it is that of the head size, except in the largest model,
/// which is recognised by its 46 layers.
fn gemma2(file: &File<'_>, heads: Heads, config: &mut Map<String, Value>) -> Done {
    const LAYERS_OF_LARGEST: u64 = 46;
    const PATTERN: u64 = 2;
    let cap = |key, usual| -> Result<Value, GgufFault> {
        Ok(json!(file.optional_number(key)?.unwrap_or(usual)))
    };
    set(config, "attn_logit_softcapping", cap("attn_logit_softcapping", 50.0)?);
    set(config, "final_logit_softcapping", cap("final_logit_softcapping", 30.0)?);
    set(config, "sliding_window", json!(file.size("attention.sliding_window")?));
    let pattern = file.optional_size("attention.sliding_window_pattern")?.unwrap_or(PATTERN);
    set_layer_types(file, pattern, config)?;
    query_scale(file, heads, LAYERS_OF_LARGEST, config)
}

/// Marks each layer as windowed or global; each `pattern`-th is global.
fn set_layer_types(file: &File<'_>, pattern: u64, config: &mut Map<String, Value>) -> Done {
    let kind = |layer: u64| match (layer + 1) % pattern {
        0 => "full_attention",
        _ => "sliding_attention",
    };
    let kinds: Vec<&str> = (0..file.size("block_count")?).map(kind).collect();
    set(config, "layer_types", json!(kinds));
    Ok(())
}

fn query_scale(
    file: &File<'_>,
    heads: Heads,
    largest: u64,
    config: &mut Map<String, Value>,
) -> Done {
    let scalar = if file.size("block_count")? == largest {
        file.size("embedding_length")? / heads.queries as u64
    } else {
        heads.size as u64
    };
    set(config, "query_pre_attn_scalar", json!(scalar));
    Ok(())
}

/// Five layers with a window, then one without; windowed layers have their own rotary base and no
/// scaling.
fn gemma3(file: &File<'_>, heads: Heads, config: &mut Map<String, Value>) -> Done {
    const LAYERS_OF_LARGEST: u64 = 62;
    const PATTERN: u64 = 6;
    const LOCAL_THETA: f64 = 10_000.0;
    let pattern = file.optional_size("attention.sliding_window_pattern")?.unwrap_or(PATTERN);
    let local = file.optional_number("rope.freq_base_swa")?.unwrap_or(LOCAL_THETA);
    let cap = file.optional_number("final_logit_softcapping")?;
    set(config, "sliding_window", json!(file.size("attention.sliding_window")?));
    set(config, "sliding_window_pattern", json!(pattern));
    set(config, "rope_local_base_freq", json!(local));
    set_layer_types(file, pattern, config)?;
    set(config, "attn_logit_softcapping", Value::Null);
    set(config, "final_logit_softcapping", json!(cap));
    query_scale(file, heads, LAYERS_OF_LARGEST, config)
}

/// An optional window, and rotary factors for long and for short sequences.
fn phi3(file: &File<'_>, config: &mut Map<String, Value>) -> Done {
    let window = file.optional_size("attention.sliding_window")?;
    set(config, "sliding_window", json!(window));
    set(config, "original_max_position_embeddings", json!(original(file)?));
    if let Some(scaling) = rope::long_and_short(file)? {
        set(config, "rope_scaling", scaling);
    }
    Ok(())
}

fn gptneox(file: &File<'_>, config: &mut Map<String, Value>) -> Done {
    let parallel = file.optional_flag("use_parallel_residual")?.unwrap_or(true);
    set(config, "use_parallel_residual", json!(parallel));
    set(config, "attention_bias", json!(file.has("blk.0.attn_qkv.bias")));
    Ok(())
}

/// The key for parallel residuals is wrong in some files; the presence of the second norm decides.
fn stablelm(file: &File<'_>, config: &mut Map<String, Value>) -> Done {
    set(config, "use_parallel_residual", json!(!file.has("blk.0.ffn_norm.weight")));
    set(config, "use_qkv_bias", json!(file.has("blk.0.attn_q.bias")));
    set(config, "qk_layernorm", json!(file.has("blk.0.attn_q_norm.weight")));
    Ok(())
}

/// A clamp on queries, keys and values. Norms have no parameters and a fixed epsilon.
fn olmo(file: &File<'_>, config: &mut Map<String, Value>) -> Done {
    const EPSILON: f64 = 1e-5;
    let key = "attention.layer_norm_epsilon";
    match file.optional_number(key)? {
        None => {}
        Some(epsilon) if epsilon == EPSILON => {}
        Some(other) => {
            return Err(ContainerFault::Key {
                key: file.key(key),
                found: other.to_string(),
                expected: "1e-5, which all models of this architecture have",
            }
            .into());
        }
    }
    let bound = file.optional_number("attention.clamp_kqv")?.filter(|bound| *bound > 0.0);
    set(config, "clip_qkv", json!(bound));
    Ok(())
}

fn bert(file: &File<'_>, config: &mut Map<String, Value>) -> Done {
    let types = file.header.tensors.get("token_types.weight");
    // A single row is stored as a vector.
    let rows = types.map(|types| if types.shape.len() == 2 { types.shape[0] } else { 1 });
    set(config, "type_vocab_size", json!(rows.unwrap_or(1)));
    Ok(())
}
