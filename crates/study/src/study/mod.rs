//! Studies: all rows of all tables of a recipe, on one network, in one run directory.
//!
//! A **cell** is one method on one set of layers with one seed: edits, then all tasks. Each
//! finished cell is a file in the run directory, keyed by everything it depends on, and so is each
//! fit; nested sets of layers share the fits of their common prefix. The same recipe resumes where
//! it stopped; another recipe in the same directory is an error.

mod images;
mod judge;
mod molecules;
mod text;

use crate::recipe::{Recipe, Row as RecipeRow, Table};
use crate::report::{Curve, LayerError, MacCounts, Pair, Row, SiteSpeed};
use linwright_compress::methods::FitReport;
use linwright_compress::pipeline::{Context, Edited, SiteOutcome, apply};
use linwright_compress::plan::Plan;
use linwright_compress::{CompressError, times};
use linwright_evaluate::{EvaluationError, ItemScores, ParameterCounts};
use linwright_measure::timing::time_beside;
use linwright_model::WindowsError;
use linwright_ops::{Examples, LinearSlot, Network, Op, Sites};
use linwright_run::{
    Fingerprint, Measured, Monitor, PieceKey, RunDirectory, RunError, Shard, StoreError,
};
use linwright_tensor::parallel;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use images::{ImageNames, ImageStudyError, ImageTrial};
pub use judge::{PassMacs, PassSpeed, TrialJudge};
pub use linwright_compress::estimate::estimate;
pub use linwright_evaluate::{Metric, Outcome, TaskResult};
pub use molecules::{
    MoleculeStudyError, MoleculeTrial, StructureNames, Structures, StudiedPotential,
    calibration_batches, common_note, open_structures, scored_structures, task_result,
};
pub use text::{TextTrial, leave_out_overlap, notes};

/// Rows for timing replaced sites: a window of text.
const TIMED_ROWS: usize = 256;
/// Rounds of timing, whose median is reported.
const TIMED_ROUNDS: usize = 11;

/// A network that is studied: what fits to it read, and how edits of it are scored.
pub trait Trial {
    /// The kind of network.
    type Network: Network;

    /// The original network.
    fn network(&self) -> &Self::Network;

    /// Hash of its weights.
    fn hash(&self) -> &str;

    /// Hash of the data from which examples are drawn.
    fn calibration_sha256(&self) -> &str;

    /// The examples that fits of a seed read.
    ///
    /// # Errors
    /// [`StudyError`] if the data do not suffice.
    fn examples(&self, seed: u64) -> Result<Box<ExamplesOf<Self>>, StudyError>;

    /// Scores a network on all tasks, with the scores of single items as samples.
    ///
    /// # Errors
    /// [`StudyError`] for numbers that are not finite, and if cancelled.
    fn scores(
        &self,
        network: &Self::Network,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, StudyError>;
}

/// Examples of the network of a trial.
pub type ExamplesOf<T> = dyn Examples<<<T as Trial>::Network as Network>::Input>;

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
    /// Differences of methods, item by item.
    pub pairs: Vec<Pair>,
}

/// A study that cannot finish.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// An error in editing.
    #[error(transparent)]
    Compress(#[from] CompressError),
    /// Unusable calibration text.
    #[error(transparent)]
    Windows(#[from] WindowsError),
    /// An error in the evaluation.
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    /// Unusable images, or a network that does not suit them.
    #[error(transparent)]
    Images(Box<ImageStudyError>),
    /// Unusable structures, or a potential that does not suit them.
    #[error(transparent)]
    Molecules(Box<MoleculeStudyError>),
    /// An unusable run directory.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl StudyError {
    /// Whether a repetition fails in the same way: false for errors of files and for cancellation.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Compress(error) => error.is_final(),
            Self::Evaluation(error) => error.is_final(),
            Self::Windows(_) | Self::Images(_) | Self::Molecules(_) => true,
            Self::Run(_) => false,
        }
    }
}

impl From<StoreError> for StudyError {
    fn from(error: StoreError) -> Self {
        Self::Run(error.into())
    }
}

impl From<MoleculeStudyError> for StudyError {
    fn from(error: MoleculeStudyError) -> Self {
        Self::Molecules(Box::new(error))
    }
}

impl From<ImageStudyError> for StudyError {
    fn from(error: ImageStudyError) -> Self {
        Self::Images(Box::new(error))
    }
}

/// A finished cell, as stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    row: Row,
    sites: Vec<SiteOutcome>,
    /// Scores of items, if methods are compared by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<ItemScores>,
}

