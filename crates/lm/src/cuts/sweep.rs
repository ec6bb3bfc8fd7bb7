//! Sweeps: every cut of a grid, evaluated on the same task.
//!
//! Cells are evaluated on validation items, and the best one and the dense model on separate test
//! items: the first fifth of a data set and the rest, as in the paper. The best cell has the
//! highest score; ties go to the lower log loss, then to grid order. It counts as better than the
//! dense model only if the confidence interval of the paired difference excludes zero.
//!
//! Weights are decomposed once for all sizes. Batches of text run through the model once, and each
//! cell continues from the stage that it changes ([`Variants`]).

use crate::LmError;
use crate::cuts::grid::{Grid, Place, places};
use crate::cuts::{Variant, Variants};
use crate::pieces::{CELL, finished_cell};
use linwright_compress::intervention::Cuttable;
use linwright_compress::intervention::components_of;
use linwright_compress::intervention::{
    Decomposition, Done, Intervention, Kept, NestedRanks, cut, vendi,
};
use linwright_compress::intervention::{key_of, weight_of};
use linwright_compress::methods::LaserMethod;
use linwright_compress::{CompressError, FitError, Size};
use linwright_evaluate::{
    Comparison, FileJournal, GroupComparisons, GroupResult, Hooks, Journal, Metric, Outcome,
    RunOptions, Sample, Task, TaskResult, compare, compare_groups, evaluate_each, requests_digest,
};
use linwright_model::Transformer;
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_ops::{Dense, LinearSlot, Op, Shape, SiteId, Sites};
use linwright_run::{Fingerprint, Monitor, RunDirectory, RunError, Shard, Store};
use linwright_tensor::linalg::Components;
use linwright_tensor::{Mat, RngKey, parallel};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::cell::{self, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Largest number of parameters of operators in memory; larger grids are evaluated in groups.
const NUMBERS_AT_ONCE: usize = 1 << 28;

/// Scores of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Metrics.
    pub metrics: Vec<Metric>,
    /// Metrics of groups of items, such as frequency bands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupResult>,
    /// Paired differences from the dense model, if the task lists its items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
}

/// An evaluated cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The slots.
    pub place: Place,
    /// Requested size.
    pub size: Size,
    /// Kept part of each slot, in every unit.
    pub kept: Vec<Kept>,
    /// Score of the model with the cut.
    pub score: Score,
}

/// Result of a sweep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Swept {
    /// The grid.
    pub grid: Grid,
    /// The metric for comparisons.
    pub objective: Objective,
    /// Result of the dense model on validation items.
    pub dense: TaskResult,
    /// Cells in grid order: names, layers, sizes.
    pub cells: Vec<Cell>,
    /// Index of the best cell.
    pub best: usize,
    /// Whether the best cell is significantly better than the dense model: by the 95 % interval of
    /// the difference on test items or, if there are none, on validation items.
    pub is_better: bool,
    /// Results of the best cell and the dense model on test items, if there are any.
    pub test: Option<Tested>,
}

/// Results on test items, which selected nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tested {
    /// The dense model.
    pub dense: TaskResult,
    /// The selected model.
    pub best: TaskResult,
    /// Their paired differences.
    pub comparisons: Vec<Comparison>,
    /// The same for groups of items, such as frequency bands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupComparisons>,
}

/// The metric that models are compared by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objective {
    /// Its name.
    pub metric: String,
    /// Whether higher is better.
    pub higher_is_better: bool,
}

impl Objective {
    /// The metric with this name in a result, or its first one.
    ///
    /// # Errors
    /// [`LmError::Sweep`] if there is no such metric.
    pub fn of(result: &TaskResult, name: Option<&str>) -> Result<Self, LmError> {
        let found = match name {
            Some(name) => result.metrics.iter().find(|metric| metric.name == name),
            None => result.metrics.first(),
        };
        let found = found.ok_or_else(|| {
            let known: Vec<&str> =
                result.metrics.iter().map(|metric| metric.name.as_str()).collect();
            LmError::Sweep {
                reason: format!(
                    "{} has no metric {}; it has {}",
                    result.task,
                    name.unwrap_or_default(),
                    known.join(", ")
                ),
            }
        })?;
        Ok(Self { metric: found.name.clone(), higher_is_better: found.higher_is_better })
    }

