//! Every cut of a grid, judged on the same task.
//!
//! Cells are judged on validation items, and the best one, with the model as it was, on test items
//! that nothing was chosen by: the first fifth of a data set and the rest, as in the paper. Best is
//! the highest figure, of equal ones that of the lower log loss, then the first of the grid. It is
//! called better than the model as it is only where the interval of the paired difference says so.
//!
//! Weights are decomposed once for all sizes; batches of text go through the model once, and each
//! cell goes on from the stage that it changes ([`Variants`]).

use super::edit::{cut_slot, key_of, weight_of};
use super::{
    ComponentStore, Cut, Decomposition, Done, Intervention, Kept, Lname, NestedRanks, Size,
    SlotSet, Variant, Variants, cut, vendi,
};
use crate::study::{StudyError, finished_cell};
use crate::{CompressError, FitError};
use linwright_evaluate::{
    Comparison, FileJournal, GroupResult, Hooks, Journal, Metric, RunOptions, Sample, Task,
    TaskResult, compare, evaluate_each,
};
use linwright_model::Transformer;
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_ops::{Op, Shape, SiteId, Sites};
use linwright_run::{Fingerprint, Monitor, RunDirectory, RunError, sha256_hex};
use linwright_tensor::linalg::Components;
use linwright_tensor::{Mat, RngKey};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::cell::{self, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Numbers of operators held at once; a grid beyond that is judged in groups.
const NUMBERS_AT_ONCE: usize = 1 << 28;

/// Which cuts are tried: every name in every layer at every size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// The paper's names of weights.
    pub lnames: Vec<Lname>,
    /// Layers, from zero, in order; all of them if none.
    #[serde(default)]
    pub layers: Option<Vec<usize>>,
    /// Whether the layers are cut together, as one cell, and not each by itself.
    #[serde(default)]
    pub together: bool,
    /// How much stays.
    pub sizes: Vec<Size>,
    /// What is taken away, and how; its own size is not read.
    pub cut: Cut,
}

/// What is cut together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The name.
    pub lname: Lname,
    /// Its layer, or none for all of the grid's together.
    pub layer: Option<usize>,
    /// The slots.
    pub sites: Vec<SiteId>,
}

/// What a model scores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The figures.
    pub metrics: Vec<Metric>,
    /// The figures of groups of items, such as bands of frequency.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupResult>,
    /// How it differs from the model as it is, item by item, where the task tells of its items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
}

/// A cut of a place, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was cut.
    pub place: Place,
    /// How much was to stay.
    pub size: Size,
    /// How much stays of each slot, in every unit.
    pub kept: Vec<Kept>,
    /// What the model scores then.
    pub score: Score,
}

/// What a sweep found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Swept {
    /// The grid.
    pub grid: Grid,
    /// The figure that cells compare by.
    pub objective: Objective,
    /// The model as it is, on the validation items.
    pub dense: TaskResult,
    /// The cells, in the order of the grid: names, layers, sizes.
    pub cells: Vec<Cell>,
    /// Index of the best cell.
    pub best: usize,
    /// Whether it is shown to be better than the model as it is: by the 95 % interval of the
    /// difference on test items or, where there are none, on validation items.
    pub is_better: bool,
    /// The best cell and the model as it is, on test items, if there are any.
    pub test: Option<Tested>,
}

/// What nothing was chosen by.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tested {
    /// The model as it is.
    pub dense: TaskResult,
    /// The model with the best cell.
    pub best: TaskResult,
    /// Their figures side by side.
    pub comparisons: Vec<Comparison>,
}

/// The figure that models compare by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objective {
    /// Its name.
    pub metric: String,
    /// Whether more is better.
    pub higher_is_better: bool,
}