/// Identifies a run: recipe, model, calibration and evaluation data.
#[must_use]
pub fn fingerprint<C: Serialize, E: Serialize>(
    recipe: &Recipe<C, E>,
    trial: &impl Trial,
    data: &[String],
) -> Fingerprint {
    Fingerprint::of(&[
        ("version", &env!("CARGO_PKG_VERSION")),
        ("recipe", recipe),
        ("model", &trial.hash()),
        ("calibration", &trial.calibration_sha256()),
        ("data", &data),
    ])
}

/// Checks all sets of layers and all sizes of a recipe against a network, before any work.
///
/// # Errors
/// As [`Plan::sites`].
pub fn check<C, E>(recipe: &Recipe<C, E>, network: &impl Sites) -> Result<(), CompressError> {
    for table in &recipe.tables {
        for row in &table.methods {
            for layers in &table.layers {
                table.plan(row, layers, 0).sites(network)?;
            }
        }
    }
    Ok(())
}

/// Computes all cells of a recipe, the dense model first, or those of a shard. Cells that are in
/// the directory are taken from there.
///
/// # Errors
/// [`StudyError`].
pub fn run<C, E: Serialize, T: Trial>(
    recipe: &Recipe<C, E>,
    trial: &T,
    directory: &RunDirectory,
    shard: Shard,
    monitor: &mut dyn Monitor,
) -> Result<Outcome<Findings>, StudyError> {
    check(recipe, trial.network())?;
    let print = Fingerprint::of(&[("cell", &"dense"), ("eval", &recipe.eval)]);
    let baseline = finished_cell(directory, &print, || {
        monitor.step("evaluating the dense model");
        Ok(without_items(trial.scores(trial.network(), monitor)?))
    })?;
    let mut findings = Findings {
        baseline,
        rows: Vec::new(),
        curves: Vec::new(),
        layer_errors: Vec::new(),
        pairs: Vec::new(),
    };
    let (mut known, mut total, mut items) = (0, 0, Vec::new());
    for &seed in &recipe.seeds {
        let examples = trial.examples(seed)?;
        let cells = cells_of(&recipe.tables, seed);
        let all = cells.len() * recipe.seeds.len();
        for spec in cells {
            let is_own = shard.owns(total);
            total += 1;
            let spec = CellSpec { place: [total, all], ..spec };
            if !is_own && !directory.pieces().contains(&PieceKey::new(CELL, spec.print())) {
                continue;
            }
            let mut cell = one_cell(spec, trial, examples.as_ref(), directory, monitor)?;
            items.push(std::mem::take(&mut cell.items));
            findings.add(cell, spec.table, spec.row);
            known += 1;
        }
    }
    Ok(match known == total {
        true => {
            let all = recipe.tables.iter().flat_map(|table| pairs(table, &findings.rows, &items));
            findings.pairs = all.collect();
            Outcome::Complete(findings)
        }
        false => Outcome::Part { known, total },
    })
}

/// The differences of a table, for rows with the scores of their items.
fn pairs(table: &Table, rows: &[Row], items: &[Vec<ItemScores>]) -> Vec<Pair> {
    let mut found = Vec::new();
    for against in &table.against {
        for layers in &table.layers {
            // One for each seed, in order.
            let of = |method: &str| -> Vec<&[ItemScores]> {
                let all = rows.iter().zip(items);
                let own = all.filter(|(row, _)| {
                    (&row.comparison, &*row.method, &row.layers) == (&table.title, method, layers)
                });
                own.map(|(_, items)| items.as_slice()).collect()
            };
            let others = of(against);
            for method in table.methods.iter().map(RecipeRow::label) {
                let differences = ItemScores::compared(&of(&method), &others);
                if method != *against && !differences.is_empty() {
                    found.push(Pair {
                        comparison: table.title.clone(),
                        method,
                        against: against.clone(),
                        layers: layers.clone(),
                        differences,
                    });
                }
            }
        }
    }
    found
}

/// The cells of tables with one seed, in order.
fn cells_of(tables: &[Table], seed: u64) -> Vec<CellSpec<'_>> {
    let mut cells = Vec::new();
    for table in tables {
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
const CELL: &str = "cell";

/// Kind of the pieces that hold times of cells.
pub const SPEED: &str = "speed";

/// Loads a cell of an earlier run, or computes and stores it.
fn finished_cell<C: Serialize + DeserializeOwned>(
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
        let (plan, label, title) = (self.plan(), self.row.label(), &self.table.title);
        // Cells of older runs have no scores of items.
        match self.has_items() {
            true => Fingerprint::of(&[
                ("cell", &plan),
                ("table", title),
                ("label", &label),
                ("has", &"scores of items"),
            ]),
            false => Fingerprint::of(&[("cell", &plan), ("table", title), ("label", &label)]),
        }
    }

    /// Whether its items are compared with those of other methods.
    fn has_items(&self) -> bool {
        !self.table.against.is_empty()
    }
}

