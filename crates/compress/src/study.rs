//! Studies: all rows of all tables of a recipe, on one model, in one run directory.
//!
//! A **cell** is one method on one set of layers with one seed: edits, then all tasks. Each
//! finished cell is a file in the run directory, keyed by everything it depends on, and so is each
//! fit; nested sets of layers share the fits of their common prefix. The same recipe resumes where
//! it stopped; another recipe in the same directory is an error.

use crate::methods::FitReport;
use crate::pipeline::{Context, Edited, SiteOutcome, apply};
use crate::plan::Plan;
use crate::recipe::{Recipe, Row as RecipeRow, Table};
use crate::{CompressError, times};
use linwright_measure::calibration::{Calibration, Split};
use linwright_measure::capture::CaptureError;
use linwright_run::{Fingerprint, Monitor, PieceKey, RunDirectory, RunError, Shard};
use linwright_tensor::{RngKey, parallel};

pub use crate::estimate::estimate;
use crate::report::{Curve, LayerError, MacCounts, Row, SiteSpeed};
use linwright_data::{CalibrationText, Corpus, Overlap};
use linwright_evaluate as evaluate;
use linwright_evaluate::{
    EvaluationError, Hooks, Outcome, ParameterCounts, Progress, RunOptions, Subject, Task,
    TaskResult, overlap,
};
use linwright_measure::timing::time_beside;
use linwright_model::Transformer;
use linwright_model::checkpoint::LoadedModel;
use linwright_model::tokenizer::Tokenizer;
use linwright_ops::{LinearSlot, Op, Sites};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// Rows for timing replaced sites: a window of text.
const TIMED_ROWS: usize = 256;
/// Step between tokens of a window without text; a prime, so that they differ.
const TOKEN_STEP: usize = 7919;
/// Rounds of timing, whose median is reported.
const TIMED_ROUNDS: usize = 11;

/// Inputs of a study.
pub struct Inputs<'a> {
    /// The original model.
    pub model: &'a LoadedModel,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Calibration text.
    pub calibration: &'a Corpus,
    /// Tasks of the evaluation.
    pub tasks: &'a [Box<dyn Task>],
}

/// Results of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Results of the dense model.
    pub baseline: Vec<TaskResult>,
    /// One entry per cell.
    pub rows: Vec<Row>,
    /// Training curves.
    pub curves: Vec<Curve>,
    /// Fit errors of sites.
    pub layer_errors: Vec<LayerError>,
}

/// A study that cannot finish.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// An error in editing.
    #[error(transparent)]
    Compress(#[from] CompressError),
    /// Unusable calibration text.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// An error in the evaluation.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// An unusable run directory.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A finished cell, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    row: Row,
    sites: Vec<SiteOutcome>,
}

/// Identifies a run: recipe, model, calibration text and task data.
#[must_use]
pub fn fingerprint(recipe: &Recipe, inputs: &Inputs<'_>, data: &[String]) -> Fingerprint {
    Fingerprint::of(&[
        ("version", &env!("CARGO_PKG_VERSION")),
        ("recipe", recipe),
        ("model", &inputs.model.hash),
        ("calibration", &inputs.calibration.sha256),
        ("data", &data),
    ])
}

/// Checks all sets of layers and all sizes of a recipe against a model, before any work.
///
/// # Errors
/// As [`Plan::sites`].
pub fn check(recipe: &Recipe, model: &Transformer) -> Result<(), CompressError> {
    for table in &recipe.tables {
        for row in &table.methods {
            for layers in &table.layers {
                table.plan(row, layers, 0).sites(model)?;
            }
        }
    }
    Ok(())
}

/// Calibration windows of a seed: documents in an order drawn with it, encoded and divided.
///
/// # Errors
/// [`CaptureError`] if a document cannot be encoded, there is too little text, or a window is too
/// long for the model.
pub fn calibrate(
    recipe: &Recipe,
    inputs: &Inputs<'_>,
    seed: u64,
) -> Result<Calibration, StudyError> {
    let source = &recipe.calibration;
    let mut order: Vec<usize> = (0..inputs.calibration.documents.len()).collect();
    RngKey::new(seed).fold("calibration documents").stream().shuffle(&mut order);
    let documents = order.into_iter().map(|index| &inputs.calibration.documents[index]);
    let calibration = Calibration::encode(
        documents.map(|document| (document.line, document.text.as_str())),
        inputs.tokenizer,
        source.bos,
        source.seq_len,
        source.num_tokens,
        source.split,
    )?;
    calibration.check_positions(inputs.model.decoder.config().max_positions)?;
    Ok(calibration)
}