impl Objective {
    /// The figure of this name of a result, or its first one.
    ///
    /// # Errors
    /// [`CompressError::Sweep`] if there is none.
    pub fn of(result: &TaskResult, name: Option<&str>) -> Result<Self, CompressError> {
        let found = match name {
            Some(name) => result.metrics.iter().find(|metric| metric.name == name),
            None => result.metrics.first(),
        };
        let found = found.ok_or_else(|| {
            let known: Vec<&str> =
                result.metrics.iter().map(|metric| metric.name.as_str()).collect();
            CompressError::Sweep {
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

    /// The figure, such that more is better.
    #[must_use]
    pub fn value(&self, score: &Score) -> f64 {
        let value = value(score, &self.metric).unwrap_or(f64::NAN);
        if self.higher_is_better { value } else { -value }
    }

    /// Whether a model is shown to be better than another one: the interval of the paired
    /// difference says so. It says nothing where a task does not tell of its items.
    #[must_use]
    pub fn is_shown_better(&self, comparisons: &[Comparison]) -> bool {
        let wanted = if self.higher_is_better { Ordering::Greater } else { Ordering::Less };
        self.of_metric(comparisons).is_some_and(|own| own.sign() == wanted)
    }

    /// The comparison by this figure.
    #[must_use]
    pub fn of_metric<'c>(&self, comparisons: &'c [Comparison]) -> Option<&'c Comparison> {
        comparisons.iter().find(|own| own.metric == self.metric)
    }

    /// Whether one score is better than another: by the figure, then by the log loss.
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

    /// Beside the model as it is.
    pub(super) fn beside(dense: &TaskResult, result: &TaskResult) -> Self {
        let comparisons = compare(std::slice::from_ref(result), std::slice::from_ref(dense));
        Self { comparisons, ..Self::of(result) }
    }
}

/// What a sweep or a composition works on.
pub struct Work<'a> {
    /// The model.
    pub model: &'a Transformer,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Identifies the model.
    pub model_hash: &'a str,
    /// What cells are chosen by.
    pub validation: &'a dyn Task,
    /// What the chosen one is judged by.
    pub test: Option<&'a dyn Task>,
    /// The figure to compare by; the task's first if none.
    pub metric: Option<&'a str>,
    /// Where components of weights are kept.
    pub store: &'a ComponentStore,
    /// Sizes of batches.
    pub run: RunOptions,
    /// Longest input in tokens; that of the model if none.
    pub max_length: Option<usize>,
    /// How a text becomes one vector, for tasks that compare texts.
    pub sentence: Option<Sentence>,
    /// Whether cells share what they have in common; without, all is the same and slower.
    pub shares: bool,
}

/// Where it is recorded what a cell has been judged by so far.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    /// The directory of the run.
    pub(super) directory: &'a RunDirectory,
    /// Identifies the cell.
    pub(super) print: &'a Fingerprint,
}

impl Work<'_> {
    /// Identifies a sweep of a grid, with all that its results depend on.
    #[must_use]
    pub fn fingerprint(&self, grid: &Grid) -> Fingerprint {
        self.fingerprint_of("sweep", grid)
    }

    /// As [`Self::fingerprint`], of what a command does with the grid.
    pub(super) fn fingerprint_of(&self, what: &str, grid: &Grid) -> Fingerprint {
        let asked = |task: &dyn Task| {
            let requests: Vec<String> = task
                .items()
                .iter()
                .flat_map(|item| item.requests.clone())
                .map(|r| format!("{r:?}"))
                .collect();
            format!(
                "{} {} {}",
                task.id(),
                task.bos().name(),
                sha256_hex(requests.join("\n").as_bytes())
            )
        };
        Fingerprint::of(&[
            ("version", &env!("CARGO_PKG_VERSION")),
            ("what", &what),
            ("model", &self.model_hash),
            ("grid", grid),
            ("validation", &asked(self.validation)),
            ("test", &self.test.map(asked)),
            ("metric", &self.metric),
            ("max_length", &self.max_length),
        ])
    }

    /// What `keep` makes of the results of variants on a task; what an earlier run that was stopped
    /// knows is not asked again.
    pub(super) fn judge<R>(
        &self,
        task: &dyn Task,
        variants: &[Variant],
        record: Record<'_>,
        monitor: &mut dyn Monitor,
        keep: impl FnMut(TaskResult) -> R,
    ) -> Result<Vec<R>, StudyError> {
        let Record { directory, print } = record;
        let path = directory.path().join(format!("{}.journal.jsonl", print.0));
        let mut journal =
            FileJournal::open(&path, &json!({"variants": variants.len(), "print": print.0}))?;
        let (shared, at) = (RefCell::new(monitor), cell::Cell::new((0u64, 0u64)));
        // Tokens of all variants: those of finished batches, and of this batch those of finished
        // variants.
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
        let results = evaluate_each(task, &asked, &self.run, &mut hooks, keep)?;
        std::fs::remove_file(&path)
            .map_err(|source| RunError::Io { path: path.clone(), source })?;
        Ok(results)
    }
}

