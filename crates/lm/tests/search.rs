//! Surgical search: shortcuts change no decision, runs resume, rejected layers are as before.

use linwright_data::QuestionSet;
use linwright_evaluate::{Bos, Hooks, MultipleChoice, RunOptions, Subject, evaluate};
use linwright_lm::LmError;
use linwright_lm::search::{
    Decision, FeatureSpace, Figures, Grounds, Solution, Splits, Target, TextWindows, Work, linears,
    search,
};
use linwright_measure::capture::Bounds;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Split, Stored, Transformer, TransformerConfig, Windows};
use linwright_ops::{Op, SiteId, Sites};
use linwright_run::team::{Alone, Team, ThreadTeam};
use linwright_run::{Fingerprint, Monitor, Silent, Store};
use linwright_tensor::RngKey;
use linwright_tensor::dtype::DType;
use serde_json::json;
use std::cell::Cell;
use std::path::Path;

/// Printable letters, with their codes less 32 as tokens.
fn tokenizer() -> Tokenizer {
    let vocabulary: serde_json::Map<_, _> =
        (' '..='~').enumerate().map(|(id, letter)| (letter.to_string(), id.into())).collect();
    let json = json!({
        "version": "1.0", "added_tokens": [], "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    });
    Tokenizer::from_bytes(Path::new("t.json"), &json.to_string().into_bytes(), None).unwrap()
}

fn model(kind: &str) -> Transformer {
    let config = json!({
        "model_type": kind, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
        "num_attention_heads": 2, "vocab_size": 95, "hidden_act": "silu", "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "n_embd": 16, "n_head": 2, "n_layer": 3, "n_positions": 64, "rotary_dim": 4,
        "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": false,
    });
    let mut model =
        Transformer::random(TransformerConfig::from_json(&config).unwrap(), RngKey::new(4));
    // Large enough that every layer matters.
    model.params_mut().into_iter().for_each(|(_, own)| own.iter_mut().for_each(|x| *x *= 3.0));
    model
}

fn questions(answers: &[usize]) -> MultipleChoice {
    let line = |(i, answer): (usize, &usize)| json!({"question": format!("what is {i} {}", i * i), "choices": ["ab", "cd", format!("e{i}")], "answer": answer});
    let text: String = answers.iter().enumerate().map(|one| format!("{}\n", line(one))).collect();
    let set = QuestionSet::from_bytes(Path::new("q.jsonl"), text.as_bytes()).unwrap();
    MultipleChoice::new(set, Bos::Never)
}

/// Questions to most of which a model knows the answer.
fn known(model: &Transformer, tokenizer: &Tokenizer, count: usize) -> MultipleChoice {
    let subject = Subject::new(model, tokenizer);
    let right = |answer: usize| -> Vec<f64> {
        let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
        let task = questions(&vec![answer; count]);
        let found = evaluate(&task, &subject, &RunOptions::default(), &mut hooks).unwrap();
        found.complete().unwrap().samples.iter().map(|one| one.numbers["acc_norm"]).collect()
    };
    let all = [right(0), right(1), right(2)];
    let answer = |i: usize| (0..3).position(|answer| all[answer][i] == 1.0).unwrap();
    let answers: Vec<usize> =
        (0..count).map(|i| (answer(i) + usize::from(i % 7 == 0)) % 3).collect();
    questions(&answers)
}

/// A model with what its search needs.
struct Parts {
    model: Transformer,
    tokenizer: Tokenizer,
    task: MultipleChoice,
    splits: Splits,
    sites: Vec<SiteId>,
    candidates: FeatureSpace,
}

/// How a search runs.
#[derive(Clone, Copy)]
struct How<'t> {
    shares: bool,
    state_bytes: usize,
    delta: f64,
    team: &'t dyn Team,
    as_saved: &'t dyn Fn(&Transformer) -> Result<Stored, LmError>,
}

const FAST: How<'static> = How {
    shares: true,
    state_bytes: 1 << 20,
    delta: 0.0,
    team: &Alone,
    as_saved: &|model| Ok(stored(model, DType::F32)),
};

fn stored(model: &Transformer, dtype: DType) -> Stored {
    model.as_stored(dtype, false, None).expect("is stored")
}