    /// Value of the metric, negated if lower is better.
    #[must_use]
    pub fn value(&self, score: &Score) -> f64 {
        let value = value(score, &self.metric).unwrap_or(f64::NAN);
        if self.higher_is_better { value } else { -value }
    }

    /// Whether a model is significantly better than another: the interval of the paired difference
    /// is above zero. `false` if the task does not list its items.
    #[must_use]
    pub fn is_shown_better(&self, comparisons: &[Comparison]) -> bool {
        let wanted = if self.higher_is_better { Ordering::Greater } else { Ordering::Less };
        self.of_metric(comparisons).is_some_and(|own| own.sign() == wanted)
    }

    /// The comparison in this metric.
    #[must_use]
    pub fn of_metric<'c>(&self, comparisons: &'c [Comparison]) -> Option<&'c Comparison> {
        comparisons.iter().find(|own| own.metric == self.metric)
    }

    /// Whether one score is better than another: by the metric, then by the log loss.
    #[must_use]
    pub fn is_better(&self, one: &Score, other: &Score) -> bool {
        let (a, b) = (self.value(one), self.value(other));
        let loss = |score: &Score| value(score, "log_loss").unwrap_or(0.0);
        a > b || (a == b && loss(one) < loss(other))
    }
}

fn value(score: &Score, name: &str) -> Option<f64> {
    score.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
}

impl Score {
    pub(super) fn of(result: &TaskResult) -> Self {
        let (metrics, groups) = (result.metrics.clone(), result.groups.clone());
        Self { metrics, groups, comparisons: Vec::new() }
    }

    /// A score with paired differences from the dense model.
    pub(super) fn beside(dense: &TaskResult, result: &TaskResult) -> Self {
        let comparisons = compare(std::slice::from_ref(result), std::slice::from_ref(dense));
        Self { comparisons, ..Self::of(result) }
    }
}

/// Model, tasks and options of a sweep or composition.
pub struct Work<'a> {
    /// The model.
    pub model: &'a Transformer,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Hash of the model.
    pub model_hash: &'a str,
    /// Task for the selection of cells.
    pub validation: &'a dyn Task,
    /// Task for the test of the selected cell.
    pub test: Option<&'a dyn Task>,
    /// The metric for comparisons; by default the task's first.
    pub metric: Option<&'a str>,
    /// Store of singular components and other finished pieces.
    pub store: &'a Store,
    /// Batching options.
    pub run: RunOptions,
    /// Longest input in tokens; by default that of the model.
    pub max_length: Option<usize>,
    /// Pooling of text embeddings, for tasks that compare texts.
    pub sentence: Option<&'a Sentence>,
    /// Whether cells share computations; the result is the same without.
    pub shares: bool,
}

/// Record of the evaluation of cells so far.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    /// The directory of the run.
    pub(super) directory: &'a RunDirectory,
    /// Identifies the cell.
    pub(super) print: &'a Fingerprint,
}