/// Results as a cell stores them.
fn without_items(mut results: Vec<TaskResult>) -> Vec<TaskResult> {
    results.iter_mut().for_each(|result| result.samples.clear());
    results
}

/// A site as a cell stores it.
fn without_time(site: SiteOutcome) -> SiteOutcome {
    SiteOutcome { fit: FitReport { seconds: Measured::default(), ..site.fit }, ..site }
}

fn one_cell<T: Trial>(
    spec: CellSpec<'_>,
    trial: &T,
    examples: &ExamplesOf<T>,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<Cell, StudyError> {
    let CellSpec { table, row, layers, seed, place: [number, all] } = spec;
    let (plan, print) = (spec.plan(), spec.print());
    let original = trial.network();
    let store = Some(directory.pieces());
    let context = Context { store, ..Context::new(trial.hash()) };
    let mut cell = finished_cell(directory, &print, || {
        let edited = apply(original, Some(examples), &plan, &context, monitor)?;
        let label = row.label();
        monitor.step(&format!(
            "{label} on layers {layers:?}, seed {seed}: evaluating ({number} of {all})"
        ));
        let results = trial.scores(&edited.network, monitor)?;
        let items = if spec.has_items() { ItemScores::of(&results) } else { Vec::new() };
        let targets: Vec<&SiteOutcome> = edited.sites.iter().filter(|site| !site.heals).collect();
        let errors = targets.iter().map(|site| site.fit.relative_error);
        let seconds = edited.sites.iter().map(|site| *site.fit.seconds).sum();
        times::put(directory.pieces(), &print, seconds).map_err(RunError::from)?;
        Ok(Cell {
            row: Row {
                comparison: table.title.clone(),
                method: row.label(),
                layers: layers.to_vec(),
                seed,
                parameters: parameter_counts(original, &edited),
                results: without_items(results),
                fit_error: Some(errors.sum::<f64>() / targets.len().max(1) as f64),
                seconds: None.into(),
                macs: None,
                speed: None.into(),
            },
            sites: edited.sites.into_iter().map(without_time).collect(),
            items,
        })
    })?;
    cell.row.seconds = times::get(directory.pieces(), &print).map_err(RunError::from)?.into();
    let targets: Vec<&SiteOutcome> = cell.sites.iter().filter(|site| !site.heals).collect();
    cell.row.macs = Some(macs(original, &targets));
    // Stored separately, so that times can be measured again on an idle machine with the existing
    // fits.
    let print = Fingerprint::of(&[("speed", &plan), ("threads", &parallel::threads())]);
    let speed = directory.finished(SPEED, &print, || {
        let edited = apply(original, Some(examples), &plan, &context, monitor)?;
        Ok::<_, StudyError>(speed(original, &edited.network, &targets))
    })?;
    cell.row.speed = Some(speed).into();
    Ok(cell)
}

/// Multiply-adds per row of the sites, in the edited and in the original model.
fn macs(original: &impl Sites, targets: &[&SiteOutcome]) -> MacCounts {
    let dense = targets.iter().filter_map(|site| original.slot(&site.site));
    MacCounts {
        targeted: targets.iter().map(|site| site.macs_per_row).sum(),
        targeted_dense: dense.map(|slot| slot.op().map().macs_per_row()).sum(),
    }
}

/// Times the sites of an edited model beside those of the original one.
fn speed<N: Sites>(original: &N, edited: &N, targets: &[&SiteOutcome]) -> SiteSpeed {
    let ops = |network| -> Vec<&Op<f32>> {
        let slot = |site: &&SiteOutcome| Sites::slot(network, &site.site);
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

/// Parameters of the replaced sites and of the network, after and before.
#[must_use]
pub fn parameter_counts<N: Network>(original: &N, edited: &Edited<N>) -> ParameterCounts {
    // Refitted slots are not counted: they keep their size.
    let targets = || edited.sites.iter().filter(|site| !site.heals);
    ParameterCounts {
        targeted: targets().map(|site| site.parameters as u64).sum(),
        targeted_dense: targets().map(|site| site.dense_parameters as u64).sum(),
        model: edited.network.parameters(),
        model_dense: original.dense_parameters(),
    }
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
                role: site.role.clone(),
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
        StudyError::Windows(_)
        | StudyError::Images(_)
        | StudyError::Molecules(_)
        | StudyError::Run(_) => false,
    }
}
