//! Composition of cuts, as long as the model does not get worse.
//!
//! Places are visited in order. At each one, every size is evaluated on top of the accepted cuts,
//! and the best one is accepted if its score on validation items is at least the best so far. The
//! code of LASER does not restore rejected cuts, compares with the lowest score so far, and skips
//! the last layer.

use super::sweep::{
    Grid, Objective, Place, Record, Score, Swept, Tested, Work, dense, places, tested_variant,
    variants,
};
use super::{Kept, Variant};
use crate::methods::MethodSpec;
use crate::plan::{Edit, Plan, SlotSet};
use crate::study::{StudyError, finished_cell};
use crate::{CompressError, Size};
use linwright_evaluate::TaskResult;
use linwright_ops::Sites;
use linwright_run::{Fingerprint, Monitor, RunDirectory};
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
    /// Accepted edits, for [`apply_edits`](super::apply_edits).
    pub edits: Plan,
    /// Result on test items.
    pub test: Option<Tested>,
}

/// Places of a sweep, the best first, each once.
#[must_use]
pub fn best_first(swept: &Swept) -> Vec<Place> {
    let mut cells: Vec<&super::sweep::Cell> = swept.cells.iter().collect();
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
/// read from the directory.
///
/// # Errors
/// [`StudyError`].
pub fn compose(
    work: &Work<'_>,
    grid: &Grid,
    order: Option<Vec<Place>>,
    directory: &RunDirectory,
    monitor: &mut dyn Monitor,
) -> Result<Composed, StudyError> {
    let order = match order {
        Some(order) => order,
        None => places(grid, work.model)?,
    };
    check(&order, work)?;
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
    for place in order {
        let candidates = variants(&place, grid, work.model, work.store)?;
        let print = Fingerprint::of(&[("place", &place), ("edits", &composed.edits)]);
        let step = finished_cell(directory, &print, || {
            let layer =
                place.layer.map_or("all layers".to_owned(), |layer| format!("layer {layer}"));
            monitor.step(&format!("{layer}: {}", place.lname.name()));
            let on_top = |variant: &Variant| Variant {
                ops: accepted.ops.iter().chain(&variant.ops).cloned().collect(),
                ..Variant::default()
            };
            let stacked: Vec<Variant> =
                candidates.iter().map(|(_, _, variant)| on_top(variant)).collect();
            let record = Record { directory, print: &print };
            let score = |result| Score::beside(&composed.dense, &result);
            let found = work.evaluate(work.validation, &stacked, record, monitor, score)?;
            let tried = candidates.iter().zip(found).map(|((size, kept, _), score)| Trial {
                size: *size,
                kept: kept.clone(),
                score,
            });
            let tried: Vec<Trial> = tried.collect();
            let accepted = choose(&tried, &composed.objective, &composed.score);
            Ok(Step { place: place.clone(), tried, accepted })
        })?;
        if let Some(index) = step.accepted {
            let (size, _, variant) = &candidates[index];
            accepted.ops.extend(variant.ops.iter().cloned());
            composed.score = step.tried[index].score.clone();
            composed.edits.edits.push(edit(&place, grid, *size));
        }
        composed.steps.push(step);
    }
    if let (Some(test), false) = (work.test, accepted.ops.is_empty()) {
        let print = Fingerprint::of(&[("test", &composed.edits)]);
        composed.test = Some(finished_cell(directory, &print, || {
            monitor.step("the composition on the test items");
            let record = Record { directory, print: &print };
            tested_variant(work, test, accepted, record, monitor)
        })?);
    }
    Ok(composed)
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
        sites: SlotSet::named(place.lname, layers),
        method: MethodSpec::Laser(grid.method),
        size: Some(size),
        heals: false,
    }
}

/// Checks that all slots exist and none is cut twice.
fn check(order: &[Place], work: &Work<'_>) -> Result<(), CompressError> {
    let mut seen = Vec::new();
    for site in order.iter().flat_map(|place| &place.sites) {
        if seen.contains(&site) {
            return Err(CompressError::CutTwice { site: site.clone() });
        }
        if work.model.slot(site).is_none() {
            let reason = format!("the model has no slot {site}; the sweep is of another model");
            return Err(CompressError::Sweep { reason });
        }
        seen.push(site);
    }
    Ok(())
}