/// The places of a grid in a model, in order.
///
/// # Errors
/// [`CompressError`]: an empty grid, no such slots or layers, options without sense.
pub fn places(grid: &Grid, model: &Transformer) -> Result<Vec<Place>, CompressError> {
    let empty = |what: &str| CompressError::Sweep { reason: format!("there are no {what} to try") };
    if grid.lnames.is_empty() || grid.sizes.is_empty() {
        return Err(empty(if grid.lnames.is_empty() { "names" } else { "sizes" }));
    }
    for size in &grid.sizes {
        let method = grid.cut.intervention.name().to_owned();
        Cut { size: *size, ..grid.cut }
            .check()
            .map_err(|reason| CompressError::Options { method, reason })?;
    }
    let layers = match &grid.layers {
        Some(layers) => layers.clone(),
        None => (0..model.config().layers.len()).collect(),
    };
    if layers.is_empty() {
        return Err(empty("layers"));
    }
    let mut found = Vec::new();
    for &lname in &grid.lnames {
        let sets = match grid.together {
            true => vec![(None, layers.clone())],
            false => layers.iter().map(|layer| (Some(*layer), vec![*layer])).collect(),
        };
        for (layer, layers) in sets {
            let sites = SlotSet::named(lname, Some(layers)).of(model)?;
            found.push(Place { lname, layer, sites });
        }
    }
    Ok(found)
}

/// The cuts of a place, with what stays of each of its slots.
pub(super) fn variants(
    place: &Place,
    grid: &Grid,
    model: &Transformer,
    store: &ComponentStore,
) -> Result<Vec<(Size, Vec<Kept>, Variant)>, CompressError> {
    let how = grid.cut;
    let is_nested = place.sites.len() == 1
        && how.intervention == Intervention::RankReduction
        && how.decomposition == Decomposition::Exact
        && !how.compat;
    if is_nested {
        return nested(&place.sites[0], grid, model, store);
    }
    let empty = |size: &Size| (*size, Vec::new(), Variant::default());
    let mut variants: Vec<_> = grid.sizes.iter().map(empty).collect();
    for site in &place.sites {
        let slot = model.slot(site).expect("a slot of the model");
        let first = Cut { size: grid.sizes[0], ..how };
        let needed = grid.sizes.iter().any(|size| Cut { size: *size, ..how }.needs_components());
        let weight = weight_of(slot)?;
        let components = needed.then(|| store.components(site, &weight)).transpose()?;
        let components = components.map(|(components, _)| components);
        let failed = |source| CompressError::Fit { site: site.clone(), source };
        let mut chosen = ChosenRows::default();
        for (size, kept, variant) in &mut variants {
            let how = Cut { size: *size, ..first };
            let done = match how.intervention {
                Intervention::Vendi => chosen.cut(&weight, &how, components.as_ref(), grid),
                _ => cut(&weight, &how, components.as_ref(), key_of(&how, site)),
            };
            let done = done.map_err(failed)?;
            kept.push(done.report.kept);
            variant.ops.push((site.clone(), done.op));
        }
    }
    Ok(variants)
}