impl Work<'_> {
    /// Identifies a sweep by everything that its results depend on.
    #[must_use]
    pub fn fingerprint(&self, grid: &Grid) -> Fingerprint {
        self.fingerprint_of("sweep", grid)
    }

    /// As [`Self::fingerprint`], with the name of the command.
    pub(super) fn fingerprint_of(&self, what: &str, grid: &Grid) -> Fingerprint {
        let asked =
            |task: &dyn Task| [task.id(), task.bos().name().to_owned(), requests_digest(task)];
        Fingerprint::of(&[
            ("version", &env!("CARGO_PKG_VERSION")),
            ("what", &what),
            ("model", &self.model_hash),
            ("grid", grid),
            ("validation", &asked(self.validation)),
            ("test", &self.test.map(asked)),
            ("metric", &self.metric),
            ("max_length", &self.max_length),
            ("max_batch_tokens", &self.run.max_batch_tokens),
        ])
    }

    /// Evaluates variants on a task and returns the value of `keep` for each result. Responses of
    /// an earlier, interrupted run are read from its journal.
    pub(super) fn evaluate<R>(
        &self,
        task: &dyn Task,
        variants: &[Variant],
        record: Record<'_>,
        monitor: &mut dyn Monitor,
        mut keep: impl FnMut(TaskResult) -> R,
    ) -> Result<Vec<R>, LmError> {
        let Record { directory, print } = record;
        let path = directory.path().join(format!("{}.journal.jsonl", print.0));
        // Behind the unedited model, others are compared with it token by token.
        let divergence = variants.len() > 1 && variants[0].ops.is_empty();
        let made_by = json!({
            "variants": variants.len(),
            "divergence": divergence,
            "print": print.0,
            "instruction_set": parallel::instruction_set(),
        });
        let mut journal = FileJournal::open(&path, &made_by)?;
        journal.damages().iter().for_each(|damage| monitor.note(&format!("note: {damage}")));
        let (shared, at) = (RefCell::new(monitor), cell::Cell::new((0u64, 0u64)));
        // Progress counts the tokens of all variants: those of finished batches, and in this batch
        // those of finished variants.
        let all = variants.len() as u64;
        let go_on = |done: usize| {
            let (tokens, total) = at.get();
            let batch = (self.run.max_batch_tokens as u64).min(total.saturating_sub(tokens));
            shared.borrow_mut().progress(tokens * all + batch * done as u64, total.max(1) * all);
            !shared.borrow().interrupted()
        };
        let asked = Variants::new(self.model, self.tokenizer, variants, self.max_length)
            .with_sentence(self.sentence)
            .with_cancellation(&go_on);
        let asked = if self.shares { asked } else { asked.without_sharing() };
        let mut hooks = Hooks {
            progress: &mut |p| at.set((p.done_tokens, p.total_tokens)),
            cancelled: &|| shared.borrow().interrupted(),
            journal: Some(&mut journal as &mut dyn Journal),
        };
        // Cells are divided over shards, not the batches of one.
        let run = RunOptions { shard: Shard::WHOLE, divergence, ..self.run };
        let (mut overflow, mut judged) = (None, 0);
        let checked = |result: TaskResult| {
            let sites = variants[judged].ops.iter().map(|(site, _)| site);
            overflow = overflow.take().or_else(|| Some(result.check_finite().err()?.with(sites)));
            judged += 1;
            keep(result)
        };
        let results = evaluate_each(task, &asked, &run, &mut hooks, checked)?.complete()?;
        std::fs::remove_file(&path)
            .map_err(|source| RunError::Io { path: path.clone(), source })?;
        match overflow {
            Some(error) => Err(error.into()),
            None => Ok(results),
        }
    }
}

