//! Sweeps and compositions: shared work, resumption, decisions.

mod parts;
mod variants;

use linwright_compress::intervention::{Intervention, Lname, apply_edits};
use linwright_compress::methods::LaserMethod;
use linwright_compress::{Edit, MethodSpec, Plan, Size};
use linwright_data::QuestionSet;
use linwright_evaluate::{Bos, Hooks, MultipleChoice, Outcome, RunOptions, Subject, evaluate};
use linwright_lm::LmError;
use linwright_lm::cuts::compose::{best_first, compose};
use linwright_lm::cuts::grid::Grid;
use linwright_lm::cuts::sweep::{Objective, Score, Swept, Work, sweep};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Transformer, TransformerConfig};
use linwright_run::team::{Alone, Team, ThreadTeam};
use linwright_run::{Fingerprint, Monitor, RunDirectory, RunError, Silent, Store};
use linwright_tensor::RngKey;
use serde_json::json;
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
    Transformer::random(TransformerConfig::from_json(&config).unwrap(), RngKey::new(4))
}

fn questions(count: usize, from: usize) -> MultipleChoice {
    let line = |i: usize| {
        let i = i + from;
        json!({"question": format!("what is {i} {}", i * i), "choices": ["ab", "cd", format!("e{i}")], "answer": i % 3, "band": if i.is_multiple_of(2) { "even" } else { "odd" }})
    };
    let text: String = (0..count).map(|i| format!("{}\n", line(i))).collect();
    MultipleChoice::new(
        QuestionSet::from_bytes(Path::new("q.jsonl"), text.as_bytes()).unwrap(),
        Bos::Never,
    )
}

fn grid(intervention: Intervention) -> Grid {
    Grid {
        lnames: vec![Lname::FcIn, Lname::FcOut, Lname::OutProj],
        layers: Some(vec![2, 0]),
        sizes: vec![Size::Rate(9.0), Size::Rate(5.0), Size::Rate(10.0)],
        method: LaserMethod::new(intervention),
        ..Grid::default()
    }
}

struct Parts {
    model: Transformer,
    tokenizer: Tokenizer,
    validation: MultipleChoice,
    test: MultipleChoice,
    store: Store,
}

impl Parts {
    fn new(kind: &str) -> Self {
        let (validation, test) = (questions(10, 0), questions(20, 10));
        Self { model: model(kind), tokenizer: tokenizer(), validation, test, store: Store::none() }
    }

    fn work(&self, shares: bool) -> Work<'_> {
        Work {
            model: &self.model,
            tokenizer: &self.tokenizer,
            model_hash: "random",
            validation: &self.validation,
            test: Some(&self.test),
            metric: None,
            store: &self.store,
            run: RunOptions { max_batch_tokens: 120, ..RunOptions::default() },
            max_length: None,
            sentence: None,
            shares,
        }
    }

    fn swept(
        &self,
        grid: &Grid,
        shares: bool,
        monitor: &mut dyn Monitor,
    ) -> Result<Swept, LmError> {
        let folder = tempfile::tempdir().unwrap();
        let work = self.work(shares);
        let directory = RunDirectory::open(&folder.path().join("run"), &work.fingerprint(grid))?;
        Ok(sweep(&work, grid, &directory, monitor)?.complete()?)
    }
}

fn figures(swept: &Swept) -> Vec<f64> {
    let all =
        swept.cells.iter().flat_map(|cell| cell.score.metrics.iter().map(|metric| metric.value));
    all.collect()
}

#[test]
fn shared_work_changes_no_figure_and_no_decision() {
    for kind in ["llama", "gptj", "gpt2"] {
        let parts = Parts::new(kind);
        for intervention in
            [Intervention::RankReduction, Intervention::Dropout, Intervention::Vendi]
        {
            let grid = grid(intervention);
            let together = parts.swept(&grid, true, &mut Silent).unwrap();
            let alone = parts.swept(&grid, false, &mut Silent).unwrap();
            assert_eq!(together.cells.len(), 18);
            for (a, b) in figures(&together).iter().zip(figures(&alone)) {
                assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{kind} {a} {b}");
            }
            assert_eq!(
                (together.best, together.is_better),
                (alone.best, alone.is_better),
                "{kind}"
            );
            let test = together.test.expect("there are test items");
            let groups: Vec<&str> = test.groups.iter().map(|of| of.group.as_str()).collect();
            assert_eq!(groups, ["even", "odd"], "{kind}");
            let items = test.groups.iter().map(|of| of.comparisons[0].items).sum::<usize>();
            assert_eq!(items, test.comparisons[0].items, "{kind}");
        }
    }
}

#[test]
fn a_cell_is_the_edited_model_as_evaluated_by_itself() {
    check_cells("llama", &grid(Intervention::RankReduction));
}