impl Parts {
    fn new(kind: &str) -> Self {
        let model = model(kind);
        let sites: Vec<SiteId> =
            linears(&model).into_iter().map(|slot| slot.id().clone()).collect();
        let mut stream = RngKey::new(1).stream();
        let text: Vec<u32> = (0..1500).map(|_| stream.below(95) as u32).collect();
        let text = Windows::new(&[text], None, 32, 1500, Split::Contiguous).unwrap();
        let bounds = Bounds::default();
        let candidates = FeatureSpace::of(&model, &text, &sites, &bounds, &mut Silent).unwrap();
        let (tokenizer, splits) = (tokenizer(), Splits::new(120, Splits::SEED).unwrap());
        let task = known(&model, &tokenizer, 120);
        Self { model, tokenizer, task, splits, sites, candidates }
    }

    fn work<'a>(&'a self, how: How<'a>, store: &'a Store) -> Work<'a> {
        Work {
            model: &self.model,
            tokenizer: &self.tokenizer,
            sentence: None,
            max_length: None,
            run: RunOptions { max_batch_tokens: 200, ..RunOptions::default() },
            sites: &self.sites,
            ranks: None,
            shares: how.shares,
            state_bytes: how.state_bytes,
            print: Fingerprint::of(&[("delta", &how.delta)]),
            store,
            team: how.team,
            as_saved: how.as_saved,
        }
    }

    fn by_task(&self, how: How<'_>) -> Solution {
        self.resumed(how, &Store::none(), &mut Silent).unwrap()
    }

    /// What the first of so many members finds, by right answers and by perplexity.
    fn by_team(&self, size: usize) -> [Solution; 2] {
        let members = ThreadTeam::of(size);
        std::thread::scope(|scope| {
            let work = members.into_iter().map(|team| {
                scope.spawn(move || {
                    let how = How { team: &team, ..FAST };
                    let by_task = self.found_by_task(how, &Store::none(), &mut Silent).unwrap();
                    (by_task, self.found_by_text(how, 1.02))
                })
            });
            let work: Vec<_> = work.collect();
            let mut found = work.into_iter().map(|thread| thread.join().expect("a member works"));
            let (by_task, by_text) = found.next().expect("there is a first member");
            assert!(found.all(|(by_task, by_text)| by_task.is_none() && by_text.is_none()));
            [by_task, by_text].map(|found| found.expect("the first member gets a solution"))
        })
    }

    fn resumed(
        &self,
        how: How<'_>,
        store: &Store,
        monitor: &mut dyn Monitor,
    ) -> Result<Solution, LmError> {
        Ok(self.found_by_task(how, store, monitor)?.expect("a process alone gets a solution"))
    }

    fn found_by_task(
        &self,
        how: How<'_>,
        store: &Store,
        monitor: &mut dyn Monitor,
    ) -> Result<Option<Solution>, LmError> {
        let target = Target::Task {
            task: &self.task,
            splits: &self.splits,
            delta: how.delta,
            metric: None,
            compat: false,
        };
        search(&self.work(how, store), &target, &self.candidates, monitor)
    }

    fn by_text(&self, how: How<'_>, growth: f64) -> Solution {
        self.found_by_text(how, growth).expect("a process alone gets a solution")
    }

    fn found_by_text(&self, how: How<'_>, growth: f64) -> Option<Solution> {
        let row = |i: usize| format!("row {i} tells of {} and {}", i * 7, i * i);
        let rows: Vec<String> = (0..40).map(row).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let windows =
            |rows: &[&str]| TextWindows::new(rows, &self.tokenizer, Bos::Auto, 16).unwrap();
        let (first, rest) = rows.split_at(12);
        let target = Target::Text { search: &windows(first), test: &windows(rest), growth };
        let store = Store::none();
        search(&self.work(how, &store), &target, &self.candidates, &mut Silent).unwrap()
    }
}

/// What was decided, without how.
fn decided(solution: &Solution) -> Vec<(&SiteId, Option<usize>, Option<usize>)> {
    let level = |own: &Decision| match &own.grounds {
        Grounds::Accuracy(verdict) => Some(verdict.level),
        Grounds::Perplexity { verdict, .. } => verdict.level,
    };
    solution.decisions.iter().map(|own| (&own.site, own.rank, level(own))).collect()
}

