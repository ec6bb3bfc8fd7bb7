//! Writing of `config.json`.

use super::{AttentionConfig, MlpConfig, TransformerConfig};
use crate::families::{
    BiasRule, Family, FirstRow, Head, Positions, RotaryForm, Switch, WindowRule,
};
use linwright_tensor::kernels::activation::Activation;
use serde_json::{Map, Value, json};

impl TransformerConfig {
    /// The `config.json` for transformers of a model whose layers differ only in windows and rotary
    /// embeddings.
    ///
    /// # Panics
    /// If layers have different widths, which only a configuration that was read can express.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (kv_heads, inner) = self.uniform();
        let family = self.family;
        let mut usual = json!({
            "hidden_size": self.hidden,
            "intermediate_size": inner,
            "num_hidden_layers": self.layers.len(),
            "num_attention_heads": self.heads,
            "num_key_value_heads": kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.counted_positions(),
            "rms_norm_eps": self.norm.epsilon,
            "hidden_act": self.activation_name(),
            "tie_word_embeddings": self.tied_embeddings,
            "bos_token_id": self.bos_token,
            "eos_token_id": match self.eos_tokens.as_slice() {
                [] => Value::Null,
                [one] => json!(one),
                many => json!(many),
            },
            "torch_dtype": "float32",
        });
        if let Value::Object(usual) = &mut usual {
            self.write_switches(usual);
            self.write_rotary(usual);
            self.write_layers(usual);
            self.write_rest(usual);
        }
        let mut config = json!({
            "architectures": [self.architecture()],
            "model_type": family.model_type,
        });
        if let (Value::Object(config), Value::Object(usual)) = (&mut config, usual) {
            for (name, value) in usual {
                let renamed = family.fields.iter().find(|(usual, _)| *usual == name);
                match renamed {
                    Some((_, "")) => None,
                    Some((_, renamed)) => config.insert((*renamed).to_owned(), value),
                    None => config.insert(name, value),
                };
            }
        }
        config
    }

    /// Number of positions as the family counts them.
    fn counted_positions(&self) -> usize {
        let stretched = self.ropes.iter().find(|rope| rope.longest().is_some());
        match (self.family.positions, self.learned_positions) {
            (Positions::Learned { first: FirstRow::AfterPad, .. }, Some(table)) => {
                self.max_positions + table.first
            }
            _ => stretched.map_or(self.max_positions, |rope| rope.original_positions),
        }
    }

    /// An encoder without its head is a bare model.
    fn architecture(&self) -> String {
        let name = self.family.architecture;
        match self.family.names.head {
            Head::Masked { .. } if self.masked_head && self.pooler => {
                name.replace("ForMaskedLM", "ForPreTraining")
            }
            Head::Masked { .. } if !self.masked_head => name.replace("ForMaskedLM", "Model"),
            Head::Masked { .. } | Head::Linear(_) => name.to_owned(),
        }
    }

    /// Key and value heads and MLP width, common to all layers.
    fn uniform(&self) -> (usize, usize) {
        let widths = |layer: &super::LayerConfig| match (layer.attention, layer.mlp) {
            (AttentionConfig::Heads(heads), MlpConfig::Inner(inner)) => (heads.kv_heads, inner),
            other => panic!("a layer of {other:?} has no common widths"),
        };
        let widths: Vec<_> = self.layers.iter().map(widths).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "layers of one width");
        widths.first().copied().unwrap_or((self.heads, self.hidden))
    }

    fn activation_name(&self) -> &'static str {
        let known = self.family.activations.iter().find(|(_, own)| *own == self.activation);
        match self.activation {
            _ if known.is_some() => known.map_or("", |(name, _)| name),
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu_new",
            Activation::QuickGelu => "quick_gelu",
            Activation::Relu => "relu",
            Activation::ReluSquared => "relu2",
            Activation::Tanh => "tanh",
            _ => "silu",
        }
    }

    /// Fields for optional parts.
    fn write_switches(&self, fields: &mut Map<String, Value>) {
        let Family { biases, norm, parallel, query_key_norm, placement, .. } = self.family;
        let BiasRule { query_key_value, output, mlp, head } = *biases;
        let mut write = |switch, there: bool| {
            if let Switch::Field(field) = switch {
                fields.insert(field.into(), json!(there));
            }
        };
        write(query_key_value, self.biases.query_key_value);
        write(output, self.biases.output);
        write(mlp, self.biases.mlp);
        write(head, self.biases.head);
        write(norm.weight, self.norm.weight);
        write(norm.bias, self.norm.bias);
        write(parallel.when, self.parallel.is_some());
        if let Some(rule) = query_key_norm {
            write(rule.when, self.query_key_norm);
        }
        if let crate::families::Placement::BeforeIf(field) = placement {
            let before = self.placement == super::Placement::Before;
            fields.insert((*field).into(), json!(before));
        }
    }

    /// Whether the absence of a field has a meaning.
    fn has_default(&self, field: &str) -> bool {
        self.family.defaults.iter().any(|(other, _)| *other == field)
    }

    fn write_rotary(&self, fields: &mut Map<String, Value>) {
        match self.ropes.as_slice() {
            [] => {}
            [one] if self.has_default("rotary_dim") => {
                fields.insert("rotary_dim".into(), json!(one.features));
            }
            [one] if self.has_default("original_max_position_embeddings") => {
                // This family's field takes precedence over that of its rotary object.
                let original = json!(one.original_positions);
                fields.insert("original_max_position_embeddings".into(), original);
                fields.insert("rope_parameters".into(), one.to_json(self.head_dim));
            }
            [one] => {
                fields.insert("rope_parameters".into(), one.to_json(self.head_dim));
            }
            [full, local, ..] => {
                let [full, local] = [full, local].map(|rope| rope.to_json(self.head_dim));
                let both = json!({ "full_attention": full, "sliding_attention": local });
                fields.insert("rope_parameters".into(), both);
            }
        }
    }

    /// Windows, scales and rotary embeddings of the layers.
    fn write_layers(&self, fields: &mut Map<String, Value>) {
        let heads = || {
            self.layers.iter().filter_map(|layer| match layer.attention {
                AttentionConfig::Heads(heads) => Some(heads),
                AttentionConfig::Linear | AttentionConfig::Absent => None,
            })
        };
        if self.family.window != WindowRule::Never {
            let window = heads().find_map(|heads| heads.window);
            fields.insert("sliding_window".into(), json!(window));
            fields.insert("use_sliding_window".into(), json!(window.is_some()));
            let local = |heads: super::HeadsConfig| {
                heads.window.is_some()
                    || (self.family.rotary == RotaryForm::ByKind && heads.rope == Some(1))
            };
            let kinds = heads().map(|heads| match local(heads) {
                true => "sliding_attention",
                false => "full_attention",
            });
            fields.insert("layer_types".into(), json!(kinds.collect::<Vec<_>>()));
        }
        if !self.ropes.is_empty() && heads().any(|heads| heads.rope.is_none()) {
            let rotates = heads().map(|heads| u8::from(heads.rope.is_some()));
            fields.insert("no_rope_layers".into(), json!(rotates.collect::<Vec<_>>()));
        }
        let scales: Vec<f32> = heads().map(|heads| heads.scale).collect();
        let usual = (self.head_dim as f64).sqrt().recip() as f32;
        let has_scalar = self.has_default("query_pre_attn_scalar");
        match scales.as_slice() {
            [first, second, ..] if first != second => {
                fields.insert("scale_attn_by_inverse_layer_idx".into(), json!(true));
                fields.insert("scale_attn_weights".into(), json!(*first != 1.0));
            }
            [1.0, ..] if usual != 1.0 => {
                fields.insert("scale_attn_weights".into(), json!(false));
            }
            [first, ..] if *first != usual || has_scalar => {
                let scalar = f64::from(*first).powi(-2);
                fields.insert("query_pre_attn_scalar".into(), json!(scalar));
            }
            _ => {}
        }
    }

    fn write_rest(&self, fields: &mut Map<String, Value>) {
        for (field, value) in [
            ("clip_qkv", self.clip),
            ("attn_logit_softcapping", self.score_cap),
            ("final_logit_softcapping", self.logit_cap),
        ] {
            fields.insert(field.into(), json!(value));
        }
        if let Some(types) = self.token_types {
            fields.insert("type_vocab_size".into(), json!(types));
        }
        if self.family.names.final_norm.is_some() && self.placement != super::Placement::OnSum {
            fields.insert("_remove_final_layer_norm".into(), json!(!self.final_norm));
        }
        if self.embedding_width != self.hidden {
            fields.insert("word_embed_proj_dim".into(), json!(self.embedding_width));
        }
        if let Some(table) = self.learned_positions
            && matches!(self.family.positions, Positions::Learned { first: FirstRow::AfterPad, .. })
        {
            fields.insert("pad_token_id".into(), json!(table.first as i64 - 1));
        }
    }
}
