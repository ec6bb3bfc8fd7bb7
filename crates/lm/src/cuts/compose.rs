//! Composition of cuts, as long as the model does not get worse.
//!
//! Places are visited in order. At each one, every size is evaluated on top of the accepted cuts,
//! and the best one is accepted if its score on validation items is at least the best so far. The
//! code of LASER does not restore rejected cuts, compares with the lowest score so far, and skips
//! the last layer.

use crate::LmError;
use crate::cuts::Variant;
use crate::cuts::grid::{Grid, Place, places};
use crate::cuts::sweep::{
    Objective, Record, Score, Swept, Tested, Work, dense, tested_variant, variants,
};
use crate::pieces::{CELL, finished_cell};
use linwright_compress::intervention::Kept;
use linwright_compress::methods::MethodSpec;
use linwright_compress::plan::{Edit, Plan};
use linwright_compress::{CompressError, Size};
use linwright_evaluate::TaskResult;
use linwright_model::Transformer;
use linwright_ops::Sites;
use linwright_run::team::{Members, Team, TeamError};
use linwright_run::{Fingerprint, Monitor, PieceKey, RunDirectory, RunError, Store};
use linwright_tensor::parallel;
use serde::{Deserialize, Serialize};

/// One place of a composition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The place.
    pub place: Place,
    /// Scores of each size on top of the accepted cuts.
    pub tried: Vec<Trial>,
    /// Index of the accepted size, if any.
    pub accepted: Option<usize>,
}

/// One evaluated size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Requested size.
    pub size: Size,
    /// Kept size of each slot.
    pub kept: Vec<Kept>,
    /// Score of the model.
    pub score: Score,
}

/// Result of a composition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Composed {
    /// The grid.
    pub grid: Grid,
    /// The metric for comparisons.
    pub objective: Objective,
    /// Result of the dense model on validation items.
    pub dense: TaskResult,
    /// Places in the order of visits.
    pub steps: Vec<Step>,
    /// Score of the last accepted model on validation items; of the dense model if none was
    /// accepted.
    pub score: Score,
    /// Accepted edits, for [`apply_edits`](linwright_compress::intervention::apply_edits).
    pub edits: Plan,
    /// Result on test items.
    pub test: Option<Tested>,
}

/// Places of a sweep, the best first, each once.
#[must_use]
pub fn best_first(swept: &Swept) -> Vec<Place> {
    let mut cells: Vec<&crate::cuts::sweep::Cell> = swept.cells.iter().collect();
    // A stable sort: ties stay in grid order.
    cells.sort_by(|a, b| {
        let better = |x: &Score, y: &Score| swept.objective.is_better(x, y);
        better(&b.score, &a.score).cmp(&better(&a.score, &b.score))
    });
    let mut order: Vec<Place> = Vec::new();
    for cell in cells {
        if !order.contains(&cell.place) {
            order.push(cell.place.clone());
        }
    }
    order
}

/// Identifies a composition by everything that its results depend on, including the order of
/// places.
#[must_use]
pub fn fingerprint(work: &Work<'_>, grid: &Grid, order: Option<&[Place]>) -> Fingerprint {
    Fingerprint::of(&[("work", &work.fingerprint_of("compose", grid)), ("order", &order)])
}

