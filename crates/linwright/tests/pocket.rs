//! The built-in model: the assets follow from their recipe, and the way to make them works.

use linwright::model::checkpoint::load;
use linwright::model::tokenizer::Bos;
use linwright::pocket::{PocketRecipe, Prepared};
use linwright::train::{Control, Progress, Schedule};
use linwright_data::world::{Band, WorldSettings};
use linwright_evaluate::{Hooks, Outcome, RunOptions, Subject, TaskOptions, evaluate, open_task};
use std::path::Path;

struct Quiet {
    stop_at: u64,
    done: u64,
}

impl Control for Quiet {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.done = progress.step;
    }

    fn interrupted(&self) -> bool {
        self.done >= self.stop_at
    }
}

#[test]
fn text_and_tokenizer_of_the_assets_can_be_made_again_from_their_recipe() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket");
    let world = std::fs::read(assets.join("world.json")).expect("reads");
    let world: serde_json::Value = serde_json::from_slice(&world).expect("is JSON");
    let recipe: PocketRecipe = serde_json::from_value(world["recipe"].clone()).expect("a recipe");
    assert_eq!(recipe, PocketRecipe::default(), "the assets were made by another recipe");
    let prepared = Prepared::new(recipe).expect("prepares");
    assert_eq!(world["corpus_sha256"], prepared.corpus_sha256());
    assert_eq!(world["tokenizer_sha256"], prepared.tokenizer_sha256());
    let shipped = std::fs::read_to_string(assets.join("tokenizer.json")).expect("reads");
    assert_eq!(prepared.tokenizer_json(), shipped);
    let test: Vec<String> = std::fs::read_to_string(assets.join("stories-test.jsonl"))
        .expect("reads")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("is JSON"))
        .map(|line| line["text"].as_str().expect("a text").to_owned())
        .collect();
    let texts: Vec<&String> = prepared.world().test().iter().map(|story| &story.text).collect();
    assert_eq!(test.iter().collect::<Vec<_>>(), texts);
}

#[test]
fn a_small_world_trains_stops_goes_on_and_loads_back() {
    let recipe = PocketRecipe {
        world: WorldSettings {
            seed: 3,
            stories: 30,
            sums: 2,
            games: 2,
            bands: vec![Band { name: "none".to_owned(), least: 0, most: 0 }],
            validation: 2,
            test: 2,
            ..WorldSettings::default()
        },
        vocab: 400,
        batch_tokens: 2048,
        schedule: Schedule { peak: 1e-3, warmup: 1, floor: 1e-4 },
        validate_every: 2,
        ..PocketRecipe::default()
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let checkpoint = dir.path().join("run.safetensors");
    let prepared = Prepared::new(recipe.clone()).expect("prepares");
    let stopped = prepared.train(Some(&checkpoint), &mut Quiet { stop_at: 1, done: 0 });
    assert!(stopped.is_err(), "interrupted");
    let again = Prepared::new(recipe).expect("prepares");
    assert_eq!(again.tokenizer_sha256(), prepared.tokenizer_sha256());
    let mut control = Quiet { stop_at: u64::MAX, done: 0 };
    let (decoder, outcome) = again.train(Some(&checkpoint), &mut control).expect("goes on");
    assert_eq!(outcome.resumed_at, Some(1));
    assert!(outcome.best_loss < outcome.curve[0].validation, "{:?}", outcome.curve);
    let out = dir.path().join("pocket");
    again.write(&decoder, &outcome, &out, true, Vec::new()).expect("writes");
    let model = load(&out).expect("loads");
    let tokenizer = model.tokenizer.expect("has a tokenizer");
    let story = &again.world().test()[0].text;
    let tokens = tokenizer.encode_document(story, Bos::Auto).expect("encodes");
    assert_eq!(tokens[0], 0);
    assert_eq!(tokenizer.decode(&tokens, true).expect("decodes"), *story);
    assert_eq!(model.decoder.config(), decoder.config());
}

/// The share of right answers of a band, and the perplexity of the held-out stories.
#[test]
fn the_built_in_model_knows_its_world_and_leaves_room() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket");
    let model = load(&assets).expect("loads");
    let tokenizer = model.tokenizer.as_ref().expect("has a tokenizer");
    let subject = Subject::new(&model.decoder, tokenizer);
    let result = |name: &str, file: &str| {
        let options = TaskOptions { bos: Bos::Always, ..TaskOptions::default() };
        let task = open_task(name, &assets.join(file), &options).expect("opens");
        let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
        let outcome = evaluate(task.as_ref(), &subject, &RunOptions::default(), &mut hooks);
        outcome.and_then(Outcome::complete).expect("scores")
    };
    let questions = result("multiple_choice", "facts.jsonl");
    assert!(questions.counts.items >= 1000);
    let right = |band: &str| {
        let group = questions.groups.iter().find(|group| group.group == band).expect("a band");
        group.metrics[0].value
    };
    assert!(right("frequent") >= 0.95, "{}", right("frequent"));
    assert!((0.4..=0.8).contains(&right("rare")), "{}", right("rare"));
    let perplexity =
        result("text", "stories-test.jsonl").metric("token_perplexity").expect("one").value;
    let world = std::fs::read(assets.join("world.json")).expect("reads");
    let world: serde_json::Value = serde_json::from_slice(&world).expect("is JSON");
    let generator = world["entropy"]["test"]["perplexity"].as_f64().expect("a number");
    assert!(perplexity <= 1.15 * generator, "{perplexity} against {generator}");
}