/// Removes items that overlap with the calibration text from the tasks, if the recipe says so;
/// returns notes for the report.
///
/// # Errors
/// If a task has no items left.
pub fn leave_out_overlap(
    recipe: &Recipe,
    calibration: &Corpus,
    tasks: &mut [Box<dyn Task>],
) -> Result<Vec<String>, StudyError> {
    let mut notes = Vec::new();
    if !recipe.eval.exclude_overlap {
        return Ok(notes);
    }
    let calibration = CalibrationText::new(std::slice::from_ref(calibration));
    for task in tasks {
        let Overlap { task, words, documents, overlapping, .. } =
            evaluate::leave_out_overlap(task.as_mut(), &calibration)?;
        if overlapping > 0 {
            notes.push(format!(
                "{} of {documents} documents of task {task} are scored; the other {overlapping} are left out, since they have \
                 {words} words in a row, or all of theirs, in common with the calibration text",
                documents - overlapping
            ));
        }
    }
    Ok(notes)
}

/// Notes on the data for the report.
#[must_use]
pub fn notes(recipe: &Recipe, inputs: &Inputs<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if recipe.calibration.split == Split::RotorPaper {
        notes.push(
            "calibration windows overlap and are split at random, as in arXiv 2507.11688: most validation tokens are also training tokens".to_owned(),
        );
    }
    let calibration = CalibrationText::new(std::slice::from_ref(inputs.calibration));
    for task in inputs.tasks {
        let Overlap { task, words, documents, overlapping, first } =
            overlap(task.as_ref(), &calibration);
        if let Some(one) = first.first() {
            notes.push(format!(
                "{overlapping} of {documents} documents of task {task} have {words} words in a row, or all of \
                 theirs, in common with the calibration text, which flatters the figures; the first is {}, in {}",
                one.document, one.calibration
            ));
        }
    }
    notes
}

/// Computes all cells of a recipe, the dense model first, or those of a shard. Cells that are in
/// the directory are taken from there.
///
/// # Errors
/// [`StudyError`].
pub fn run(
    recipe: &Recipe,
    inputs: &Inputs<'_>,
    directory: &RunDirectory,
    shard: Shard,
    monitor: &mut dyn Monitor,
) -> Result<Outcome<Findings>, StudyError> {
    check(recipe, &inputs.model.decoder)?;
    let print = Fingerprint::of(&[("cell", &"dense"), ("eval", &recipe.eval)]);
    let baseline = finished_cell(directory, &print, || {
        monitor.step("evaluating the dense model");
        measure(&inputs.model.decoder, inputs.tokenizer, inputs.tasks, monitor)
    })?;
    let mut findings =
        Findings { baseline, rows: Vec::new(), curves: Vec::new(), layer_errors: Vec::new() };
    let (mut known, mut total) = (0, 0);
    for &seed in &recipe.seeds {
        let calibration = calibrate(recipe, inputs, seed)?;
        let cells = cells_of(recipe, seed);
        let all = cells.len() * recipe.seeds.len();
        for spec in cells {
            let is_own = shard.owns(total);
            total += 1;
            let spec = CellSpec { place: [total, all], ..spec };
            if !is_own && !directory.pieces().contains(&PieceKey::new(CELL, spec.print())) {
                continue;
            }
            let cell = one_cell(spec, inputs, &calibration, directory, monitor)?;
            findings.add(cell, spec.table, spec.row);
            known += 1;
        }
    }
    Ok(match known == total {
        true => Outcome::Complete(findings),
        false => Outcome::Part { known, total },
    })
}

/// The cells of a recipe with one seed, in order.
fn cells_of(recipe: &Recipe, seed: u64) -> Vec<CellSpec<'_>> {
    let mut cells = Vec::new();
    for table in &recipe.tables {
        for layers in &table.layers {
            cells.extend(table.methods.iter().map(|row| CellSpec {
                table,
                row,
                layers,
                seed,
                place: [0, 0],
            }));
        }
    }
    cells
}