/// Composes cuts of a grid in the given order of places, or that of the grid. Finished parts are
/// read from the directory. The members of a team, each with a directory of its own, evaluate
/// different sizes; the first one alone tests the composition.
///
/// # Errors
/// [`LmError`].
pub fn compose(
    work: &Work<'_>,
    grid: &Grid,
    order: Option<Vec<Place>>,
    (directory, team): (&RunDirectory, &dyn Team),
    monitor: &mut dyn Monitor,
) -> Result<Composed, LmError> {
    let order = match order {
        Some(order) => order,
        None => places(grid, work.model)?,
    };
    check_once(&order, work.model)?;
    let what = fingerprint(work, grid, Some(&order));
    let what = format!("{} with {}", what.0, parallel::instruction_set());
    team.agree(&what).map_err(CompressError::Team)?;
    let dense = dense(work, work.validation, directory, monitor)?;
    let objective = Objective::of(&dense, work.metric)?;
    let mut composed = Composed {
        grid: grid.clone(),
        objective,
        score: Score::of(&dense),
        dense,
        steps: Vec::new(),
        edits: Plan { seed: grid.seed, edits: Vec::new() },
        test: None,
    };
    let mut accepted = Variant::default();
    // Members skip the same steps: those that one of them has finished.
    let shared = team.shared_store().map(Store::at);
    for place in order {
        let candidates = variants(&place, grid, work.model, work.store)?;
        let print = Fingerprint::of(&[("place", &place), ("edits", &composed.edits)]);
        team.begin(&print);
        let compute = || {
            monitor.step(&format!("{}: {}", place.layer_name(), place.weights.name()));
            let on_top = |variant: &Variant| Variant {
                ops: accepted.ops.iter().chain(&variant.ops).cloned().collect(),
                ..Variant::default()
            };
            let own = candidates.iter().enumerate().filter(|(index, _)| team.owns(*index));
            let stacked: Vec<Variant> = own.map(|(_, (_, _, variant))| on_top(variant)).collect();
            let record = Record { directory, print: &print };
            let score = |result| Score::beside(&composed.dense, &result);
            let own = match stacked.is_empty() {
                true => Vec::new(),
                false => work.evaluate(work.validation, &stacked, record, monitor, score)?,
            };
            let found = all_scores(own, candidates.len(), team)?;
            let tried = candidates.iter().zip(found).map(|((size, kept, _), score)| Trial {
                size: *size,
                kept: kept.clone(),
                score,
            });
            let tried: Vec<Trial> = tried.collect();
            let accepted = choose(&tried, &composed.objective, &composed.score);
            Ok(Step { place: place.clone(), tried, accepted })
        };
        let step = match &shared {
            Some(store) => store.finished(&PieceKey::new(CELL, print.clone()), compute)?,
            None => finished_cell(directory, &print, compute)?,
        };
        team.end(&print).map_err(CompressError::Team)?;
        if let Some(index) = step.accepted {
            let chosen = candidates.get(index).zip(step.tried.get(index));
            let Some(((size, _, variant), trial)) = chosen else {
                let reason =
                    format!("has a piece that accepts size {index} of {}", candidates.len());
                return Err(RunError::Unusable { path: directory.path().to_owned(), reason }.into());
            };
            accepted.ops.extend(variant.ops.iter().cloned());
            composed.score = trial.score.clone();
            composed.edits.edits.push(edit(&place, grid, *size));
        }
        composed.steps.push(step);
    }
    if team.rank() == 0 {
        composed.test = tested(work, &composed.edits, accepted, directory, monitor)?;
    }
    Ok(composed)
}

/// The result of accepted cuts on the test items, if there are both.
fn tested(
    work: &Work<'_>,
    edits: &Plan,
    accepted: Variant,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<Option<Tested>, LmError> {
    let (Some(test), false) = (work.test, accepted.ops.is_empty()) else { return Ok(None) };
    let print = Fingerprint::of(&[("test", edits)]);
    let tested = finished_cell(directory, &print, || {
        monitor.step("the composition on the test items");
        let record = Record { directory, print: &print };
        tested_variant(work, test, accepted, record, monitor)
    })?;
    Ok(Some(tested))
}

/// The scores of all sizes, of which each member of the team has its own.
fn all_scores(own: Vec<Score>, sizes: usize, team: &dyn Team) -> Result<Vec<Score>, LmError> {
    if team.size() == 1 {
        return Ok(own);
    }
    let message = serde_json::to_vec(&own)
        .map_err(|error| TeamError { rank: team.rank(), reason: error.to_string() })?;
    let mut all = Vec::new();
    for (rank, message) in team.gathered(message)?.into_iter().enumerate() {
        let scores: Vec<Score> = serde_json::from_slice(&message)
            .map_err(|error| TeamError { rank, reason: error.to_string() })?;
        all.push(scores.into_iter());
    }
    let of = |size: usize| {
        let rank = team.owner(size);
        let missing = || TeamError { rank, reason: format!("it has no score of size {size}") };
        Ok(all[rank].next().ok_or_else(missing)?)
    };
    (0..sizes).map(of).collect()
}

/// Index of the best size, unless it is worse than the model so far.
fn choose(tried: &[Trial], objective: &Objective, held: &Score) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, trial) in tried.iter().enumerate() {
        if objective.value(&trial.score) < objective.value(held) {
            continue;
        }
        if best.is_none_or(|best| objective.is_better(&trial.score, &tried[best].score)) {
            best = Some(index);
        }
    }
    best
}

fn edit(place: &Place, grid: &Grid, size: Size) -> Edit {
    let layers = match (place.layer, &grid.layers) {
        (Some(layer), _) => Some(vec![layer]),
        (None, layers) => layers.clone(),
    };
    Edit {
        sites: place.weights.set(layers, &grid.ignore),
        method: MethodSpec::Laser(place.weights.cut_by(grid.method)),
        size: Some(size),
        heals: false,
    }
}

/// Checks that all slots exist and none is cut twice.
///
/// # Errors
/// [`LmError::CutTwice`], also for two parts of one slot, [`LmError::Sweep`] for
/// places of another model.
pub fn check_once(order: &[Place], model: &Transformer) -> Result<(), LmError> {
    let mut seen = Vec::new();
    for site in order.iter().flat_map(|place| &place.sites) {
        if seen.contains(&site) {
            return Err(LmError::CutTwice { site: site.clone() });
        }
        if model.slot(site).is_none() {
            let reason = format!("the model has no slot {site}; the sweep is of another model");
            return Err(LmError::Sweep { reason });
        }
        seen.push(site);
    }
    Ok(())
}
