//! `linwright compose`: greedy combination of edits, each kept if the model does not get worse.

use super::Compose;
use super::result::CompositionOfModel;
use crate::jobs::kit::outcome::{apart, text};
use crate::jobs::kit::store;
use crate::jobs::kit::{Failure, Outcome, Session, outputs};
use crate::jobs::language::saving::write_beside;
use crate::jobs::language::sweep::{Items, Opened, grid, left_nothing};
use linwright_compress::intervention::apply_edits;
use linwright_lm::cuts::compose::{Composed, best_first, check_once, compose, fingerprint};
use linwright_lm::cuts::grid::{Place, places};
use linwright_lm::cuts::report::{edits_table, steps, test_table};
use linwright_lm::cuts::sweep::Swept;
use linwright_report::Block;
use linwright_run::{Monitor, RunDirectory, input, shown_reason, state};
use serde_json::Value;
use std::path::Path;

/// Largest `result.json` of a sweep that is read, in bytes.
const SWEEP_BYTES: u64 = 1 << 28;

pub(super) fn run(job: &Compose, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let grid = grid(&job.slots, &job.cut)?;
    let order = job.sweep.as_deref().map(order_of).transpose()?;
    let opened =
        Opened::new(&job.model, &job.evaluation, Items::Fifth(job.evaluation.shuffle), session)?;
    let known = places(&grid, &opened.model.loaded.decoder)?;
    check_once(&known, &opened.model.loaded.decoder)?;
    if job.dry_run {
        let cells = known.len() * grid.sizes.len();
        return opened.cost(cells, &job.evaluation, session).map(Outcome::of);
    }
    let store = store::open(job.cut.cache.as_deref(), job.cut.no_cache, session)?;
    let order =
        order.map(|order| order.into_iter().filter(|place| known.contains(place)).collect());
    if order.as_ref().is_some_and(|order: &Vec<Place>| order.len() != known.len()) {
        return Err(Failure::usage("the sweep does not cover all weights of this grid").hint(
            "give the same --roles, --sites, --ignore, --layers and part of --intervention as to the sweep",
        ));
    }
    let work = opened.work(&job.evaluation, job.evaluation.metric.as_deref(), &store)?;
    let fingerprint = fingerprint(&work, &grid, order.as_deref());
    let own = || Path::new("runs").join(format!("compose-{}", &fingerprint.0[..8]));
    let output = job.output.as_deref().map_or_else(own, Path::to_owned);
    let team = session.team();
    let place = team.own_folder().unwrap_or_else(|| output.clone());
    let basis = outputs::basis(job, &opened.model.loaded.hash, session);
    let directory = RunDirectory::open_of(&place, &fingerprint, &basis)?;
    // Where members keep work of their own, results stand in the output all the same.
    let is_apart = place != output && team.rank() == 0;
    let _held =
        is_apart.then(|| RunDirectory::open_of(&output, &fingerprint, &basis)).transpose()?;
    let composed = compose(&work, &grid, order, (&directory, &*team), session);
    session.tell_damage(directory.pieces());
    session.tell_damage(&store);
    let composed = composed.map_err(|error| left_nothing(&directory, error.into()))?;
    if team.rank() > 0 {
        return Ok(Outcome::none());
    }
    let mut edited = opened.model.loaded.decoder.clone();
    let sites = apply_edits(&mut edited, &composed.edits, &store, session);
    session.tell_damage(&store);
    let sites = sites?;
    session.finish();
    let edits = serde_json::to_value(&composed.edits)
        .map_err(|error| Failure::general(format!("cannot write the edits as JSON: {error}")))?;
    state::write(&output.join("edits.json"), format!("{edits:#}\n").as_bytes())?;
    let result = result(&opened, composed, session);
    let (kept, measured) = apart(&result)?;
    write_beside(session, &opened.model, &measured, &output)?;
    state::write(&output.join("result.json"), format!("{kept:#}\n").as_bytes())?;
    let composed = &result.compose;
    let mut blocks: Vec<Block> =
        composed.test.iter().map(|test| Block::Table(test_table(test))).collect();
    blocks.push(text([format!("edits: {}", session.portable(output.join("edits.json")))]));
    blocks.push(Block::Table(steps(composed)));
    if !sites.is_empty() {
        blocks.push(Block::Table(edits_table(&sites)));
    }
    Ok(Outcome::of(result).showing(blocks))
}

/// The weights of a sweep, best first.
fn order_of(path: &Path) -> Result<Vec<Place>, Failure> {
    let shown = path.display().to_string();
    let io = |error: std::io::Error| Failure::io(&shown, &error);
    let text = input::read_text(path, SWEEP_BYTES).map_err(io)?;
    let wrong = |error: serde_json::Error| {
        Failure::usage(format!(
            "{shown} is not the result of a sweep: {}",
            shown_reason(&error.to_string())
        ))
        .hint("give the result.json of `linwright sweep`")
    };
    let value: Value = serde_json::from_str(&text).map_err(wrong)?;
    let swept: Swept = serde_json::from_value(value["sweep"].clone()).map_err(wrong)?;
    Ok(best_first(&swept))
}

fn result(opened: &Opened, compose: Composed, session: &Session<'_>) -> CompositionOfModel {
    let mut provenance = session.provenance(
        "linwright compose",
        &opened.model.loaded,
        std::slice::from_ref(&compose.dense),
    );
    provenance.seeds = vec![compose.grid.seed];
    CompositionOfModel { model: opened.model.place.name.clone(), compose, provenance }
}