/// The rows of a weight that `vendi` chooses, once for all sizes: those of a size are the first of
/// a larger one.
#[derive(Default)]
struct ChosenRows(Vec<usize>);

impl ChosenRows {
    fn cut(
        &mut self,
        weight: &Mat<f32>,
        how: &Cut,
        components: Option<&Components>,
        grid: &Grid,
    ) -> Result<Done, FitError> {
        let shape = Shape { out: weight.rows(), inp: weight.cols() };
        let values = components.map(|all| all.values.as_slice());
        let rank = |size: &Size| size.rank(shape, values);
        let own = rank(&how.size)?;
        if own == 0 {
            return cut(weight, &Cut::new(Intervention::Zero, how.size), None, RngKey::new(0));
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
    grid: &Grid,
    model: &Transformer,
    store: &ComponentStore,
) -> Result<Vec<(Size, Vec<Kept>, Variant)>, CompressError> {
    let slot = model.slot(site).expect("a slot of the model");
    let weight = weight_of(slot)?;
    let (components, _) = store.components(site, &weight)?;
    let values = components.values.clone();
    let shape = Shape { out: weight.rows(), inp: weight.cols() };
    let rank = |size: &Size| {
        size.rank(shape, Some(&values))
            .map_err(|source| CompressError::Fit { site: site.clone(), source })
    };
    let ranks: Vec<usize> = grid.sizes.iter().map(rank).collect::<Result<_, _>>()?;
    let mut rising: Vec<usize> = ranks.iter().copied().filter(|rank| *rank > 0).collect();
    rising.sort_unstable();
    rising.dedup();
    let nested = NestedRanks::all(components, &rising);
    let mut variants = Vec::with_capacity(ranks.len());
    for (size, rank) in grid.sizes.iter().zip(ranks) {
        let op = match rising.iter().position(|known| *known == rank) {
            Some(level) => Op::Linear(Box::new(nested[level].clone())),
            None => cut_slot(slot, &Cut { size: Size::Rate(10.0), ..grid.cut }, store)?.op,
        };
        let kept = vec![Kept::of_rank(rank, shape, Some(&values))];
        variants.push((
            *size,
            kept,
            Variant { ops: vec![(site.clone(), op)], ..Variant::default() },
        ));
    }
    Ok(variants)
}

/// Judges every cell of a grid. Finished parts are in the directory: the same call goes on there.
///
/// # Errors
/// [`StudyError`].
pub fn sweep(
    work: &Work<'_>,
    grid: &Grid,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<Swept, StudyError> {
    let places = places(grid, work.model)?;
    let dense = dense(work, work.validation, directory, monitor)?;
    let objective = Objective::of(&dense, work.metric)?;
    let mut cells: Vec<Cell> = Vec::new();
    let per_place = grid.sizes.len();
    for (index, group) in grouped(&places, work.model).into_iter().enumerate() {
        let print = Fingerprint::of(&[("group", &group), ("index", &index)]);
        let found = finished_cell(directory, &print, || {
            judge_group(work, grid, group, &dense, Record { directory, print: &print }, monitor)
        })?;
        monitor.stage(&format!(
            "{} of {} cells",
            cells.len() + found.len(),
            places.len() * per_place
        ));
        cells.extend::<Vec<Cell>>(found);
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
    Ok(Swept { grid: grid.clone(), objective, dense, cells, best, is_better, test })
}

/// The model as it is.
pub(super) fn dense(
    work: &Work<'_>,
    task: &dyn Task,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<TaskResult, StudyError> {
    let print = Fingerprint::of(&[("dense", &task.id())]);
    let AsItIs { mut result, items } = finished_cell(directory, &print, || {
        monitor.stage("the model as it is");
        let variants = [Variant::default()];
        let record = Record { directory, print: &print };
        let found = work.judge(task, &variants, record, monitor, |result| result)?;
        let result: TaskResult = found.into_iter().next().expect("one result for one model");
        let items = result.samples.iter().map(|s| (s.filter.clone(), s.numbers.clone())).collect();
        Ok(AsItIs { result, items })
    })?;
    let sample = |(filter, numbers)| Sample { filter, numbers, ..Sample::default() };
    result.samples = items.into_iter().map(sample).collect();
    Ok(result)
}

/// The model as it is, with the figures of its items, by which cells compare.
#[derive(Serialize, Deserialize)]
struct AsItIs {
    result: TaskResult,
    /// Filter and figures of each.
    items: Vec<(String, BTreeMap<String, f64>)>,
}

/// Places whose operators fit into memory together, in order.
fn grouped<'p>(places: &'p [Place], model: &Transformer) -> Vec<&'p [Place]> {
    let numbers = |place: &Place| -> usize {
        let of = |site: &SiteId| {
            let shape = model.slot(site).expect("a slot of the model").shape();
            (shape.out + shape.inp) * shape.out.min(shape.inp)
        };
        place.sites.iter().map(of).sum()
    };
    let (mut groups, mut start, mut held) = (Vec::new(), 0, 0);
    for (index, place) in places.iter().enumerate() {
        let own = numbers(place);
        if index > start && held + own > NUMBERS_AT_ONCE {
            groups.push(&places[start..index]);
            (start, held) = (index, 0);
        }
        held += own;
    }
    groups.push(&places[start..]);
    groups
}

fn judge_group(
    work: &Work<'_>,
    grid: &Grid,
    group: &[Place],
    dense: &TaskResult,
    record: Record<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Vec<Cell>, StudyError> {
    let (mut cells, mut edits) = (Vec::new(), Vec::new());
    for (index, place) in group.iter().enumerate() {
        if monitor.interrupted() {
            return Err(CompressError::Interrupted.into());
        }
        let layer = place.layer.map_or("all layers".to_owned(), |layer| format!("layer {layer}"));
        monitor.stage(&format!("{layer}: cutting {}", place.lname.name()));
        monitor.progress(index as u64, group.len() as u64);
        for (size, kept, variant) in variants(place, grid, work.model, work.store)? {
            cells.push((place.clone(), size, kept));
            edits.push(variant);
        }
    }
    monitor.stage(&format!("judging {} cells", edits.len()));
    let score = |result| Score::beside(dense, &result);
    let found = work.judge(work.validation, &edits, record, monitor, score)?;
    let cell = |((place, size, kept), score): ((Place, Size, Vec<Kept>), Score)| Cell {
        place,
        size,
        kept,
        score,
    };
    Ok(cells.into_iter().zip(found).map(cell).collect())
}

/// The best cell and the model as it is, on what nothing was chosen by.
fn tested(
    work: &Work<'_>,
    test: &dyn Task,
    grid: &Grid,
    best: &Cell,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<Tested, StudyError> {
    let print = Fingerprint::of(&[("test", best)]);
    finished_cell(directory, &print, || {
        monitor.stage("the best cell on the test items");
        let one = Grid { sizes: vec![best.size], ..grid.clone() };
        let mut best_edit = variants(&best.place, &one, work.model, work.store)?;
        let edited = best_edit.swap_remove(0).2;
        tested_variant(work, test, edited, Record { directory, print: &print }, monitor)
    })
}

/// A variant and the model as it is, on test items.
pub(super) fn tested_variant(
    work: &Work<'_>,
    test: &dyn Task,
    edited: Variant,
    record: Record<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Tested, StudyError> {
    let both = [Variant::default(), edited];
    let mut found = work.judge(test, &both, record, monitor, |result| result)?;
    let (best, dense) = (found.pop(), found.pop());
    let (best, dense) =
        (best.expect("a result for each model"), dense.expect("a result for each model"));
    let comparisons = compare(std::slice::from_ref(&best), std::slice::from_ref(&dense));
    Ok(Tested { dense, best, comparisons })
}