/// The cuts of a place, with the kept part of each slot.
pub(super) fn variants(
    place: &Place,
    grid: &Grid,
    model: &Transformer,
    store: &Store,
) -> Result<Vec<(Size, Vec<Kept>, Variant)>, LmError> {
    let how = place.weights.cut_by(grid.method);
    let is_nested = place.sites.len() == 1
        && how.intervention == Intervention::RankReduction
        && how.decomposition == Decomposition::Exact
        && !how.compat;
    if is_nested {
        return nested(&place.sites[0], &how, grid, model, store);
    }
    let empty = |size: &Size| (*size, Vec::new(), Variant::default());
    let mut variants: Vec<_> = grid.sizes.iter().map(empty).collect();
    for site in &place.sites {
        let slot = model.slot(site).expect("a slot of the model");
        let cuttable = cuttable_of(slot, &how, model)?;
        let weight = &cuttable.weight;
        let needed = grid.sizes.iter().any(|size| how.reads_components(*size));
        let components = needed.then(|| components_of(store, site, weight)).transpose()?;
        let failed = |source| CompressError::Fit { site: site.clone(), source };
        let mut chosen = ChosenRows::default();
        for (size, kept, variant) in &mut variants {
            let components = components.as_ref();
            let done = if how.intervention == Intervention::Vendi {
                chosen.cut(weight, *size, components, grid)
            } else {
                cut(weight, &how, *size, components, key_of(grid.seed, &how, site))
            };
            let done = done.map_err(failed)?;
            kept.push(done.report.kept);
            variant.ops.push((site.clone(), cuttable.in_slot(slot, done.op)));
        }
    }
    Ok(variants)
}

/// The weight of a slot, or the part of it that a method cuts.
fn cuttable_of(
    slot: &LinearSlot,
    how: &LaserMethod,
    model: &Transformer,
) -> Result<Cuttable, LmError> {
    let rows = how.part.map(|part| part.rows(model, slot.id())).transpose()?;
    Ok(Cuttable::new(weight_of(slot)?, rows.as_deref()))
}

/// Rows of a weight selected by `vendi`, once for all sizes: a smaller selection is a prefix of a
/// larger one.
#[derive(Default)]
struct ChosenRows(Vec<usize>);

impl ChosenRows {
    fn cut(
        &mut self,
        weight: &Mat<f32>,
        size: Size,
        components: Option<&Components>,
        grid: &Grid,
    ) -> Result<Done, FitError> {
        let shape = Shape { out: weight.rows(), inp: weight.cols() };
        let values = components.map(|all| all.values.as_slice());
        let rank = |size: &Size| size.rank(shape, values);
        let (own, how) = (rank(&size)?, &grid.method);
        if own == 0 {
            let zero = LaserMethod::new(Intervention::Zero);
            return cut(weight, &zero, size, None, RngKey::new(0));
        }
        if self.0.is_empty() {
            let ranks: Vec<usize> = grid.sizes.iter().map(rank).collect::<Result<_, _>>()?;
            let largest = ranks.into_iter().max().unwrap_or(own);
            self.0 = vendi::rows(weight, largest, how)?;
        }
        vendi::by_rows(weight, &self.0[..own], how, Kept::of_rank(own, shape, values))
    }
}

/// All ranks of one slot from one decomposition.
fn nested(
    site: &SiteId,
    how: &LaserMethod,
    grid: &Grid,
    model: &Transformer,
    store: &Store,
) -> Result<Vec<(Size, Vec<Kept>, Variant)>, LmError> {
    let failed = |source| CompressError::Fit { site: site.clone(), source };
    let slot = model.slot(site).expect("a slot of the model");
    let cuttable = cuttable_of(slot, how, model)?;
    let weight = &cuttable.weight;
    let components = components_of(store, site, weight)?;
    let values = components.values.clone();
    let shape = Shape { out: weight.rows(), inp: weight.cols() };
    let rank = |size: &Size| size.rank(shape, Some(&values)).map_err(failed);
    let ranks: Vec<usize> = grid.sizes.iter().map(rank).collect::<Result<_, _>>()?;
    let mut rising: Vec<usize> = ranks.iter().copied().filter(|rank| *rank > 0).collect();
    rising.sort_unstable();
    rising.dedup();
    let nested = NestedRanks::all(components, &rising);
    let zero = || Op::Linear(Box::new(Dense::new(Mat::zeros(shape.out, shape.inp))));
    let mut variants = Vec::with_capacity(ranks.len());
    for (size, rank) in grid.sizes.iter().zip(ranks) {
        let op = match rising.iter().position(|known| *known == rank) {
            Some(level) => Op::Linear(Box::new(nested[level].clone())),
            None => zero(),
        };
        let op = cuttable.in_slot(slot, op);
        let kept = vec![Kept::of_rank(rank, shape, Some(&values))];
        variants.push((
            *size,
            kept,
            Variant { ops: vec![(site.clone(), op)], ..Variant::default() },
        ));
    }
    Ok(variants)
}