/// Kind of the pieces that hold cells.
pub(crate) const CELL: &str = "cell";

/// Kind of the pieces that hold times of cells.
pub const SPEED: &str = "speed";

/// Loads a cell of an earlier run, or computes and stores it.
pub(crate) fn finished_cell<C: Serialize + DeserializeOwned>(
    directory: &RunDirectory,
    fingerprint: &Fingerprint,
    compute: impl FnOnce() -> Result<C, StudyError>,
) -> Result<C, StudyError> {
    directory.finished(CELL, fingerprint, compute)
}

/// Which cell of a recipe.
#[derive(Clone, Copy)]
struct CellSpec<'a> {
    table: &'a Table,
    row: &'a RecipeRow,
    layers: &'a [usize],
    seed: u64,
    /// Its number among all cells, from one, and how many there are.
    place: [usize; 2],
}

impl CellSpec<'_> {
    fn plan(&self) -> Plan {
        self.table.plan(self.row, self.layers, self.seed)
    }

    /// Identifies the cell.
    fn print(&self) -> Fingerprint {
        let (plan, label) = (self.plan(), self.row.label());
        Fingerprint::of(&[("cell", &plan), ("table", &self.table.title), ("label", &label)])
    }
}

/// A site as a cell stores it.
fn without_time(site: SiteOutcome) -> SiteOutcome {
    SiteOutcome { fit: FitReport { seconds: 0.0, ..site.fit }, ..site }
}

