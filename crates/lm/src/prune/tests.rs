//! Properties of every way of structured pruning, on tiny models.

use super::{Cut, PruneProblem, PruneSpec, SiteSize};
use crate::tiny;
use linwright_compress::pipeline::{Context, Edited, SiteOutcome};
use linwright_model::checkpoint::LoadedModel;
use linwright_model::{Batch, Transformer};
use linwright_ops::NoProbe;
use linwright_run::Silent;

/// Grouped queries; biases of queries, keys and values; a norm with a bias.
const MODELS: [&str; 4] = ["llama-tied", "qwen2-biases", "gpt2-plain", "gptj-parallel"];

fn spec(id: &str) -> PruneSpec {
    let options = match id {
        // Sizes are told before the text is seen, so those of equal shares.
        "modegpt" => serde_json::json!({"method": id, "temperature": 0.0}),
        _ => serde_json::json!({"method": id}),
    };
    serde_json::from_value(options).expect("a method")
}

fn pruned(loaded: &LoadedModel, id: &str, keep: f64) -> Option<Edited<Transformer>> {
    let windows = tiny::calibration(&loaded.decoder, 600);
    let cut = Cut { keep, align: None, layers: None };
    let context = Context::new(&loaded.hash);
    let problem = PruneProblem {
        original: &loaded.decoder,
        windows: Some(&windows),
        cut: &cut,
        seed: 0,
        context: &context,
    };
    let spec = spec(id);
    let sizes = spec.sizes(&loaded.decoder, &cut).ok()?;
    let edited = spec.prune(&problem, &mut Silent).expect("prunes");
    let total = |of: fn(&SiteOutcome) -> usize| edited.sites.iter().map(of).sum::<usize>();
    let told = |of: fn(&SiteSize) -> usize| sizes.iter().map(of).sum::<usize>();
    assert_eq!(total(|site| site.parameters), told(|size| size.kept), "{id} at {keep}");
    assert_eq!(total(|site| site.dense_parameters), told(|size| size.dense), "{id} at {keep}");
    Some(edited)
}

fn logits(model: &Transformer) -> Vec<f32> {
    let tokens: Vec<u32> = (0..24).map(|i| (i * 7 + 3) % 40).collect();
    let batch = Batch::new(&[&tokens]);
    let mut hidden = model.embed(&batch).expect("runs");
    let layers = 0..model.config().layers.len();
    model.run_layers(&mut hidden, &batch, layers, &mut NoProbe).expect("runs");
    model.logits(hidden.view()).into_vec()
}

#[test]
fn everything_kept_is_the_same_model() {
    for name in MODELS {
        let loaded = tiny::checkpoint(name);
        let before = logits(&loaded.decoder);
        let largest = before.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
        for id in PruneSpec::IDS {
            let Some(edited) = pruned(&loaded, id, 1.0) else { continue };
            let after = logits(&edited.network);
            let away = before.iter().zip(&after).map(|(a, b)| (a - b).abs());
            assert!(away.fold(0.0, f32::max) < 1e-4 * largest, "{name}: {id}");
        }
    }
}

#[test]
fn a_pruned_model_never_keeps_more_than_it_may() {
    for name in MODELS {
        let loaded = tiny::checkpoint(name);
        let mut methods = 0;
        for id in PruneSpec::IDS {
            for keep in [0.75, 0.5] {
                let Some(edited) = pruned(&loaded, id, keep) else { continue };
                let sum = |of: fn(&SiteOutcome) -> usize| {
                    edited.sites.iter().map(of).sum::<usize>() as f64
                };
                let share = sum(|site| site.parameters) / sum(|site| site.dense_parameters);
                assert!(share <= keep + 1e-12 && share > 0.4 * keep, "{name}, {id}: {share}");
                assert!(logits(&edited.network).iter().all(|l| l.is_finite()), "{name}: {id}");
                methods += 1;
            }
        }
        assert!(methods >= 2, "{name} is pruned by {methods} methods");
    }
}
