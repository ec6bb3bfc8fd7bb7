use super::*;
use crate::tiny::{calibration, checkpoint};
use linwright_compress::pipeline::Context;
use linwright_model::{Batch, MlpConfig, TransformerConfig, Windows};
use linwright_ops::{CrossEntropy, Dense, Differentiable, NoProbe, Op};
use linwright_run::Silent;
use linwright_tensor::Mat;
use serde_json::{Value, json};

/// Sums of other lengths are rounded otherwise.
const TOLERANCE: f32 = 1e-5;

/// A tiny model with two query heads for each of two key-value heads.
fn model(fields: Value) -> Transformer {
    let mut config = json!({
        "model_type": "llama", "hidden_size": 16, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 24, "num_hidden_layers": 3,
        "vocab_size": 20, "max_position_embeddings": 64, "tie_word_embeddings": false,
    });
    for (name, value) in fields.as_object().expect("fields") {
        config[name] = value.clone();
    }
    let config = TransformerConfig::from_json(&config).expect("a configuration");
    Transformer::random(config, RngKey::new(3))
}

fn cut(keep: f64) -> Cut {
    Cut { keep, align: None, layers: None }
}

fn prune(
    method: &LlmPruner,
    original: &Transformer,
    windows: Option<&Windows>,
    cut: &Cut,
) -> Edited<Transformer> {
    method.check().expect("possible options");
    let context = Context::new("a model");
    let problem = PruneProblem { original, windows, cut, seed: 5, context: &context };
    method.prune(&problem, &mut Silent).expect("prunes")
}

fn logits(model: &Transformer) -> Mat<f32> {
    let batch = Batch::new(&[&[1, 5, 3, 7, 2, 11]]);
    let mut hidden = model.embed(&batch).expect("tokens");
    let layers = 0..model.config().layers.len();
    model.run_layers(&mut hidden, &batch, layers, &mut NoProbe).expect("finite");
    model.logits(hidden.view())
}

