//! Golden vectors of LLM-Pruner in `laser-sfsd`: importance to the tolerance that the files state,
//! kept heads and channels exactly.

use crate::golden::{Case, Set, least, number, sets};
use crate::golden_counts::Counted;
use linwright_compress::pipeline::Context;
use linwright_lm::prune::{
    Blocks, Criterion, Cut, LlmPruner, LossGradients, Pairing, PruneMethod, PruneProblem,
    kept_channels, kept_heads, most_important, of_groups, of_kv_heads,
};
use linwright_lm::search::counts::Shapes;
use linwright_model::{Transformer, TransformerConfig};
use linwright_ops::{Dense, LinearSlot, Op, SiteId, Sites};
use linwright_run::Silent;
use linwright_tensor::{Mat, RngKey};
use serde_json::{Value, json};
use std::ops::Range;

/// The cases of the pruner without shared key-value heads, of which there must be one.
fn pruner_cases(sets: &[Set]) -> Vec<Case<'_>> {
    let mut found = crate::golden::cases(sets, "llm_pruner", 2);
    found.retain(|(_, id, _)| !id.starts_with("llm_pruner_gqa"));
    assert!(!found.is_empty(), "no golden set has a case llm_pruner");
    found
}

/// A weight with its gradients.
struct Golden {
    weight: Mat<f32>,
    mean: Mat<f32>,
    squares: Option<Mat<f32>>,
}

impl Golden {
    fn of(set: &Set, case: &str, name: &str) -> Self {
        let read = |kind: &str| set.tensor(&format!("{case}.{kind}.{name}")).map(|mat| mat.cast());
        let need = |kind: &str| read(kind).unwrap_or_else(|| panic!("no {kind} of {name}"));
        Self { weight: need("weight"), mean: need("grad"), squares: read("acc_grad") }
    }

    fn gradients(&self) -> LossGradients<'_> {
        let squares = self.squares.as_ref().map(Mat::view);
        LossGradients { mean: self.mean.view(), squares }
    }

    fn rows(&self, criterion: Criterion) -> Vec<f64> {
        criterion.of_rows(self.weight.view(), Some(self.gradients()))
    }

    fn columns(&self, criterion: Criterion) -> Vec<f64> {
        criterion.of_columns(self.weight.view(), Some(self.gradients()))
    }
}

fn criterion_of(run: &Value) -> (Criterion, String) {
    let kind = run["pruner_type"].as_str().expect("a kind");
    let name = run["taylor"].as_str();
    let criterion = serde_json::from_value(json!(name.unwrap_or(kind))).expect("a criterion");
    (criterion, format!("{kind}.{}", name.unwrap_or("None")))
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let off = (found - expected).abs() / expected.abs().max(1e-12);
        assert!(off < tolerance, "{what}: {found} instead of {expected}");
    }
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().expect("a list").iter().map(|at| number(at) as usize).collect()
}

fn size(about: &Value, name: &str) -> usize {
    number(&about[name]) as usize
}

/// Rows of these groups.
fn rows_of(groups: &[usize], size: usize) -> Vec<usize> {
    groups.iter().flat_map(|group| group * size..(group + 1) * size).collect()
}

#[test]
fn importance_and_kept_channels_are_golden_for_six_criteria() {
    for (set, id, case) in pruner_cases(&sets("laser-sfsd")) {
        let (config, tolerance) = (&case["config"], number(&case["tol"]["importance_rel"]));
        let head_dim = size(config, "head_dim");
        let runs = case["runs"].as_array().expect("runs");
        assert!(runs.len() >= least(6, 1), "{id} has {} runs", runs.len());
        for run in runs {
            let (criterion, label) = criterion_of(run);
            for layer in size(config, "lo")..size(config, "hi") {
                let of = |name: &str| {
                    Golden::of(set, id, &format!("model.layers.{layer}.{name}.weight"))
                };
                for (inputs, output, size) in [
                    (&["q_proj", "k_proj", "v_proj"][..], "o_proj", head_dim),
                    (&["gate_proj", "up_proj"], "down_proj", 1),
                ] {
                    let part = if size == 1 { "mlp" } else { "self_attn" };
                    let mut members: Vec<Vec<f64>> = inputs
                        .iter()
                        .map(|name| of(&format!("{part}.{name}")).rows(criterion))
                        .collect();
                    members.push(of(&format!("{part}.{output}")).columns(criterion));
                    let importance = criterion.joined(&members);
                    let root = format!("model.layers.{layer}.{part}.{}", inputs[0]);
                    let what = format!("{:?}: {label}, {root}", set.path);
                    let expected = set.matrix(id, &format!("importance.{label}.{root}"));
                    assert_near(&importance, expected.data(), tolerance, &what);
                    let expected = indices(&run["kept_rows"][format!("{root}.weight")]);
                    let groups = of_groups(&importance, size);
                    let kept = most_important(&groups, expected.len() / size);
                    assert_eq!(rows_of(&kept, size), expected, "{what}");
                }
            }
        }
    }
}

