//! Tiny random checkpoints of every family against what transformers computes with them in double
//! precision; see `tools/golden/decoder.py` and `tools/golden/encoder.py`.

use crate::reference::{Set, relative_error};
use linwright_model::generate::{Choice, Limits, generate};
use linwright_model::transformer::{Cache, Pooling, normalise_rows};
use linwright_model::{Batch, Transformer, TransformerConfig};
use linwright_ops::NoProbe;
use linwright_tensor::Mat;
use serde_json::Value;

/// Largest difference, relative to the largest number of a sequence. The stored sets agree to 1e-5;
/// the rest is room for references computed in f32.
const TOLERANCE: f64 = 1e-4;

fn run(model: &Transformer, batch: &Batch) -> Mat<f32> {
    let mut hidden = model.embed(batch).expect("tokens of the vocabulary");
    let layers = model.config().layers.len();
    model.run_layers(&mut hidden, batch, 0..layers, &mut NoProbe).expect("finite numbers");
    hidden
}

fn batch_of(sequences: &[Vec<u32>]) -> Batch {
    Batch::new(&sequences.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

#[test]
fn logits_of_every_decoder_are_those_of_transformers() {
    for set in Set::all("decoder") {
        let model = set.model();
        let batch = batch_of(&set.sequences());
        let logits = model.logits(run(&model, &batch).view());
        for (index, span) in batch.spans().iter().enumerate() {
            let found = logits.view().rows_range(span.start, span.len());
            set.assert_rows("logits", index, found, TOLERANCE);
        }
    }
}

#[test]
fn states_and_logits_of_every_encoder_are_those_of_transformers() {
    for set in Set::all("encoder") {
        let model = set.model();
        let types: Option<Vec<Vec<u32>>> = set.get("token_types");
        let mut batch = batch_of(&set.sequences());
        if let Some(types) = types.filter(|_| model.config().token_types.is_some()) {
            batch = batch.with_types(types.concat());
        }
        let hidden = run(&model, &batch);
        let logits = model.has_head().then(|| model.logits(hidden.view()));
        assert_eq!(logits.is_some(), set.get::<Value>("logits").is_some(), "{}", set.stem);
        for (index, span) in batch.spans().iter().enumerate() {
            let rows = hidden.view().rows_range(span.start, span.len());
            set.assert_rows("states", index, rows, TOLERANCE);
            if let Some(logits) = &logits {
                let rows = logits.view().rows_range(span.start, span.len());
                set.assert_rows("logits", index, rows, TOLERANCE);
            }
        }
        let mut pooled = Pooling::Mean.pool(hidden.view(), &batch, 0);
        normalise_rows(&mut pooled);
        assert_vectors(&set, "embeddings", &pooled);
        let pooled = model.pooler_output(hidden.view(), &batch);
        assert_eq!(pooled.is_some(), set.get::<Value>("pooled").is_some(), "{}", set.stem);
        if let Some(pooled) = pooled {
            assert_vectors(&set, "pooled", &pooled);
        }
    }
}

fn assert_vectors(set: &Set, field: &str, found: &Mat<f32>) {
    let rows: Vec<&[f32]> = (0..found.rows()).map(|i| found.row(i)).collect();
    let error = relative_error(&rows, &set.field::<Vec<Vec<f64>>>(field));
    assert!(error < TOLERANCE, "{}: {field} off by {error:e}", set.stem);
}

#[test]
fn every_tensor_of_a_checkpoint_has_a_place() {
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let notes = set.load().notes;
        let unused: Vec<&String> = notes.iter().filter(|note| note.contains("tensors")).collect();
        match set.stem.as_str() {
            // The head of another task.
            "bert-pretraining-old-names" => {
                assert!(unused.len() == 1 && unused[0].contains("seq_relationship"), "{unused:?}");
            }
            // A bias that transformers stores and does not use.
            "bert-untied-relu" => {
                assert!(unused.len() == 1 && unused[0].contains("cls.predictions.bias"));
            }
            stem => assert!(unused.is_empty(), "{stem}: {unused:?}"),
        }
    }
}

/// Greedy continuations with a cache, in a batch and alone.
#[test]
fn greedy_continuations_are_those_of_transformers() {
    #[derive(serde::Deserialize)]
    struct Greedy {
        prompt: Vec<u32>,
        tokens: Vec<u32>,
    }
    for set in Set::all("decoder") {
        let all: Vec<Greedy> = set.field("greedy");
        let model = set.model();
        let prompts: Vec<&[u32]> = all.iter().map(|one| one.prompt.as_slice()).collect();
        let new_tokens = all.iter().map(|one| one.tokens.len()).max().expect("a continuation");
        let limits = Limits { new_tokens, end_tokens: Vec::new() };
        let mut seen = vec![Vec::new(); prompts.len()];
        let mut on_token = |index: usize, token| {
            seen[index].push(token);
            seen[index].len() < all[index].tokens.len()
        };
        let found = generate(&model, &prompts, &Choice::greedy(), &limits, &mut on_token);
        let found = found.unwrap_or_else(|e| panic!("{}: {e}", set.stem));
        for ((found, seen), one) in found.iter().zip(&seen).zip(&all) {
            assert_eq!(found.tokens, one.tokens, "{}", set.stem);
            assert_eq!(seen, &one.tokens, "{}", set.stem);
        }
    }
}

#[test]
fn older_configurations_say_the_same_and_all_survive_being_written_and_read() {
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let config = set.config();
        if let Some(older) = set.get::<Value>("older_config") {
            let older = TransformerConfig::from_json(&older);
            assert_eq!(older.as_ref(), Ok(&config), "{}", set.stem);
        }
        let blocks = set.field::<Value>("config").get("block_configs").is_some();
        if !blocks {
            let again = TransformerConfig::from_json(&config.to_json());
            assert_eq!(again.as_ref(), Ok(&config), "{}", set.stem);
        }
    }
}

