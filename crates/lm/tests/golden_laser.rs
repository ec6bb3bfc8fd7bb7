//! Golden vectors of LASER's interventions: every set `<stem>.json` with `<stem>.safetensors` in
//! `laser-sfsd` of `$LINWRIGHT_GOLDEN`, by default `testdata/golden` of the workspace, to the
//! tolerances that the files state.

use crate::golden::{cases, least, minus, norm, number, sets};
use linwright_compress::intervention::{Intervention, Lname, Storage, cut, pruned, pruned_compat};
use linwright_compress::methods::LaserMethod;
use linwright_compress::{Size, SlotSet};
use linwright_model::{Transformer, TransformerConfig};
use linwright_ops::Shape;
use linwright_tensor::linalg::{Components, Sketch};
use linwright_tensor::{Mat, RngKey};
use serde_json::{Value, json};

fn sum(components: &Components) -> Mat<f64> {
    let (left, right) = (&components.left, &components.right);
    let part = |i: usize, j: usize| {
        (0..right.rows()).map(|k| f64::from(left.at(i, k)) * f64::from(right.at(k, j))).sum()
    };
    Mat::from_fn(left.rows(), right.cols(), part)
}

#[test]
fn golden_rank_reduction() {
    let mut with_nothing = 0;
    for (set, id, case) in cases(&sets("laser-sfsd"), "laser.low_rank", 6) {
        let (w, exact) = (set.matrix(id, "W"), set.matrix(id, "exact"));
        let weight: Mat<f32> = w.cast();
        let shape = Shape { out: w.rows(), inp: w.cols() };
        let size = Size::Rate(number(&case["rate"]));
        let rank = size.rank(shape, None).expect("a rank");
        assert_eq!(rank as f64, number(&case["rank"]), "{id}");
        let tolerance = |name: &str| number(&case["tol"][name]);
        let all = Components::of(weight.view()).expect("decomposes");
        let how = LaserMethod { storage: Storage::Dense, ..LaserMethod::default() };
        let reduced = |size: Size| -> Mat<f64> {
            let done = cut(&weight, &how, size, Some(&all), RngKey::new(0)).expect("is cut");
            done.op.to_dense().expect("is linear").cast()
        };
        let found = reduced(size);
        let off = norm(&minus(&found, &exact));
        assert!(off <= tolerance("exact_mode_rel_fro") * norm(&w), "{id}: {off}");
        let values = set.matrix(id, "singular_values");
        for (found, want) in all.values.iter().zip(values.data()) {
            assert!((found - want).abs() <= 1e-6 * values.data()[0], "{id}: {found} {want}");
        }
        // Nothing is left of any weight at the largest rate.
        assert!(reduced(Size::Rate(10.0)).data().iter().all(|x| *x == 0.0), "{id}");
        if rank == 0 {
            assert!(found.data().iter().all(|x| *x == 0.0), "{id}");
            with_nothing += 1;
            continue;
        }
        let omega = set.matrix(id, "omega");
        let power = number(&case["niter"]) as usize;
        let replayed =
            Components::by_sketch(weight.view(), omega.view(), power).expect("decomposes");
        let out = set.matrix(id, "out");
        let off = norm(&minus(&sum(&replayed), &out));
        assert!(off <= tolerance("out_rel_fro_when_omega_replayed") * norm(&w), "{id}: {off}");
        let sketch = Sketch { rank, oversample: 8, power: 2 };
        let drawn = Components::randomised(weight.view(), sketch, RngKey::new(5));
        let rest = norm(&minus(&w, &sum(&drawn.expect("decomposes"))));
        let most = 1.02 * number(&case["resid_fro_ref"]) + 1e-6 * norm(&w);
        assert!(rest <= most, "{id}: {rest}, at most {most}");
    }
    assert!(with_nothing >= least(1, 0), "no case of rank 0");
}

#[test]
fn golden_pruning() {
    for (set, id, case) in cases(&sets("laser-sfsd"), "laser.prune", 1) {
        let weight: Mat<f32> = set.matrix(id, "W").cast();
        let tensors = case["tensors"].as_array().expect("tensors");
        let start = format!("{id}.out.");
        let rates = tensors.iter().filter_map(|name| name.as_str()?.strip_prefix(&start));
        let mut count = 0;
        for text in rates {
            let rate: f64 = text.parse().expect("a rate");
            let want: Mat<f32> = set.matrix(id, &format!("out.{text}")).cast();
            let found = pruned_compat(&weight, rate).expect("is pruned");
            assert_eq!(found, want, "{id} at rate {text}");
            // What is right prunes as many as the rate says; the code one more.
            let exact = pruned(&weight, (rate * 0.1 * weight.data().len() as f64) as usize);
            let zeros = |m: &Mat<f32>| m.data().iter().filter(|x| **x == 0.0).count();
            let before = zeros(&weight);
            let more = usize::from(rate > 0.0);
            assert!(zeros(&found) >= zeros(&exact) + more * usize::from(before == 0), "{text}");
            count += 1;
        }
        assert!(count >= least(3, 1), "{id} has {count} rates");
        // The code fails at the largest rate, whatever the weight.
        let error = case.get("rate_10_raises");
        assert!(error.map_or(least(1, 0) == 0, |error| error == "IndexError"), "{id}: {error:?}");
        assert!(pruned_compat(&weight, 10.0).is_err());
        let (how, nothing) = (LaserMethod::new(Intervention::Dropout), Size::Rate(10.0));
        let done = cut(&weight, &how, nothing, None, RngKey::new(0)).expect("is cut");
        assert!(done.op.to_dense().expect("is linear").data().iter().all(|x| *x == 0.0));
    }
}