fn gap(a: &Mat<f32>, b: &Mat<f32>) -> f32 {
    let largest = a.data().iter().fold(0.0f32, |largest, a| largest.max(a.abs()));
    a.data().iter().zip(b.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest
}

fn weight(model: &Transformer, site: &str) -> Mat<f32> {
    model.slot(&SiteId(site.into())).expect("a slot").op().to_dense().expect("a weight")
}

/// Rows of the original weight that a pruned one has.
fn rows(original: &Transformer, pruned: &Transformer, site: &str) -> Vec<usize> {
    let (old, new) = (weight(original, site), weight(pruned, site));
    let at = |row: &[f32]| (0..old.rows()).find(|&i| old.row(i) == row).expect("a kept row");
    (0..new.rows()).map(|i| at(new.row(i))).collect()
}

#[test]
fn a_pruned_model_is_the_dense_one_without_the_removed_channels() {
    let model = model(json!({}));
    let windows = calibration(&model, 400);
    for (criterion, global) in
        Criterion::ALL.into_iter().flat_map(|one| [(one, false), (one, true)])
    {
        let method = LlmPruner { criterion, global, steps: 2, ..LlmPruner::default() };
        let pruned = prune(&method, &model, Some(&windows), &cut(0.6)).network;
        let mut silent = model.clone();
        for layer in 0..3 {
            let of = |part: &str| format!("model.layers.{layer}.{part}");
            let queries = rows(&model, &pruned, &of("self_attn.q_proj"));
            let kept = |site: &str| rows(&model, &pruned, &of(site));
            // Heads of 4 features, two query heads for each key head, whole and together.
            let heads: Vec<usize> = kept("self_attn.k_proj").iter().map(|row| row / 4).collect();
            assert_eq!(kept("self_attn.k_proj"), kept("self_attn.v_proj"));
            assert!(heads.chunks_exact(4).all(|head| head == [head[0]; 4]));
            let groups: Vec<usize> = heads.iter().step_by(4).copied().collect();
            let readers = groups.iter().flat_map(|group| group * 8..(group + 1) * 8);
            assert!(queries.iter().copied().eq(readers));
            let channels = kept("mlp.gate_proj");
            assert_eq!(channels, kept("mlp.up_proj"));
            for (site, kept) in [("self_attn.o_proj", queries), ("mlp.down_proj", channels)] {
                let site = SiteId(of(site));
                let mut whole = weight(&silent, &site.0);
                for i in 0..whole.rows() {
                    let row = whole.row_mut(i).iter_mut().enumerate();
                    row.for_each(|(j, w)| *w = if kept.contains(&j) { *w } else { 0.0 });
                }
                let op = Op::Linear(Box::new(Dense::new(whole)));
                silent.slot_mut(&site).expect("a slot").replace(op).expect("of its shape");
            }
        }
        let off = gap(&logits(&silent), &logits(&pruned));
        assert!(off < TOLERANCE, "{criterion:?}, global {global}: off by {off:e}");
        assert!(gap(&logits(&model), &logits(&pruned)) > 10.0 * TOLERANCE);
    }
}

#[test]
fn sizes_are_known_before_and_as_large_as_they_may_be() {
    let model = model(json!({}));
    let linears = model.config().linear_parameters().iter().sum::<u64>() as usize;
    for (keep, steps) in [(1.0, 1), (0.9, 1), (0.8, 2), (0.5, 3), (0.33, 1)] {
        let method = LlmPruner { criterion: Criterion::L2, steps, ..LlmPruner::default() };
        let sizes = method.sizes(&model, &cut(keep)).expect("possible");
        let kept: usize = sizes.iter().map(|size| size.kept).sum();
        assert_eq!(sizes.iter().map(|size| size.dense).sum::<usize>(), linears);
        // One more channel in every layer would be too much.
        assert!(kept as f64 <= keep * linears as f64 + 1e-6, "{keep}: {kept} of {linears}");
        assert!((kept + 3 * 3 * 16) as f64 > keep * linears as f64, "{keep}: {kept}");
        let pruned = prune(&method, &model, None, &cut(keep));
        assert_eq!(pruned.network.config().linear_parameters().iter().sum::<u64>(), kept as u64);
        let found: Vec<usize> = pruned.sites.iter().map(|site| site.parameters).collect();
        assert_eq!(found, sizes.iter().map(|size| size.kept).collect::<Vec<_>>());
    }
    let error = LlmPruner::default().sizes(&model, &cut(0.01)).unwrap_err().to_string();
    assert!(error.contains("keep 0.01: llm_pruner cannot keep less than 0."), "{error}");
}

#[test]
fn a_ratio_counts_as_released_in_the_blocks_that_it_names() {
    let model = model(json!({"num_key_value_heads": 4, "intermediate_size": 23}));
    let blocks = Blocks { attention: Some(vec![1]), mlp: Some(vec![1, 2]) };
    let ratio = Some(0.3);
    for steps in [1, 4] {
        let criterion = Criterion::L1;
        let method =
            LlmPruner { criterion, blocks: blocks.clone(), ratio, steps, ..LlmPruner::default() };
        let pruned = prune(&method, &model, None, &cut(1.0)).network;
        let of = |layer: usize| {
            let layer = pruned.config().layers[layer];
            match (layer.attention, layer.mlp) {
                (AttentionConfig::Heads(heads), MlpConfig::Inner(inner)) => {
                    (heads.heads, heads.kv_heads, inner)
                }
                other => panic!("{other:?}"),
            }
        };
        // 5 of 16 channels leave, so one head of 4 does; 7 of 23, so 16 stay.
        assert_eq!([of(0), of(1), of(2)], [(4, 4, 23), (3, 3, 16), (4, 4, 16)]);
    }
}

#[test]
fn examples_are_of_different_windows_as_long_as_there_are_some() {
    let texts: Vec<Vec<u32>> = (0..10).map(|i| vec![i; 12]).collect();
    let windows = Windows::new(&texts, None, 12, 1000, linwright_model::Split::Contiguous).unwrap();
    assert_eq!(windows.training(), 8);
    let drawn = |count, key| {
        let sample = Sample { examples: count, tokens: 5 };
        let found = examples(&windows, sample, RngKey::new(key));
        assert!(found.iter().all(|example| example.len() == 5));
        found.into_iter().map(|example| example[0]).collect::<Vec<u32>>()
    };
    for key in 0..4 {
        let mut found = drawn(20, key);
        for round in found.chunks_mut(8) {
            let sorted: BTreeSet<u32> = round.iter().copied().collect();
            assert_eq!(sorted.len(), round.len(), "{round:?}");
            assert!(sorted.iter().all(|window| *window < 8), "validation stays out: {sorted:?}");
        }
    }
    assert_ne!(drawn(8, 0), drawn(8, 1));
}

#[test]
fn gradients_are_those_of_the_mean_loss_and_of_each_example() {
    let model = model(json!({}));
    let text: [&[u32]; 2] = [&[1, 5, 3, 7, 2], &[4, 4, 9, 0, 19]];
    let site = SiteId("model.layers.1.mlp.up_proj".into());
    let sites = BTreeSet::from([site.clone()]);
    let loss = |model: &Transformer, text: &[&[u32]]| {
        let batch = Batch::new(text);
        let targets = batch.next_tokens();
        model
            .loss_to_slots(&batch, &mut CrossEntropy::mean(&targets), &mut NoProbe)
            .expect("finite")
    };
    // Salience along row 0 is the change of the loss with the scale of the row.
    let slope = |text: &[&[u32]], row: usize, col: Option<usize>| {
        let at = |step: f32| {
            let mut moved = model.clone();
            let mut values = weight(&moved, &site.0);
            let row = values.row_mut(row).iter_mut().enumerate();
            row.filter(|(j, _)| col.is_none_or(|col| *j == col))
                .for_each(|(_, w)| *w *= 1.0 + step);
            let op = Op::Linear(Box::new(Dense::new(values)));
            moved.slot_mut(&site).expect("a slot").replace(op).expect("of its shape");
            loss(&moved, text)
        };
        // A single element moves the loss little more than its rounding, and almost linearly.
        let step = if col.is_some() { 0.5 } else { 0.02 };
        (at(step) - at(-step)) / f64::from(2.0 * step)
    };
    let in_batches = |criterion, at_once| {
        let examples = sampled::Examples { all: &text, at_once };
        by_loss(criterion, &model, &sites, examples, &mut Silent).expect("finite")
    };
    let members = |criterion| in_batches(criterion, 2);
    let rows = &members(Criterion::Vectorize)[&site];
    for (row, found) in rows.iter().enumerate().take(4) {
        let expected = slope(&text, row, None).abs();
        assert!((found - expected).abs() < 2e-5 + 0.01 * expected, "{found}, not {expected}");
    }
    // w F w is the mean over the examples of the squared slopes of single elements.
    let second = &members(Criterion::ParamSecond)[&site];
    let of_example =
        |text: &[&[u32]]| -> f64 { (0..16).map(|col| slope(text, 0, Some(col)).powi(2)).sum() };
    let expected = 0.5 * (of_example(&text[..1]) + of_example(&text[1..]));
    assert!((second[0] - expected).abs() < 0.02 * expected, "{} not {expected}", second[0]);
    // Batches change what is in memory, not the importance.
    for criterion in [Criterion::Vectorize, Criterion::ParamSecond] {
        let (whole, parts) = (members(criterion), in_batches(criterion, 1));
        for (whole, part) in whole[&site].iter().zip(&parts[&site]) {
            assert!((whole - part).abs() < 1e-5 * whole.abs(), "{part}, not {whole}");
        }
    }
}

#[test]
fn refitted_outputs_use_what_is_left_of_redundant_channels() {
    for fields in [json!({}), json!({"mlp_bias": true})] {
        let mut model = model(fields);
        // The second half of the channels says the same as the first, more quietly.
        for slot in model.slots_mut() {
            let role = Role::of(slot);
            let mut weight = slot.op().to_dense().expect("a weight");
            let (rows, cols) = (weight.rows(), weight.cols());
            if matches!(role, Role::Gate | Role::Up) {
                weight = Mat::from_fn(rows, cols, |i, j| weight.at(i % 12, j));
            } else if role == Role::Down {
                weight = Mat::from_fn(rows, cols, |i, j| {
                    weight.at(i, j) * if j < 12 { 4.0 } else { 1.0 }
                });
            } else {
                continue;
            }
            slot.replace(Op::Linear(Box::new(Dense::new(weight)))).expect("of its shape");
            if let (Role::Gate | Role::Up, Some(bias)) = (role, slot.parts_mut().1) {
                bias.copy_within(..12, 12);
            }
        }
        let windows = calibration(&model, 2000);
        let blocks = Blocks { attention: Some(vec![]), mlp: None };
        let (criterion, ratio) = (Criterion::L1, Some(0.5));
        let plain = LlmPruner { criterion, blocks, ratio, ..LlmPruner::default() };
        let refit = LlmPruner { refit: Some(Ridge::Share(1e-6)), ..plain.clone() };
        let [plain, refit] =
            [plain, refit].map(|method| prune(&method, &model, Some(&windows), &cut(1.0)));
        assert_eq!(plain.network.config(), refit.network.config());
        let gate = "model.layers.0.mlp.gate_proj";
        assert!(rows(&model, &refit.network, gate).into_iter().eq(0..12));
        let whole = logits(&model);
        let [plain, left] = [&plain, &refit].map(|one| gap(&whole, &logits(&one.network)));
        assert!(left < 1e-3 && plain > 10.0 * left, "{left:e} after {plain:e}");
        let refitted = refit.sites.iter().filter(|site| site.fit.ridge.is_some());
        assert_eq!(refitted.count(), 3);
    }
}

#[test]
fn fused_projections_have_the_importance_of_separate_ones() {
    for stem in ["phi3-window", "phi3-longrope"] {
        let model = checkpoint(stem).decoder;
        let method = LlmPruner { criterion: Criterion::L1, ..LlmPruner::default() };
        let whole = prune(&method, &model, None, &cut(1.0)).network;
        assert_eq!(logits(&whole).data(), logits(&model).data(), "{stem}");
        // A head whose weights are zero is the first to leave.
        let mut faint = model.clone();
        silence_first_head(&mut faint);
        let pruned = prune(&method, &faint, None, &cut(0.45)).network;
        let heads = |model: &Transformer| {
            let attention = model.config().layers[0].attention;
            let AttentionConfig::Heads(heads) = attention else { panic!("{attention:?}") };
            heads.kv_heads
        };
        assert!(heads(&pruned) < heads(&model), "{stem}");
        let slot = |model: &Transformer| {
            let slots = model.slots().into_iter();
            let mut fused = slots.filter(|slot| Role::of(slot) == Role::QueryKeyValue);
            fused.next().expect("a fused slot").op().to_dense().expect("a weight")
        };
        let left = slot(&pruned);
        let zero = (0..left.rows()).filter(|&i| left.row(i).iter().all(|w| *w == 0.0)).count();
        assert_eq!(zero, 0, "{stem}");
    }
}

/// Sets the rows of the first key-value head and of its queries to zero, in fused projections.
fn silence_first_head(model: &mut Transformer) {
    let config = model.config().clone();
    let AttentionConfig::Heads(heads) = config.layers[0].attention else { panic!("no heads") };
    let (size, group) = (config.head_dim, heads.heads / heads.kv_heads);
    let (queries, keys) = (heads.heads * size, heads.kv_heads * size);
    let starts = [(0, group * size), (queries, size), (queries + keys, size)];
    let rows: Vec<usize> = starts.iter().flat_map(|(start, len)| *start..start + len).collect();
    for slot in model.slots_mut() {
        if Role::of(slot) == Role::QueryKeyValue {
            let mut weight = slot.op().to_dense().expect("a weight");
            rows.iter().for_each(|&row| weight.row_mut(row).fill(0.0));
            slot.replace(Op::Linear(Box::new(Dense::new(weight)))).expect("of its shape");
        }
    }
}

#[test]
fn the_same_seed_removes_the_same_and_another_may_not() {
    let model = model(json!({}));
    let windows = calibration(&model, 400);
    let method = LlmPruner { criterion: Criterion::Random, ..LlmPruner::default() };
    let cut = cut(0.5);
    let run = |seed| {
        let context = Context::new("a model");
        let problem = PruneProblem {
            original: &model,
            windows: Some(&windows),
            cut: &cut,
            seed,
            context: &context,
        };
        method.prune(&problem, &mut Silent).expect("prunes").network
    };
    assert_eq!(logits(&run(1)).data(), logits(&run(1)).data());
    assert_ne!(logits(&run(1)).data(), logits(&run(2)).data());
}

#[test]
fn impossible_options_are_told() {
    let defaults = LlmPruner::default();
    for (method, said) in [
        (LlmPruner { ratio: Some(1.0), ..defaults.clone() }, "has ratio 1"),
        (
            LlmPruner { sample: Sample { examples: 0, tokens: 64 }, ..defaults.clone() },
            "has examples 0, expected at least 1",
        ),
        (LlmPruner { sample: Sample { examples: 9, tokens: 1 }, ..defaults.clone() }, "tokens 1"),
        (
            LlmPruner { refit: Some(Ridge::Share(-1.0)), ..defaults.clone() },
            "has ridge -1, expected 0 or more",
        ),
        (LlmPruner { steps: 0, ..defaults.clone() }, "has steps 0"),
    ] {
        let error = method.check().unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let model = model(json!({}));
    let blocks = Blocks { attention: Some(vec![1, 8]), mlp: None };
    let method = LlmPruner { blocks, ..defaults };
    let error = method.sizes(&model, &cut(0.5)).unwrap_err().to_string();
    assert_eq!(error, "layer 8: the model has 3 layers, counted from 0");
}