#[test]
fn shortcuts_and_kept_states_change_no_decision_by_right_answers() {
    let (mut kept, mut all) = (0, 0);
    for kind in ["llama", "gptj", "gpt2"] {
        let parts = Parts::new(kind);
        for delta in [0.0, 0.1] {
            let fast = parts.by_task(How { delta, ..FAST });
            let plain = parts.by_task(How { shares: false, delta, ..FAST });
            assert_eq!(decided(&fast), decided(&plain), "{kind}, {delta}");
            let few = parts.by_task(How { state_bytes: 0, delta, ..FAST });
            assert_eq!(fast.decisions.len(), few.decisions.len());
            for (a, b) in fast.decisions.iter().zip(&few.decisions) {
                assert_eq!((&a.grounds, a.parameters), (&b.grounds, b.parameters));
            }
            assert!(fast.effort.passes < few.effort.passes);
            assert!(2 * fast.effort.passes < plain.effort.passes, "{kind}");
            // The published work is a lower bound, and leaves out the dense model.
            assert!(fast.published_passes() < plain.effort.passes);
            assert!(2 * fast.published_passes() > plain.effort.passes);
            kept += fast.decisions.iter().filter(|own| own.rank.is_some()).count();
            all += fast.decisions.len();
        }
    }
    assert!(kept > 3 && kept < all, "{kept} of {all}");
}

#[test]
fn a_team_of_any_size_decides_the_same_on_the_same_grounds() {
    let parts = Parts::new("llama");
    let grounds = |found: &Solution| -> Vec<_> {
        found
            .decisions
            .iter()
            .map(|own| (own.site.clone(), own.rank, own.grounds.clone()))
            .collect()
    };
    let alone = [parts.by_task(FAST), parts.by_text(FAST, 1.02)];
    for size in [2, 3, 5] {
        let found = parts.by_team(size);
        for (alone, found) in alone.iter().zip(&found) {
            assert_eq!(grounds(alone), grounds(found), "{size} members");
            assert_eq!(
                serde_json::to_string(&alone.figures).unwrap(),
                serde_json::to_string(&found.figures).unwrap(),
                "{size} members"
            );
            // The first member did a part of the work.
            assert!(found.effort.passes < alone.effort.passes, "{size} members");
        }
    }
}

#[test]
fn shortcuts_and_kept_states_change_no_decision_by_perplexity() {
    for kind in ["llama", "gptj"] {
        let parts = Parts::new(kind);
        let mut kept = Vec::new();
        for growth in [0.9, 1.0, 1.02] {
            let fast = parts.by_text(FAST, growth);
            let plain = parts.by_text(How { shares: false, ..FAST }, growth);
            assert_eq!(decided(&fast), decided(&plain), "{kind}, {growth}");
            assert!(fast.effort.passes < plain.effort.passes);
            let Figures::Text { search, windows, .. } = &fast.figures else { panic!("a text") };
            assert!(windows[0] < windows[1]);
            let linears = parts.sites.len() as f64;
            assert!(search[1] <= search[0] * growth.max(1.0).powf(linears) * 1.0001, "{search:?}");
            kept.push(fast.decisions.iter().filter(|own| own.rank.is_some()).count());
        }
        assert!(kept[2] > kept[0], "{kept:?}");
    }
}

#[test]
fn the_found_model_is_judged_as_it_will_be_saved() {
    let parts = Parts::new("llama");
    let half = How { as_saved: &|model| Ok(stored(model, DType::Bf16)), ..FAST };
    let test = |solution: &Solution| match &solution.figures {
        Figures::Text { search, test, .. } => [search[1], test[0], test[1]],
        Figures::Task { .. } => panic!("a text"),
    };
    let (whole, rounded) = (parts.by_text(FAST, 1.02), parts.by_text(half, 1.02));
    assert_eq!(decided(&whole), decided(&rounded));
    let [[search, dense, found], [of_file, same, of_file_later]] = [&whole, &rounded].map(&test);
    assert!(search != of_file && dense == same && found != of_file_later);
    // Nothing is found in the model of the file, whose own figure is the dense one then.
    let model = stored(&rounded.network, DType::Bf16).model;
    let again = Parts { model, ..parts };
    let nothing = again.by_text(FAST, 1e-3);
    assert!(nothing.decisions.iter().all(|own| own.rank.is_none()));
    assert_eq!(test(&nothing), [of_file, of_file_later, of_file_later]);
    // So it is with right answers.
    let by_task = |parts: &Parts, how| {
        let Figures::Task { dense, found, .. } = parts.by_task(how).figures else {
            panic!("a task")
        };
        [dense, found].map(|one| serde_json::to_value(&one.metrics).expect("metrics"))
    };
    let parts = Parts::new("llama");
    let half = How { delta: 0.1, ..half };
    let model = stored(&parts.by_task(half).network, DType::Bf16).model;
    let [_, found] = by_task(&parts, half);
    let [dense, _] = by_task(&Parts { model, ..parts }, FAST);
    assert_eq!(found, dense);
}

