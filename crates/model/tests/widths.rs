//! Models of which some features and heads are left, in every family.

use crate::checkpoint_common::{logits, small_model};
use crate::reference::Set;
use crate::tiny;
use linwright_model::Role;
use linwright_model::Transformer;
use linwright_model::config::{AttentionConfig, MlpConfig};
use linwright_model::transformer::{KeptHeads, KeptWidths, WidthError};
use linwright_ops::{Network, Op, OpSpec, Sites};
use linwright_tensor::RngKey;
use serde_json::json;

/// Sums of other lengths are rounded otherwise.
const TOLERANCE: f32 = 1e-4;

/// What a model ends in.
fn ends(model: &Transformer) -> Vec<f32> {
    let tokens = tiny::tokens(9, model.config().vocab, 3);
    let batch = linwright_model::Batch::new(&[&tokens]);
    let mut hidden = model.embed(&batch).unwrap();
    let layers = 0..model.config().layers.len();
    model.run_layers(&mut hidden, &batch, layers, &mut linwright_ops::NoProbe).unwrap();
    hidden.data().to_vec()
}

fn gap(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let largest = a.iter().fold(0.0f32, |largest, a| largest.max(a.abs()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest
}

/// Sets the columns of what leads out of a branch to zero, but for those that `stays` names.
fn silence(model: &mut Transformer, roles: &[Role], stays: &dyn Fn(usize) -> bool) {
    let slots = model.slots_mut().into_iter().filter(|slot| roles.contains(&Role::of(slot)));
    for slot in slots.filter(|slot| slot.layer().is_some()) {
        let inp = slot.shape().inp;
        let weight = slot.op_mut().map_mut().params_mut().remove(0);
        for (at, value) in weight.values.iter_mut().enumerate() {
            *value = if stays(at % inp) { *value } else { 0.0 };
        }
    }
}

fn sets() -> impl Iterator<Item = (String, Transformer)> {
    let sets = Set::all("decoder").into_iter().chain(Set::all("encoder"));
    sets.map(|set| (set.stem.clone(), set.model()))
}

#[test]
fn features_of_an_mlp_leave_alone() {
    let mut narrowed = 0;
    for (stem, model) in sets() {
        let inner = |layer: usize| match model.config().layers[layer].mlp {
            MlpConfig::Inner(inner) => Some(inner),
            MlpConfig::Linear | MlpConfig::Absent => None,
        };
        let kept: Vec<KeptWidths> = (0..model.config().layers.len())
            // Every second one, backwards.
            .map(|layer| KeptWidths {
                mlp: inner(layer).map(|n| (0..n).rev().filter(|i| i % 2 == 0).collect()),
                heads: None,
            })
            .collect();
        let small = model.keep_widths(&kept).unwrap();
        let mut silent = model.clone();
        // A layer in place of an MLP has no features inside.
        if (0..kept.len()).all(|layer| inner(layer).is_some()) {
            silence(&mut silent, &[Role::Down, Role::FcOut], &|feature| feature % 2 == 0);
            let off = gap(&ends(&silent), &ends(&small));
            assert!(off < TOLERANCE, "{stem}: off by {off:e}");
            assert!(gap(&ends(&model), &ends(&small)) > 10.0 * TOLERANCE, "{stem}");
            assert!(small.parameters() < model.parameters());
            narrowed += 1;
        }
    }
    assert!(narrowed > 40, "{narrowed} sets");
}

#[test]
fn groups_of_heads_leave_with_their_queries() {
    let mut narrowed = 0;
    for (stem, model) in sets() {
        let config = model.config().clone();
        let kv_heads: Vec<Option<usize>> = config
            .layers
            .iter()
            .map(|layer| match layer.attention {
                AttentionConfig::Heads(heads) => Some(heads.kv_heads),
                AttentionConfig::Linear | AttentionConfig::Absent => None,
            })
            .collect();
        let Some(Some(kv)) = kv_heads.first().copied() else { continue };
        if kv < 2 || kv_heads.iter().any(|other| *other != Some(kv)) {
            continue;
        }
        let heads = Some(KeptHeads::Groups(vec![kv - 1]));
        let kept = KeptWidths { mlp: None, heads };
        let small = model.keep_widths(&vec![kept; config.layers.len()]).unwrap();
        assert_eq!(small.config().heads, config.heads / kv, "{stem}");
        // A norm over all heads together changes with them.
        if stem.starts_with("olmo2") {
            continue;
        }
        let first = (kv - 1) * (config.heads / kv) * config.head_dim;
        let mut silent = model.clone();
        silence(&mut silent, &[Role::Output], &|feature| feature >= first);
        let off = gap(&ends(&silent), &ends(&small));
        assert!(off < TOLERANCE, "{stem}: off by {off:e}");
        narrowed += 1;
    }
    assert!(narrowed > 25, "{narrowed} sets");
}

#[test]
fn query_heads_may_share_the_key_heads_that_are_left() {
    let config = tiny::config("llama", json!({"num_key_value_heads": 4, "attention_bias": true}));
    let model = tiny::decoder(config, 1);
    let kept = KeptWidths { mlp: None, heads: Some(KeptHeads::KeyValue(vec![3, 1])) };
    let small = model.keep_widths(&[kept, KeptWidths::default()]).unwrap();
    let heads = |layer: usize| match small.config().layers[layer].attention {
        AttentionConfig::Heads(heads) => heads.kv_heads,
        AttentionConfig::Linear | AttentionConfig::Absent => 0,
    };
    assert_eq!((heads(0), heads(1), small.config().heads), (2, 4, 4));
    // The same with all four heads, of which two and two are equal.
    let mut equal = model.clone();
    let size = model.config().head_dim;
    for slot in equal.slots_mut() {
        if slot.layer() == Some(0) && matches!(Role::of(slot), Role::Key | Role::Value) {
            let inp = slot.shape().inp;
            let (op, bias) = slot.parts_mut();
            let weight = op.map_mut().params_mut().remove(0).values;
            for (values, width) in [(weight, inp), (bias.unwrap(), 1)] {
                let old = values.to_vec();
                for (head, from) in [3, 3, 1, 1].into_iter().enumerate() {
                    let len = size * width;
                    values[head * len..][..len].copy_from_slice(&old[from * len..][..len]);
                }
            }
        }
    }
    let off = gap(&ends(&equal), &ends(&small));
    assert!(off < TOLERANCE, "off by {off:e}");
}

#[test]
fn low_rank_stays_low_rank_and_other_kinds_are_refused() {
    let (mut model, _) = small_model();
    let kept = vec![KeptWidths { mlp: Some(vec![7, 1, 2]), heads: None }; 2];
    let put = |model: &mut Transformer, json: &str| {
        let spec: OpSpec = serde_json::from_str(json).unwrap();
        for slot in model.slots_mut() {
            if matches!(Role::of(slot), Role::Gate | Role::Down) {
                let op: Op<f32> = spec.random(slot.shape(), RngKey::new(2)).unwrap();
                slot.replace(op).unwrap();
            }
        }
    };
    put(&mut model, r#"{"kind":"low_rank","rank":2}"#);
    let small = model.keep_widths(&kept).unwrap();
    let mut dense = model.clone();
    for slot in dense.slots_mut() {
        let weight = slot.op().to_dense().unwrap();
        slot.replace(Op::Linear(Box::new(linwright_ops::Dense::new(weight)))).unwrap();
    }
    let dense = dense.keep_widths(&kept).unwrap();
    let tokens = [1, 5, 3];
    let (a, b) = (logits(&small, &tokens), logits(&dense, &tokens));
    assert!(gap(a.data(), b.data()) < TOLERANCE);
    let kinds =
        small.slots().into_iter().filter(|slot| slot.op().map().spec().kind() == "low_rank");
    assert_eq!(kinds.count(), 4);

    put(&mut model, r#"{"kind":"monarch","blocks":4}"#);
    let error = model.keep_widths(&kept).unwrap_err().to_string();
    assert!(error.contains("model.layers.0.mlp.gate_proj holds a monarch"), "{error}");
}

#[test]
fn impossible_widths_are_told() {
    let (model, _) = small_model();
    let refused = |mlp: Option<Vec<usize>>, heads: Option<KeptHeads>| {
        let kept = vec![KeptWidths::default(), KeptWidths { mlp, heads }];
        model.keep_widths(&kept).unwrap_err().to_string()
    };
    let error = model.keep_widths(&[]).unwrap_err();
    assert_eq!(error, WidthError::Layers { expected: 2, found: 0 });
    for (mlp, said) in [
        (vec![], "layer 1: features of the MLP are none; keep at least one of 12"),
        (vec![12], "reach to 12, there are 12"),
        (vec![3, 3], "name 3 twice"),
    ] {
        let error = refused(Some(mlp), None);
        assert!(error.contains(said), "{error}");
    }
    let error = refused(None, Some(KeptHeads::Groups(vec![1])));
    assert!(error.contains("layer 1: heads reach to 1, there are 1"), "{error}");
    let four = tiny::config("llama", json!({"num_key_value_heads": 4}));
    let four = tiny::decoder(four, 1);
    let three = KeptWidths { mlp: None, heads: Some(KeptHeads::KeyValue(vec![0, 1, 2])) };
    let error = four.keep_widths(&[three, KeptWidths::default()]).unwrap_err().to_string();
    assert!(error.contains("4 query heads cannot share 3 equally"), "{error}");
}

#[test]
fn layers_may_have_query_heads_of_their_own() {
    let config = tiny::config("llama", json!({"num_key_value_heads": 2}));
    let model = tiny::decoder(config, 1);
    let kept = |groups: &[usize]| KeptWidths {
        mlp: None,
        heads: Some(KeptHeads::Groups(groups.to_vec())),
    };
    for (first, second) in [(&[1][..], &[0, 1][..]), (&[0, 1], &[1])] {
        let small = model.keep_widths(&[kept(first), kept(second)]).unwrap();
        let heads: Vec<usize> = small
            .config()
            .layers
            .iter()
            .map(|layer| match layer.attention {
                AttentionConfig::Heads(heads) => heads.heads,
                AttentionConfig::Linear | AttentionConfig::Absent => 0,
            })
            .collect();
        assert_eq!(heads, [2 * first.len(), 2 * second.len()]);
        assert_eq!(small.config().heads, 4);
        let cut = usize::from(second.len() == 1);
        let mut silent = model.clone();
        for slot in silent.slots_mut() {
            if slot.layer() == Some(cut) && Role::of(slot) == Role::Output {
                let inp = slot.shape().inp;
                let weight = slot.op_mut().map_mut().params_mut().remove(0);
                let columns = weight.values.chunks_exact_mut(inp);
                columns.for_each(|row| row[..inp / 2].fill(0.0));
            }
        }
        let off = gap(&ends(&silent), &ends(&small));
        assert!(off < TOLERANCE, "off by {off:e}");
        // What is left can be narrowed again.
        let less = small.keep_widths(&[kept(&[0]), kept(&[0])]).unwrap();
        assert_eq!(less.config().heads, 2);
    }
}