/// Evaluates every cell of a grid, or those of the places of a shard. Finished parts are read from
/// the directory.
///
/// # Errors
/// [`LmError`].
pub fn sweep(
    work: &Work<'_>,
    grid: &Grid,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<Outcome<Swept>, LmError> {
    let places = places(grid, work.model)?;
    let dense = dense(work, work.validation, directory, monitor)?;
    let objective = Objective::of(&dense, work.metric)?;
    let mut known = known_cells(&places, directory)?;
    let shard = work.run.shard;
    let is_open = |index: &usize| known[*index].is_none() && shard.owns(*index);
    let open: Vec<usize> = (0..places.len()).filter(is_open).collect();
    for group in grouped(&open, &places, work.model) {
        let chosen: Vec<&Place> = group.iter().map(|index| &places[*index]).collect();
        let print = Fingerprint::of(&[("group", &chosen)]);
        let record = Record { directory, print: &print };
        let mut found = evaluate_group(work, grid, &chosen, &dense, record, monitor)?.into_iter();
        for index in group {
            let cells: Vec<Cell> = found.by_ref().take(grid.sizes.len()).collect();
            let print = print_of(&places[index]);
            known[index] = Some(finished_cell(directory, &print, || Ok(cells))?);
        }
        let done = known.iter().flatten().flatten().count();
        let all = places.len() * grid.sizes.len();
        monitor.step(&format!("{done} of {all} cells"));
        monitor.whole(done as f64 / all as f64);
    }
    let (known_places, total) = (known.iter().flatten().count(), places.len());
    if known_places < total {
        return Ok(Outcome::Part { known: known_places, total });
    }
    let cells: Vec<Cell> = known.into_iter().flatten().flatten().collect();
    let expected = total * grid.sizes.len();
    if cells.len() != expected || cells.is_empty() {
        let reason = format!("has pieces with {} cells, expected {expected}", cells.len());
        return Err(RunError::Unusable { path: directory.path().to_owned(), reason }.into());
    }
    let mut best = 0;
    for (index, cell) in cells.iter().enumerate() {
        if objective.is_better(&cell.score, &cells[best].score) {
            best = index;
        }
    }
    let test = work.test.map(|test| tested(work, test, grid, &cells[best], directory, monitor));
    let test = test.transpose()?;
    let shown = test.as_ref().map_or(&cells[best].score.comparisons, |test| &test.comparisons);
    let is_better = objective.is_shown_better(shown);
    let grid = grid.clone();
    Ok(Outcome::Complete(Swept { grid, objective, dense, cells, best, is_better, test }))
}

/// Identifies the cells of a place in the directory of a sweep.
fn print_of(place: &Place) -> Fingerprint {
    Fingerprint::of(&[("place", place)])
}

/// The cells of each place that are finished.
fn known_cells(
    places: &[Place],
    directory: &RunDirectory,
) -> Result<Vec<Option<Vec<Cell>>>, LmError> {
    let stored = |place: &Place| directory.stored(CELL, &print_of(place)).map_err(Into::into);
    places.iter().map(stored).collect()
}

/// Evaluates the dense model.
pub(super) fn dense(
    work: &Work<'_>,
    task: &dyn Task,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<TaskResult, LmError> {
    let print = Fingerprint::of(&[("dense", &task.id())]);
    let DenseScores { mut result, items } = finished_cell(directory, &print, || {
        monitor.step("the model as it is");
        let variants = [Variant::default()];
        let record = Record { directory, print: &print };
        let found = work.evaluate(task, &variants, record, monitor, |result| result)?;
        let result: TaskResult = found.into_iter().next().expect("one result for one model");
        let items = result.samples.iter().map(|s| (s.filter.clone(), s.numbers.clone())).collect();
        Ok(DenseScores { result, items })
    })?;
    let sample = |(filter, numbers)| Sample { filter, numbers, ..Sample::default() };
    result.samples = items.into_iter().map(sample).collect();
    Ok(result)
}

/// Scores of the dense model by item, for comparisons.
#[derive(Serialize, Deserialize)]
struct DenseScores {
    result: TaskResult,
    /// Filter and scores of each item.
    items: Vec<(String, BTreeMap<String, f64>)>,
}

/// Groups of places, by index, whose operators fit in memory together, in order.
fn grouped(open: &[usize], places: &[Place], model: &Transformer) -> Vec<Vec<usize>> {
    let numbers = |place: &Place| -> usize {
        let of = |site: &SiteId| {
            let shape = model.slot(site).expect("a slot of the model").shape();
            (shape.out + shape.inp) * shape.out.min(shape.inp)
        };
        place.sites.iter().map(of).sum()
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut held = 0;
    for &index in open {
        let own = numbers(&places[index]);
        match groups.last_mut() {
            Some(group) if held + own <= NUMBERS_AT_ONCE => {
                group.push(index);
                held += own;
            }
            _ => {
                groups.push(vec![index]);
                held = own;
            }
        }
    }
    groups
}

fn evaluate_group(
    work: &Work<'_>,
    grid: &Grid,
    group: &[&Place],
    dense: &TaskResult,
    record: Record<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Vec<Cell>, LmError> {
    let (mut cells, mut edits) = (Vec::new(), Vec::new());
    for (index, place) in group.iter().enumerate() {
        if monitor.interrupted() {
            return Err(CompressError::Interrupted.into());
        }
        monitor.step(&format!("{}: cutting {}", place.layer_name(), place.weights.name()));
        monitor.progress(index as u64, group.len() as u64);
        for (size, kept, variant) in variants(place, grid, work.model, work.store)? {
            cells.push(((*place).clone(), size, kept));
            edits.push(variant);
        }
    }
    monitor.step(&format!("judging {} cells", edits.len()));
    let score = |result| Score::beside(dense, &result);
    let found = work.evaluate(work.validation, &edits, record, monitor, score)?;
    let cell = |((place, size, kept), score): ((Place, Size, Vec<Kept>), Score)| Cell {
        place,
        size,
        kept,
        score,
    };
    Ok(cells.into_iter().zip(found).map(cell).collect())
}

/// Evaluates the best cell and the dense model on test items.
fn tested(
    work: &Work<'_>,
    test: &dyn Task,
    grid: &Grid,
    best: &Cell,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<Tested, LmError> {
    let print = Fingerprint::of(&[("test", best)]);
    finished_cell(directory, &print, || {
        monitor.step("the best cell on the test items");
        let one = Grid { sizes: vec![best.size], ..grid.clone() };
        let mut best_edit = variants(&best.place, &one, work.model, work.store)?;
        let edited = best_edit.swap_remove(0).2;
        tested_variant(work, test, edited, Record { directory, print: &print }, monitor)
    })
}

/// Evaluates a variant and the dense model on test items.
pub(super) fn tested_variant(
    work: &Work<'_>,
    test: &dyn Task,
    edited: Variant,
    record: Record<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Tested, LmError> {
    let both = [Variant::default(), edited];
    let mut found = work.evaluate(test, &both, record, monitor, |result| result)?;
    let (best, dense) = (found.pop(), found.pop());
    let (best, dense) =
        (best.expect("a result for each model"), dense.expect("a result for each model"));
    let (own, other) = (std::slice::from_ref(&best), std::slice::from_ref(&dense));
    let (comparisons, groups) = (compare(own, other), compare_groups(own, other));
    Ok(Tested { dense, best, comparisons, groups })
}
