//! Comparisons of methods on a network that they do not know.

use linwright_compare::{
    Compared, Found, HeldOut, Judge, Pieces, SlotMethod, Slots, Way, compare, within_budget,
};
use linwright_compress::{Edit, FitTo, Plan, SlotSet};
use linwright_ops::Sites;
use linwright_run::{Fingerprint, Monitor, Shard, Silent, Store};
use linwright_study::{
    ExamplesOf, Metric, Outcome, PassMacs, PassSpeed, StudyError, TaskResult, Trial, TrialJudge,
};
use linwright_tensor::RngKey;
use linwright_tensor::dtype::DType;
use linwright_toy::{Batches, Toy};

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

    fn examples(&self, _seed: u64) -> Result<Box<ExamplesOf<Self>>, StudyError> {
        Ok(Box::new(self.batches.clone()))
    }

    fn scores(&self, network: &Toy, _: &mut dyn Monitor) -> Result<Vec<TaskResult>, StudyError> {
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
    let (network, batches) = (Toy::new(RngKey::new(1)), Batches::random(5, RngKey::new(2)));
    let trial = Distance { network, batches };
    let examples = trial.examples(0).expect("has batches");
    let (sites, fits) = (SlotSet::default(), Store::none());
    let plan_of = |edit: Edit| Plan { seed: 3, edits: vec![edit] };
    let slots = Slots {
        network: &trial.network,
        hash: "toy",
        sites: &sites,
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

#[test]
fn the_first_within_a_budget_has_the_least_loss_and_keeps_no_more() {
    let store = Store::none();
    judged(|judge| {
        let print = Fingerprint::of(&[("toy", &2)]);
        let keep = 0.5;
        let loss = |method: &SlotMethod, monitor: &mut dyn Monitor| {
            let made = judge.make(method, Some(keep), FitTo::Training, monitor)?;
            let kept = made.parameters(judge.network()).keep();
            let scores = judge.scores(&made.edited.network, monitor)?;
            Ok::<_, StudyError>(HeldOut { kept, loss: scores[0].metrics[0].value })
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