#[test]
fn cached_beginnings_change_nothing() {
    for set in Set::all("decoder") {
        let model = set.model();
        let sequences = set.sequences();
        let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
        // Frequencies that depend on the length are those of the call: a cache keeps the old ones.
        let ropes = &model.config().ropes;
        if ropes.iter().any(|rope| rope.variant(1) != rope.variant(longest)) {
            continue;
        }
        let whole = run(&model, &batch_of(&sequences));
        let mut cache = Cache::new(&model, sequences.len());
        let mut found: Vec<Vec<f32>> = vec![Vec::new(); sequences.len()];
        for step in [3, 1, 7, longest] {
            let part = |(sequence, &first): (&Vec<u32>, &usize)| {
                sequence[first..(first + step).min(sequence.len())].to_vec()
            };
            let first = cache.lengths().to_vec();
            let parts: Vec<_> = sequences.iter().zip(&first).map(part).collect();
            let views: Vec<&[u32]> = parts.iter().map(Vec::as_slice).collect();
            let batch = Batch::continuing(&views, &first);
            let mut hidden = model.embed(&batch).expect("tokens");
            model.continue_layers(&mut hidden, &batch, &mut cache).expect("finite");
            for (found, span) in found.iter_mut().zip(batch.spans()) {
                let rows = hidden.view().rows_range(span.start, span.len());
                found.extend((0..rows.rows()).flat_map(|i| rows.row(i)));
            }
        }
        let largest = whole.data().iter().fold(0.0f32, |max, v| max.max(v.abs()));
        for (a, b) in found.concat().iter().zip(whole.data()) {
            assert!((a - b).abs() < 1e-5 * largest, "{}: {a} is not {b}", set.stem);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_rest_of_the_batch() {
    for set in Set::all("decoder").into_iter().chain(Set::all("encoder")) {
        let model = set.model();
        let sequences = set.sequences();
        let batch = batch_of(&sequences);
        let together = run(&model, &batch);
        for (sequence, span) in sequences.iter().zip(batch.spans()) {
            let alone = run(&model, &Batch::new(&[sequence]));
            let rows = together.view().rows_range(span.start, span.len()).to_mat();
            let largest = alone.data().iter().fold(1.0f32, |max, v| max.max(v.abs()));
            for (a, b) in rows.data().iter().zip(alone.data()) {
                assert!((a - b).abs() <= 1e-5 * largest, "{}: {a} is not {b}", set.stem);
            }
        }
    }
}

/// Configurations of published models: what they ask for is counted as transformers counts it.
#[test]
fn published_models_have_the_parameters_that_transformers_counts() {
    for (stem, record) in Set::records("configs") {
        let config = TransformerConfig::from_json(&record["config"]);
        let config = config.unwrap_or_else(|e| panic!("{stem}: {e}"));
        assert_eq!(Some(config.parameters()), record["parameters"].as_u64(), "{stem}");
        let tensors = config.tensor_shapes().len() as u64;
        assert_eq!(Some(tensors), record["tensors"].as_u64(), "{stem}");
    }
}

/// Configurations with one changed field, compared with transformers; see
/// `tools/golden/config_changes.py`.
#[test]
fn changed_configurations_are_followed_as_by_transformers_or_refused_by_name() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/config_changes.json"
    ));
    let record: Value = serde_json::from_str(&text.expect("the cases")).expect("JSON");
    let tokens: Vec<u32> = serde_json::from_value(record["tokens"].clone()).expect("tokens");
    let sets = ["decoder", "encoder"].map(Set::all);
    let cases = record["cases"].as_array().expect("cases");
    assert!(cases.len() > 35);
    let mut wrong = Vec::new();
    for case in cases {
        let of_case = |set: &&Set| case["stem"] == set.stem.as_str();
        let set = sets.iter().flatten().find(of_case).expect("a reference of this name");
        let mut config: Value = set.field("config");
        let fields = config.as_object_mut().expect("an object");
        for (field, value) in case["set"].as_object().expect("fields") {
            fields.insert(field.clone(), value.clone());
        }
        for field in case["remove"].as_array().expect("names") {
            fields.remove(field.as_str().expect("a name"));
        }
        match (set.try_load(&config), case["refused"].as_str()) {
            (Err(error), Some(words)) if error.to_string().contains(words) => {}
            (Ok(loaded), None) => {
                let model = loaded.decoder;
                let logits = model.logits(run(&model, &Batch::new(&[&tokens])).view());
                let expected: Vec<f64> = serde_json::from_value(case["rows"].clone()).expect("row");
                let last = logits.row(logits.rows() - 1);
                let error = relative_error(&[last], &[expected]);
                if error >= TOLERANCE {
                    wrong.push(format!("{} {}: off by {error:e}", set.stem, case["set"]));
                }
            }
            (Ok(_), Some(words)) => {
                wrong.push(format!("{} {}: not refused ({words})", set.stem, case["set"]));
            }
            (Err(error), _) => wrong.push(format!("{} {}: {error}", set.stem, case["set"])),
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