/// The model of the golden files, of which only some layers are known.
fn model_of(set: &Set, id: &str, config: &Value) -> Transformer {
    let config = TransformerConfig::from_json(&json!({
        "model_type": "llama",
        "hidden_size": config["h"],
        "num_attention_heads": config["heads"],
        "intermediate_size": config["ff"],
        "num_hidden_layers": config["L"],
        "vocab_size": config["V"],
        "max_position_embeddings": 64,
        "tie_word_embeddings": false,
    }));
    let mut model = Transformer::random(config.expect("a configuration"), RngKey::new(1));
    for slot in model.slots_mut() {
        if let Some(weight) = set.tensor(&format!("{id}.weight.{}.weight", slot.id())) {
            let op = Op::Linear(Box::new(Dense::new(weight.cast())));
            slot.replace(op).expect("of its shape");
        }
    }
    model
}

/// Rows of the original weight that a pruned one has.
fn kept_rows(original: &Transformer, pruned: &Transformer, site: &str) -> Vec<usize> {
    let dense = |model: &Transformer| {
        let slot: &LinearSlot = model.slot(&SiteId(site.into())).expect("a slot");
        slot.op().to_dense().expect("a weight")
    };
    let (old, new) = (dense(original), dense(pruned));
    let at = |row: &[f32]| (0..old.rows()).find(|&i| old.row(i) == row).expect("a kept row");
    (0..new.rows()).map(|i| at(new.row(i))).collect()
}

/// Checks a number of parameters, which a run of another set may lack.
fn same_if_given(config: &TransformerConfig, run: &Value, key: &str) {
    match run[key].as_u64() {
        Some(count) => assert_eq!(config.parameters(), count, "{key}"),
        None => assert_eq!(least(1, 0), 0, "no {key}"),
    }
}

#[test]
fn a_model_pruned_by_magnitude_keeps_the_golden_rows() {
    for (set, id, case) in pruner_cases(&sets("laser-sfsd")) {
        let config = &case["config"];
        let model = model_of(set, id, config);
        let layers: Option<Vec<usize>> = Some((size(config, "lo")..size(config, "hi")).collect());
        let runs = case["runs"].as_array().expect("runs").iter();
        for run in runs.filter(|run| run["taylor"].is_null()) {
            same_if_given(model.config(), run, "params_before");
            let method = LlmPruner {
                criterion: criterion_of(run).0,
                blocks: Blocks { attention: layers.clone(), mlp: layers.clone() },
                ratio: Some(number(&config["s"])),
                ..LlmPruner::default()
            };
            let cut = Cut { keep: 1.0, align: None, layers: None };
            let context = Context::new("golden");
            let problem = PruneProblem {
                original: &model,
                windows: None,
                cut: &cut,
                seed: 0,
                context: &context,
            };
            let pruned = method.prune(&problem, &mut Silent).expect("prunes").network;
            same_if_given(pruned.config(), run, "params_after");
            for (site, rows) in run["kept_rows"].as_object().expect("sites") {
                let site = site.trim_end_matches(".weight");
                assert_eq!(kept_rows(&model, &pruned, site), indices(rows), "{site}");
            }
        }
    }
}