#[test]
fn golden_rates_are_ranks() {
    let sets = sets("laser-sfsd");
    let tables: Vec<&Value> = sets.iter().filter_map(|set| set.about.get("rate_to_rank")).collect();
    assert!(tables.len() >= least(sets.len(), 1), "{} sets have ranks of rates", tables.len());
    for table in tables {
        let numbers = |value: &Value| -> Vec<f64> {
            value.as_array().expect("a list").iter().map(number).collect()
        };
        let sizes = numbers(&table["max_rank"]);
        let ranks = table["rank"].as_array().expect("rows");
        assert!(!sizes.is_empty() && sizes.len() == ranks.len());
        for (full, row) in sizes.iter().zip(ranks) {
            let shape = Shape { out: *full as usize, inp: 4 * *full as usize };
            let (rates, row) = (numbers(&table["rates"]), numbers(row));
            assert!(!rates.is_empty() && rates.len() == row.len(), "{full}");
            for (rate, want) in rates.iter().zip(row) {
                let rank = Size::Rate(*rate).rank(shape, None).expect("a rank");
                assert_eq!(rank as f64, want, "{full} at rate {rate}");
            }
        }
    }
}

/// A model of the family that the paper's code has under a name, where we name its tensors alike.
fn model_of(published: &str) -> Option<Transformer> {
    let kind = match published {
        "gptj" => "gptj",
        "llama" | "llama2" => "llama",
        "roberta" => "roberta",
        // Tensors of code that came with the checkpoint, and of a model that reads no text.
        "phi1_5" | "decision_transformer" => return None,
        other => panic!("the model {other} of the paper's code is not known here"),
    };
    let config = json!({
        "model_type": kind, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 3,
        "num_attention_heads": 2, "vocab_size": 9, "hidden_act": "silu", "max_position_embeddings": 16,
        "rms_norm_eps": 1e-5, "n_embd": 8, "n_head": 2, "n_layer": 3, "n_positions": 16, "rotary_dim": 4,
        "layer_norm_epsilon": 1e-5, "layer_norm_eps": 1e-5, "activation_function": "gelu_new",
        "type_vocab_size": 1, "tie_word_embeddings": false, "architectures": ["RobertaForMaskedLM"],
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2,
    });
    let config = TransformerConfig::from_json(&config).expect("a configuration");
    Some(Transformer::random(config, RngKey::new(1)))
}

#[test]
fn golden_names_of_weights() {
    let mut compared = 0;
    for set in sets("laser-sfsd") {
        let before = compared;
        let maps = set.about["name_maps"]["maps"].as_object().into_iter().flatten();
        for (published, names) in maps {
            let Some(model) = model_of(published) else { continue };
            for lname in Lname::ALL {
                let named = &names[lname.name()];
                // What the code does not know; we do.
                if named.is_null() || named.as_str().is_some_and(|text| text.starts_with('<')) {
                    continue;
                }
                let ends: Vec<&str> = match (named.as_str(), named.as_array()) {
                    (Some(text), _) => vec![text],
                    (None, Some(list)) => list.iter().filter_map(Value::as_str).collect(),
                    (None, None) => panic!("{published}: {named}"),
                };
                let mut found: Vec<String> = SlotSet::named(lname, Some(vec![1]))
                    .of(&model)
                    .unwrap_or_else(|error| panic!("{published}: {error}"))
                    .iter()
                    .map(|site| format!("{site}.weight"))
                    .collect();
                for end in &ends {
                    let place = found.iter().position(|name| name.ends_with(&format!(".{end}")));
                    found
                        .remove(place.unwrap_or_else(|| panic!("{published}: {end} in {found:?}")));
                }
                assert!(found.is_empty(), "{published}, {}: also {found:?}", lname.name());
                compared += 1;
            }
        }
        let is_announced = set.about.get("name_maps").is_some();
        let here = compared - before;
        assert!(here > 0 || (!is_announced && least(1, 0) == 0), "{:?}: no names", set.path);
    }
    assert!(compared > 0, "no golden set has names of weights");
}