/// Checks a score against the edited model, evaluated by itself.
fn check_score(parts: &Parts, edited: &Transformer, score: &Score) {
    let mut hooks = Hooks { progress: &mut |_| {}, cancelled: &|| false, journal: None };
    let subject = Subject::new(edited, &parts.tokenizer);
    let found = evaluate(&parts.validation, &subject, &RunOptions::default(), &mut hooks);
    let found = found.and_then(Outcome::complete).unwrap();
    assert_eq!(found.metrics.len(), score.metrics.len());
    for (a, b) in found.metrics.iter().zip(&score.metrics) {
        assert!((a.value - b.value).abs() < 1e-5, "{} {}", a.value, b.value);
    }
}

/// Checks each cell of a sweep against the model with its cut.
fn check_cells(kind: &str, grid: &Grid) -> Swept {
    let parts = Parts::new(kind);
    let swept = parts.swept(grid, true, &mut Silent).unwrap();
    for cell in &swept.cells {
        let sites = cell.place.weights.set(cell.place.layer.map(|l| vec![l]), &[]);
        let method = MethodSpec::Laser(cell.place.weights.cut_by(grid.method));
        let size = Some(cell.size);
        let edits = Plan { seed: 0, edits: vec![Edit { sites, method, size, heals: false }] };
        let mut edited = parts.model.clone();
        let done = apply_edits(&mut edited, &edits, &parts.store, &mut Silent).unwrap();
        let ranks: Vec<_> = done.iter().map(|edit| edit.report.kept.rank).collect();
        assert_eq!(ranks, cell.kept.iter().map(|kept| kept.rank).collect::<Vec<_>>());
        check_score(&parts, &edited, &cell.score);
        assert_eq!(cell.score.groups.len(), 2);
    }
    swept
}

/// Stops after so many questions whether to.
struct Stops(std::cell::Cell<u32>);

impl Monitor for Stops {
    fn step(&mut self, _name: &str) {}

    fn progress(&mut self, _done: u64, _total: u64) {}