#[test]
fn layers_are_the_accepted_factors_or_as_before() {
    let parts = Parts::new("gpt2");
    let solution = parts.by_task(How { delta: 0.1, ..FAST });
    let dense: usize = parts.model.slots().iter().map(|slot| slot.parameters()).sum();
    let left: usize = solution.network.slots().iter().map(|slot| slot.parameters()).sum();
    let mut saved = 0;
    for own in &solution.decisions {
        let (before, after) =
            (parts.model.slot(&own.site).unwrap(), solution.network.slot(&own.site).unwrap());
        let weight = |op: &Op<f32>| op.to_dense().unwrap();
        let same = weight(before.op()) == weight(after.op()) && before.bias() == after.bias();
        assert_eq!(same, own.rank.is_none(), "{}", own.site);
        let Some(rank) = own.rank else { continue };
        assert_eq!(after.parameters(), rank * (own.shape.out + own.shape.inp), "{}", own.site);
        saved += before.parameters() - after.parameters();
    }
    assert!(saved > 0);
    assert_eq!(dense - saved, left);
    let last = solution.decisions.last().unwrap();
    assert_eq!(last.index, 0);
    // The plan names the same layers and ranks, from the first layer on.
    let plan = solution.plan();
    let sites: Vec<SiteId> =
        plan.edits.iter().map(|edit| edit.sites.of(&parts.model).unwrap()[0].clone()).collect();
    let accepted = solution.decisions.iter().rev().filter(|own| own.rank.is_some());
    assert!(accepted.map(|own| &own.site).eq(&sites));
    let Figures::Task { metric, documents, search, .. } = &solution.figures else {
        panic!("a task");
    };
    assert_eq!((metric.as_str(), *documents), ("acc_norm", 24));
    assert!(search[1] >= search[0] - 0.1);
}

/// Stops after so many steps.
struct Stops {
    steps: Cell<usize>,
}

impl Monitor for Stops {
    fn step(&mut self, _name: &str) {
        self.steps.set(self.steps.get().saturating_sub(1));
    }

    fn progress(&mut self, _done: u64, _total: u64) {}

    fn seconds(&self) -> f64 {
        0.0
    }

    fn interrupted(&self) -> bool {
        self.steps.get() == 0
    }
}

#[test]
fn an_interrupted_search_goes_on_to_the_same_decisions() {
    let parts = Parts::new("llama");
    let whole = parts.by_task(FAST);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path());
    for steps in [2, 5, 9] {
        let stopped = parts.resumed(FAST, &store, &mut Stops { steps: Cell::new(steps) });
        assert!(stopped.unwrap_err().is_interruption());
    }
    let resumed = parts.resumed(FAST, &store, &mut Silent).unwrap();
    assert_eq!(decided(&resumed), decided(&whole));
    for (a, b) in resumed.decisions.iter().zip(&whole.decisions) {
        assert_eq!((&a.grounds, &a.macs), (&b.grounds, &b.macs));
    }
    assert_eq!(
        serde_json::to_string(&resumed.figures).unwrap(),
        serde_json::to_string(&whole.figures).unwrap()
    );
    let again = parts.resumed(FAST, &store, &mut Silent).unwrap();
    assert!(again.effort.passes < resumed.effort.passes);
}

#[test]
fn metrics_that_count_nothing_are_refused() {
    let parts = Parts::new("llama");
    let refused = |metric: &str| {
        let target = Target::Task {
            task: &parts.task,
            splits: &parts.splits,
            delta: 0.0,
            metric: Some(metric),
            compat: false,
        };
        let store = Store::none();
        let found = search(&parts.work(FAST, &store), &target, &parts.candidates, &mut Silent);
        found.expect_err("is refused").to_string()
    };
    let lower = refused("log_loss");
    assert!(lower.contains("log_loss") && lower.contains("--evaluation metric=NAME"), "{lower}");
    let unknown = refused("charm");
    assert!(unknown.contains("charm") && unknown.contains("acc_norm"), "{unknown}");
    let error =
        TextWindows::new(&["short"], &parts.tokenizer, Bos::Auto, 16).unwrap_err().to_string();
    assert!(error.contains("5 tokens") && error.contains("window of 16"), "{error}");
}
