//! Comparisons of methods on a network that they do not know.

use linwright_compare::{
    Asked, Asking, Compared, Comparison, Found, HeldOut, Judge, Pieces, Place, Row, SlotMethod,
    Slots, Way, compare, within_budget,
};
use linwright_compress::{Edit, FitTo, Plan, Size, SlotSet};
use linwright_evaluate::{Metric, Outcome, TaskResult};
use linwright_ops::Sites;
use linwright_run::{Fingerprint, Monitor, Shard, Silent, Store};
use linwright_tensor::RngKey;
use linwright_tensor::dtype::DType;
use linwright_toy::{Batches, Toy};
use linwright_trial::{ExamplesOf, PassMacs, PassSpeed, Trial, TrialError, TrialJudge};

/// A trial that scores the squared distance to the outputs of the original network.
struct Distance {
    network: Toy,
    batches: Batches,
}

impl Trial for Distance {
    type Network = Toy;

    fn network(&self) -> &Toy {
        &self.network
    }

    fn hash(&self) -> &str {
        "toy"
    }

    fn calibration_sha256(&self) -> &str {
        "random rows"
    }

    fn scored_sha256(&self) -> &str {
        "random rows"
    }

    fn notes(&self) -> &[String] {
        &[]
    }

    fn examples(&self, _seed: u64) -> Result<Box<ExamplesOf<Self>>, TrialError> {
        Ok(Box::new(self.batches.clone()))
    }

    fn scores(&self, network: &Toy, _: &mut dyn Monitor) -> Result<Vec<TaskResult>, TrialError> {
        let (mut sum, mut count) = (0.0, 0.0);
        for batch in &self.batches.0 {
            let [a, b] = [&self.network, network].map(|of| of.output(batch).expect("6 features"));
            sum +=
                a.data().iter().zip(b.data()).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
            count += a.rows() as f64;
        }
        let metrics = vec![Metric::new("squared_error", sum / count, None, false)];
        Ok(vec![TaskResult { task: "distance".into(), metrics, ..TaskResult::default() }])
    }
}

/// Counts the steps of a run.
#[derive(Default)]
struct Steps(Vec<String>);

impl Monitor for Steps {
    fn step(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }

    fn progress(&mut self, _: u64, _: u64) {}

    fn interrupted(&self) -> bool {
        false
    }

    fn seconds(&self) -> f64 {
        0.0
    }
}

fn methods(names: &[&str]) -> Vec<SlotMethod> {
    names.iter().map(|name| SlotMethod::named(name).expect("is a name")).collect()
}

/// Calls `work` with a judge of the toy network.
fn judged<R>(work: impl FnOnce(&TrialJudge<'_, Distance>) -> R) -> R {
    judged_at(&SlotSet::default(), 3, work)
}

/// The same for what replaces some slots with a seed.
fn judged_at<R>(
    sites: &SlotSet,
    seed: u64,
    work: impl FnOnce(&TrialJudge<'_, Distance>) -> R,
) -> R {
    let (network, batches) = (Toy::new(RngKey::new(1)), Batches::random(5, RngKey::new(2)));
    let trial = Distance { network, batches };
    let examples = trial.examples(0).expect("has batches");
    let fits = Store::none();
    let plan_of = |edit: Edit| Plan { seed, edits: vec![edit] };
    let slots = Slots {
        network: &trial.network,
        hash: "toy",
        sites,
        plan_of: &plan_of,
        examples: Some(examples.as_ref()),
        dtype: DType::F32,
        fits: &fits,
    };
    work(&TrialJudge::new(&trial, examples.as_ref(), slots))
}

type Finding = Outcome<Compared<PassMacs, PassSpeed>>;

fn run(
    judge: &TrialJudge<'_, Distance>,
    store: &Store,
    shard: Shard,
    monitor: &mut dyn Monitor,
) -> Finding {
    let print = Fingerprint::of(&[("toy", &1)]);
    let pieces = Pieces { store, shard, print: &print };
    let methods = methods(&["svd", "low_rank", "random", "q8_0"]);
    compare(judge, &methods, &[0.8, 0.5], pieces, monitor).expect("compares")
}

#[test]
fn a_comparison_finds_the_best_and_is_not_done_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::at(folder.path());
    judged(|judge| {
        let mut steps = Steps::default();
        let first = run(judge, &store, Shard::WHOLE, &mut steps);
        assert!(steps.0.iter().any(|step| step.starts_with("low_rank at 0.5")), "{:?}", steps.0);
        let Outcome::Complete(found) = &first else { panic!("it is no shard") };
        // Two of three methods at two sizes and random factors, and one rounding.
        assert_eq!(found.cells.len(), 7);
        assert_eq!(found.dense.results[0].metrics[0].value, 0.0);
        let slots = judge.network().slots();
        let macs: u64 = slots.iter().map(|slot| slot.shape().dense_parameters() as u64).sum();
        // An example has two rows.
        assert_eq!(found.dense.macs, PassMacs { linear: 2 * macs });
        assert_eq!(found.best(0.8).map(|(cell, _)| cell.method.as_str()), Some("low_rank"));
        let mut again = Steps::default();
        assert_eq!(run(judge, &store, Shard::WHOLE, &mut again), first);
        assert_eq!(again.0, Vec::<String>::new());
    });
}

#[test]
fn shards_share_the_cells() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::at(folder.path());
    judged(|judge| {
        let [one, two] = ["0/2", "1/2"].map(|shard| shard.parse::<Shard>().expect("a shard"));
        let Outcome::Part { known, total } = run(judge, &store, one, &mut Silent) else {
            panic!("a shard alone has no result")
        };
        assert_eq!((known, total), (4, 7));
        // The second finds the cells of the first in the same place.
        let Outcome::Complete(found) = run(judge, &store, two, &mut Silent) else {
            panic!("all cells are there")
        };
        assert!(found.cells.iter().all(|cell| matches!(cell.found, Found::Model(_))));
    });
}