    fn interrupted(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left == 0
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

#[test]
fn a_sweep_that_was_stopped_goes_on_and_another_one_is_refused() {
    let parts = Parts::new("llama");
    let grid = grid(Intervention::RankReduction);
    let whole = parts.swept(&grid, true, &mut Silent).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let work = parts.work(true);
    let print = work.fingerprint(&grid);
    let mut stops = 0;
    for patience in 3.. {
        let directory = RunDirectory::open(&path, &print).unwrap();
        let found = sweep(&work, &grid, &directory, &mut Stops(patience.into()));
        match found.and_then(|found| Ok(found.complete()?)) {
            Ok(swept) => {
                assert_eq!((figures(&swept), swept.best), (figures(&whole), whole.best));
                // Items of the model as it is are kept, so that cells compare with them after a
                // stop.
                assert_eq!(swept.cells, whole.cells);
                assert!(swept.cells.iter().all(|cell| !cell.score.comparisons.is_empty()));
                break;
            }
            Err(LmError::Compress(error)) => assert!(error.is_interruption(), "{error}"),
            Err(LmError::Evaluation(error)) => {
                assert!(error.to_string().contains("interrupted"), "{error}");
            }
            Err(other) => panic!("{other}"),
        }
        stops += 1;
    }
    assert!(stops > 2, "{stops}");
    let other = Parts { validation: questions(11, 0), ..Parts::new("llama") };
    let changed = other.work(true).fingerprint(&grid);
    assert!(matches!(RunDirectory::open(&path, &changed), Err(RunError::Fingerprint { .. })));
}

#[test]
fn a_composition_never_gets_worse_and_its_edits_make_the_model() {
    let parts = Parts::new("llama");
    let grid =
        Grid { sizes: vec![Size::Rate(9.0), Size::Rate(3.0)], ..grid(Intervention::RankReduction) };
    let swept = parts.swept(&grid, true, &mut Silent).unwrap();
    let work = parts.work(true);
    let mut found = Vec::new();
    for order in [None, Some(best_first(&swept))] {
        let folder = tempfile::tempdir().unwrap();
        let print = Fingerprint::of(&[("order", &order)]);
        let directory = RunDirectory::open(&folder.path().join("run"), &print).unwrap();
        let composed =
            compose(&work, &grid, order.clone(), (&directory, &Alone), &mut Silent).unwrap();
        assert_eq!(composed.steps.len(), 6);
        let objective = &composed.objective;
        let mut held = Score { metrics: composed.dense.metrics.clone(), ..Score::default() };
        for step in &composed.steps {
            match step.accepted {
                Some(index) => {
                    let score = &step.tried[index].score;
                    assert!(objective.value(score) >= objective.value(&held));
                    held = score.clone();
                }
                // What is rejected is worse at every size.
                None => assert!(
                    step.tried.iter().all(|t| objective.value(&t.score) < objective.value(&held))
                ),
            }
        }
        // The same command again reads what it found.
        let again = compose(&work, &grid, order, (&directory, &Alone), &mut Silent).unwrap();
        assert_eq!((again.steps, again.score), (composed.steps.clone(), composed.score.clone()));
        let mut edited = parts.model.clone();
        apply_edits(&mut edited, &composed.edits, &parts.store, &mut Silent).unwrap();
        check_score(&parts, &edited, &composed.score);
        found.push(composed.edits.edits.len());
    }
    assert!(found.iter().any(|count| *count > 0), "some cut is accepted");
}

#[test]
fn a_team_composes_what_one_process_composes() {
    let parts = Parts::new("llama");
    let sizes = vec![Size::Rate(9.0), Size::Rate(5.0), Size::Rate(3.0)];
    let grid = Grid { sizes, ..grid(Intervention::RankReduction) };
    let composed = |team: &dyn Team| {
        let folder = tempfile::tempdir().unwrap();
        let print = Fingerprint::of(&[("team", &team.size())]);
        let directory = RunDirectory::open(&folder.path().join("run"), &print).unwrap();
        compose(&parts.work(true), &grid, None, (&directory, team), &mut Silent).unwrap()
    };
    let alone = composed(&Alone);
    assert!(!alone.edits.edits.is_empty() && alone.test.is_some(), "some cut is accepted");
    // More members than sizes: the last one evaluates nothing.
    for size in [2, 4] {
        let members = ThreadTeam::of(size);
        std::thread::scope(|scope| {
            let composed = &composed;
            let work = members.into_iter().map(|team| scope.spawn(move || composed(&team)));
            let work: Vec<_> = work.collect();
            for (rank, thread) in work.into_iter().enumerate() {
                let found = thread.join().expect("a member works");
                assert_eq!((&found.steps, &found.score), (&alone.steps, &alone.score), "{rank}");
                let json = |test: &Option<_>| serde_json::to_value(test).unwrap();
                match rank {
                    0 => assert_eq!(json(&found.test), json(&alone.test)),
                    _ => assert!(found.test.is_none()),
                }
            }
        });
    }
}

#[test]
fn the_better_figure_wins_then_the_lower_loss() {
    let metric =
        |name: &str, value: f64, higher| linwright_evaluate::Metric::new(name, value, None, higher);
    let score = |acc: f64, loss: f64| Score {
        metrics: vec![metric("acc", acc, true), metric("log_loss", loss, false)],
        ..Score::default()
    };
    let objective = Objective { metric: "acc".into(), higher_is_better: true };
    assert!(objective.is_better(&score(0.6, 9.0), &score(0.5, 1.0)));
    assert!(objective.is_better(&score(0.5, 1.0), &score(0.5, 2.0)));
    assert!(!objective.is_better(&score(0.5, 1.0), &score(0.5, 1.0)));
    let loss = Objective { metric: "log_loss".into(), higher_is_better: false };
    assert!(loss.is_better(&score(0.1, 1.0), &score(0.9, 2.0)));
    // What wins is one thing, what is shown another: only an interval beyond zero shows it.
    let comparison = |metric: &str, interval: [f64; 2]| linwright_evaluate::Comparison {
        task: "t".into(),
        metric: metric.into(),
        filter: "none".into(),
        items: 10,
        difference: (interval[0] + interval[1]) / 2.0,
        interval,
        only_one: None,
        mcnemar_p: None,
    };
    let shown =
        |own: &Objective, interval| own.is_shown_better(&[comparison(&own.metric, interval)]);
    assert!(shown(&objective, [0.01, 0.2]) && shown(&loss, [-0.2, -0.01]));
    assert!(!shown(&objective, [-0.01, 0.2]) && !shown(&objective, [0.0, 0.0]));
    assert!(!shown(&objective, [-0.2, -0.01]) && !shown(&loss, [0.01, 0.2]));
    assert!(!objective.is_shown_better(&[comparison("f1", [0.1, 0.2])]));
}

#[test]
fn grids_without_sense_are_refused() {
    let parts = Parts::new("gptj");
    let refused = |grid: Grid| parts.swept(&grid, true, &mut Silent).unwrap_err().to_string();
    let base = grid(Intervention::RankReduction);
    assert!(refused(Grid { sizes: Vec::new(), ..base.clone() }).contains("the grid has no sizes"));
    assert!(refused(Grid { lnames: Vec::new(), ..base.clone() }).contains("the grid has no names"));
    assert!(refused(Grid { lnames: vec![Lname::FcUp], ..base.clone() }).contains("fc_up"));
    assert!(
        refused(Grid { layers: Some(vec![7]), ..base.clone() }).contains("layer 7 is out of range")
    );
    let wrong = refused(Grid { sizes: vec![Size::Rate(10.5)], ..base.clone() });
    assert!(wrong.contains("rate is 10.5, expected a number from 0 to 10"), "{wrong}");
    assert!(
        refused(Grid { sizes: vec![Size::Rank(17)], ..base }).contains("above the full rank 16")
    );
}