#[test]
fn key_value_heads_are_golden_in_both_pairings() {
    for (set, id, case) in crate::golden::cases(&sets("laser-sfsd"), "llm_pruner_gqa", 1) {
        let (config, tolerance) = (&case["config"], number(&case["tol"]["importance_rel"]));
        let (dim, kv_heads) = (size(config, "head_dim"), size(config, "kv_heads"));
        for layer in case["layers"].as_array().expect("layers") {
            let index = size(layer, "layer");
            let of =
                |name: &str| Golden::of(set, id, &format!("model.layers.{index}.self_attn.{name}"));
            let criterion = Criterion::ParamFirst;
            let [q, k, v] = ["q_proj", "k_proj", "v_proj"].map(|name| of(name).rows(criterion));
            let o = of("o_proj").columns(criterion);
            let channels = |pairing: Pairing| {
                let [q, o] = [&q, &o].map(|all| of_kv_heads(all, dim, kv_heads, pairing));
                criterion.joined(&[q, k.clone(), v.clone(), o])
            };
            let what = format!("{:?}: layer {index}", set.path);
            let released = channels(Pairing::Released);
            let expected = set.matrix(id, &format!("importance.{index}"));
            assert_near(&released, expected.data(), tolerance, &what);
            for (pairing, heads, kept) in [
                (Pairing::Released, "ref_kv_head_importance", "kept_kv_heads"),
                (Pairing::Readers, "correct_kv_head_importance", "correct_kept_kv_heads"),
            ] {
                let found = of_groups(&channels(pairing), dim);
                let expected: Vec<f64> =
                    layer[heads].as_array().expect("heads").iter().map(number).collect();
                assert_near(&found, &expected, tolerance, &what);
                let expected = indices(&layer[kept]);
                assert_eq!(most_important(&found, expected.len()), expected, "{what}");
            }
            // Query heads leave with the heads that they read, in both.
            let group = size(config, "heads") / kv_heads;
            let readers = rows_of(&indices(&layer["kept_kv_heads"]), group);
            assert_eq!(readers, indices(&layer["kept_q_heads"]), "{what}");
        }
    }
}

/// LLaMA-7B without this share of the heads and channels in these layers.
fn llama_7b(ratio: f64, layers: Range<usize>) -> TransformerConfig {
    let block = |layer: usize| {
        let ratio = if layers.contains(&layer) { ratio } else { 0.0 };
        json!({
            "attention": {"n_heads": kept_heads(32, 128, ratio), "n_heads_in_group": 1},
            "ffn": {"intermediate_size": kept_channels(11008, ratio)},
        })
    };
    let config = TransformerConfig::from_json(&json!({
        "model_type": "nemotron-nas",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "vocab_size": 32_000,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": false,
        "block_configs": (0..32).map(block).collect::<Vec<_>>(),
    }));
    config.expect("a configuration")
}

#[test]
fn llama_7b_has_the_golden_and_published_counts() {
    let counts = |config: &TransformerConfig| Shapes::dense(config).counts(Shapes::TOKENS);
    let [dense, pruned] = [llama_7b(0.0, 0..0), llama_7b(0.25, 4..30)];
    for counted in sets("laser-sfsd").iter().flat_map(|set| crate::golden_counts::of(&set.about)) {
        let Counted { ratio, layers, .. } = counted.clone();
        let config = llama_7b(ratio, layers);
        counted.check(config.parameters(), counts(&config), least(4, 1));
    }
    assert_eq!((dense.parameters(), pruned.parameters()), (6_738_415_616, 5_422_977_024));
    // Published in G with two decimals: LLM-Pruner, and SFSD for the dense model.
    let hundredths = |count: u64| (count as f64 / 1e7).round() as u64;
    assert_eq!(hundredths(counts(&dense).llm_pruner), 42402);
    assert_eq!(hundredths(counts(&dense).with_attention), 42393);
    assert_eq!(hundredths(counts(&pruned).llm_pruner), 33960);
    let more = llama_7b(0.6, 3..31);
    assert_eq!(more.parameters(), 3_350_188_032);
    assert_eq!(hundredths(counts(&more).llm_pruner), 20659);
}