fn one_cell(
    spec: CellSpec<'_>,
    inputs: &Inputs<'_>,
    calibration: &Calibration,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<Cell, StudyError> {
    let CellSpec { table, row, layers, seed, place: [number, all] } = spec;
    let (plan, print) = (spec.plan(), spec.print());
    let original = &inputs.model.decoder;
    let store = Some(directory.pieces());
    let context = Context { store, ..Context::new(&inputs.model.hash) };
    let mut cell = finished_cell(directory, &print, || {
        let edited = apply(original, Some(calibration), &plan, &context, monitor)?;
        let label = row.label();
        monitor.step(&format!(
            "{label} on layers {layers:?}, seed {seed}: evaluating ({number} of {all})"
        ));
        let results = measure(&edited.model, inputs.tokenizer, inputs.tasks, monitor)?;
        let targets: Vec<&SiteOutcome> = edited.sites.iter().filter(|site| !site.heals).collect();
        let errors = targets.iter().map(|site| site.fit.relative_error);
        let seconds = edited.sites.iter().map(|site| site.fit.seconds).sum();
        times::put(directory.pieces(), &print, seconds).map_err(RunError::from)?;
        Ok(Cell {
            row: Row {
                comparison: table.title.clone(),
                method: row.label(),
                layers: layers.to_vec(),
                seed,
                parameters: parameters(original, &edited, &targets),
                results,
                fit_error: Some(errors.sum::<f64>() / targets.len().max(1) as f64),
                seconds: None,
                macs: None,
                speed: None,
            },
            sites: edited.sites.into_iter().map(without_time).collect(),
        })
    })?;
    cell.row.seconds = times::get(directory.pieces(), &print).map_err(RunError::from)?;
    let targets: Vec<&SiteOutcome> = cell.sites.iter().filter(|site| !site.heals).collect();
    cell.row.macs = Some(macs(original, &targets));
    // Stored separately, so that times can be measured again on an idle machine with the existing
    // fits.
    let print = Fingerprint::of(&[("speed", &plan), ("threads", &parallel::threads())]);
    cell.row.speed = Some(directory.finished(SPEED, &print, || {
        let edited = apply(original, Some(calibration), &plan, &context, monitor)?;
        Ok::<_, StudyError>(speed(original, &edited.model, &targets))
    })?);
    Ok(cell)
}

/// Multiply-adds per row of the sites, in the edited and in the original model.
fn macs(original: &Transformer, targets: &[&SiteOutcome]) -> MacCounts {
    let dense = targets.iter().filter_map(|site| original.slot(&site.site));
    MacCounts {
        targeted: targets.iter().map(|site| site.macs_per_row).sum(),
        targeted_dense: dense.map(|slot| slot.op().map().macs_per_row()).sum(),
    }
}

/// Times the sites of an edited model beside those of the original one.
fn speed(original: &Transformer, edited: &Transformer, targets: &[&SiteOutcome]) -> SiteSpeed {
    let ops = |model| -> Vec<&Op<f32>> {
        let slot = |site: &&SiteOutcome| Sites::slot(model, &site.site);
        targets.iter().filter_map(slot).map(LinearSlot::op).collect()
    };
    let (now, dense) = (ops(edited), ops(original));
    let [now, dense] = time_beside([&now, &dense], TIMED_ROWS, TIMED_ROUNDS);
    SiteSpeed {
        rows: TIMED_ROWS,
        threads: parallel::threads(),
        milliseconds: now.median,
        milliseconds_dense: dense.median,
    }
}

fn parameters(
    original: &Transformer,
    edited: &Edited,
    targets: &[&SiteOutcome],
) -> ParameterCounts {
    ParameterCounts {
        targeted: targets.iter().map(|site| site.parameters as u64).sum(),
        targeted_dense: targets.iter().map(|site| site.dense_parameters as u64).sum(),
        model: edited.model.parameters(),
        model_dense: original.config().parameters(),
    }
}

/// Evaluates all tasks on one model.
///
/// # Errors
/// [`EvaluationError`].
pub fn measure(
    decoder: &Transformer,
    tokenizer: &Tokenizer,
    tasks: &[Box<dyn Task>],
    monitor: &mut dyn Monitor,
) -> Result<Vec<TaskResult>, StudyError> {
    let model = Subject::new(decoder, tokenizer);
    let monitor = RefCell::new(monitor);
    let mut results = Vec::new();
    for task in tasks {
        let mut hooks = Hooks {
            progress: &mut |p: Progress| {
                monitor.borrow_mut().progress(p.done_tokens, p.total_tokens);
            },
            cancelled: &|| monitor.borrow().interrupted(),
            journal: None,
        };
        let outcome =
            evaluate::evaluate(task.as_ref(), &model, &RunOptions::default(), &mut hooks)?;
        results.push(outcome.complete()?);
    }
    Ok(results)
}

impl Findings {
    /// Adds a cell; curves and errors of fits that nested sets share are added only once.
    fn add(&mut self, cell: Cell, table: &Table, row: &RecipeRow) {
        let (method, seed) = (row.label(), cell.row.seed);
        for site in &cell.sites {
            if site.heals {
                continue;
            }
            let known = self.layer_errors.iter().any(|e| {
                (&e.comparison, &e.method, &e.site, e.seed)
                    == (&table.title, &method, &site.site, seed)
            });
            if known {
                continue;
            }
            self.layer_errors.push(LayerError {
                comparison: table.title.clone(),
                method: method.clone(),
                site: site.site.clone(),
                role: site.role,
                layer: site.layer,
                seed,
                relative_error: site.fit.relative_error,
            });
            if !site.fit.curve.is_empty() {
                self.curves.push(Curve {
                    comparison: table.title.clone(),
                    method: method.clone(),
                    site: site.site.clone(),
                    seed,
                    target_power: site.fit.target_power,
                    points: site.fit.curve.clone(),
                });
            }
        }
        self.rows.push(cell.row);
    }
}

/// Whether the user cancelled.
#[must_use]
pub fn is_interruption(error: &StudyError) -> bool {
    match error {
        StudyError::Compress(error) => error.is_interruption(),
        StudyError::Evaluation(error) => matches!(error, EvaluationError::Interrupted { .. }),
        StudyError::Capture(error) => matches!(error, CaptureError::Interrupted),
        StudyError::Run(_) => false,
    }
}

/// Windows of text to time a model on where no text is given: tokens in steps through the
/// vocabulary.
#[must_use]
pub fn windows_without_text(model: &Transformer) -> Vec<Vec<u32>> {
    let config = model.config();
    let length = config.max_positions.min(TIMED_ROWS);
    vec![(0..length).map(|i| (i * TOKEN_STEP % config.vocab) as u32).collect()]
}