/// Rows of two sizes on two sets of layers with two seeds.
fn runs(store: &Store, shard: Shard, monitor: &mut dyn Monitor) -> Finding {
    let row = |rank| Row {
        size: Some(Size::Rank(rank)),
        ..Row::of(SlotMethod::named("low_rank").expect("is a name"))
    };
    let nothing = serde_json::json!({"method": "laser", "intervention": "zero"});
    let nothing = nothing.as_object().expect("a map").clone();
    let nothing = Row {
        label: Some("nothing".into()),
        ..Row::of(SlotMethod::of_options(nothing).expect("is a method"))
    };
    let rows = [row(1), row(3), nothing];
    let places: Vec<Place> = [0, 1]
        .into_iter()
        .flat_map(|seed| [vec![0], vec![0, 1]].map(|layers| Place { layers, seed }))
        .collect();
    let against = ["LR1-closed".to_owned()];
    let asking = Asking { rows: &rows, keeps: &[], places: &places, against: &against };
    let print = Fingerprint::of(&[("toy", &3)]);
    let mut comparison = Comparison::new(asking, Pieces { store, shard, print: &print });
    for Place { layers, seed } in &places {
        let sites = SlotSet::with_roles(&["inner"], Some(layers.clone()));
        judged_at(&sites, *seed, |judge| comparison.at(judge, monitor)).expect("compares");
    }
    comparison.finish()
}

#[test]
fn runs_over_seeds_and_sets_of_layers_are_not_done_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::at(folder.path());
    let mut steps = Steps::default();
    let first = runs(&store, Shard::WHOLE, &mut steps);
    let step = "LR3-closed on layers [0, 1], seed 1 (11 of 12)";
    assert!(steps.0.iter().any(|own| own == step), "{:?}", steps.0);
    let Outcome::Complete(found) = &first else { panic!("it is no shard") };
    assert_eq!(found.cells.len(), 2 * 2 * 3, "seeds, sets of layers, rows");
    assert_eq!(found.dense.results[0].metrics[0].value, 0.0);
    let error = |name: &str, layers: &[usize]| {
        let is_it = |cell: &&linwright_compare::Cell<_, _>| {
            cell.name() == name && cell.place.as_ref().is_some_and(|place| place.layers == layers)
        };
        let figures = found.cells.iter().find(is_it).and_then(|cell| cell.found.figures());
        figures.expect("a cell").results[0].metrics[0].value
    };
    assert!(
        error("LR3-closed", &[0]) < error("LR1-closed", &[0]) && error("LR3-closed", &[0]) > 0.0
    );
    assert!(error("nothing", &[0]) > error("LR1-closed", &[0]));
    assert_ne!(error("LR1-closed", &[0]), error("LR1-closed", &[0, 1]), "more layers are replaced");
    // This trial scores no items, by which rows would be paired.
    assert!(found.has_runs() && found.pairs.is_empty());
    let mut again = Steps::default();
    assert_eq!(runs(&store, Shard::WHOLE, &mut again), first, "cells are taken from the store");
    assert_eq!(again.0, Vec::<String>::new());
}

#[test]
fn shards_share_the_cells_of_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::at(folder.path());
    let [one, two] = ["0/2", "1/2"].map(|shard| shard.parse::<Shard>().expect("a shard"));
    let Outcome::Part { known, total } = runs(&store, one, &mut Silent) else {
        panic!("a shard alone has no result")
    };
    assert_eq!((known, total), (6, 12));
    assert!(matches!(runs(&store, two, &mut Silent), Outcome::Complete(_)));
}

#[test]
fn the_first_within_a_budget_has_the_least_loss_and_keeps_no_more() {
    let store = Store::none();
    judged(|judge| {
        let print = Fingerprint::of(&[("toy", &2)]);
        let keep = 0.5;
        let loss = |method: &SlotMethod, monitor: &mut dyn Monitor| {
            let asked = Asked::at(method.clone(), Some(keep));
            let made = judge.make(&asked, FitTo::Training, monitor)?;
            let kept = made.parameters(judge.network()).keep();
            let scores = judge.scores(&made.edited.network, monitor)?;
            Ok::<_, TrialError>(HeldOut { kept, loss: scores[0].metrics[0].value })
        };
        let tried = methods(&["random", "svd", "low_rank"]);
        let found = within_budget(&tried, keep, &store, &print, &mut Silent, &loss);
        let found = found.expect("tries");
        let names: Vec<&str> = found.iter().map(|own| own.method.as_str()).collect();
        assert_eq!(names, ["low_rank", "svd", "random"]);
        assert!(found.iter().all(|own| own.reason.is_none()), "{found:?}");
        assert!(tried[0].is_control() && !tried[1].is_control());
    });
}
