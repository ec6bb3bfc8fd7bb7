//! The cells of a comparison, computed or read.

use crate::cell::{Cell, Compared, Dense, Figures, Found, items_of, with_items};
use crate::judge::{Judge, JudgeError, Way};
use linwright_compress::fit_to::FitTo;
use linwright_evaluate as evaluate;
use linwright_evaluate::{Outcome, TaskResult};
use linwright_ops::Network;
use linwright_run::{Fingerprint, Monitor, Part, PieceKey, Shard, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Kinds of the pieces: scores, and times apart from them, which differ in every run.
const DENSE: &str = "dense";
const CELL: &str = "compared";
const TIMES: &str = "speed";

/// A candidate at a share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked<W> {
    /// The candidate.
    pub candidate: W,
    /// The share; none of a candidate with one size.
    pub keep: Option<f64>,
}

/// The cells of a comparison, in order.
#[must_use]
pub fn asked<W: Way>(candidates: &[W], keeps: &[f64]) -> Vec<Asked<W>> {
    let of = |candidate: &W| -> Vec<Asked<W>> {
        let keeps: Vec<Option<f64>> = match candidate.has_sizes() {
            true => keeps.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        keeps.into_iter().map(|keep| Asked { candidate: candidate.clone(), keep }).collect()
    };
    candidates.iter().flat_map(of).collect()
}

/// Where the cells of a comparison are.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    /// Store of finished cells.
    pub store: &'a Store,
    /// The share of the cells that this process computes.
    pub shard: Shard,
    /// Everything on which cells depend, but the cells.
    pub print: &'a Fingerprint,
}

/// The comparison of a judge.
pub type ComparedOf<J> = Compared<<J as Judge>::Costs, <J as Judge>::Speed>;
type DenseOf<J> = Dense<<J as Judge>::Costs, <J as Judge>::Speed>;
type CellOf<J> = Cell<<J as Judge>::Costs, <J as Judge>::Speed>;
type FiguresOf<J> = Figures<<J as Judge>::Costs, <J as Judge>::Speed>;
type TimesOf<J> = Times<<J as Judge>::Speed>;

/// Compares candidates at shares of the parameters.
///
/// # Errors
/// Those of the judge if the dense network cannot be scored, of the store, and if cancelled. What a
/// candidate cannot do is part of the result.
pub fn compare<J: Judge>(
    judge: &J,
    candidates: &[J::Way],
    keeps: &[f64],
    pieces: Pieces<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Outcome<ComparedOf<J>>, J::Error> {
    let Pieces { store, shard, print } = pieces;
    let of_dense = Fingerprint::of(&[("run", print)]);
    let (mut dense, times): (DenseOf<J>, TimesOf<J>) =
        kept(store, DENSE, of_dense, || dense_of(judge, monitor))?;
    dense.speed = times.speeds.first().copied().into();
    let asked = asked(candidates, keeps);
    let total = asked.len();
    let mut cells = Vec::new();
    for (index, own) in asked.iter().enumerate() {
        let print = Fingerprint::of(&[("run", print), ("cell", own)]);
        let is_known = || store.contains(&PieceKey::new(CELL, print.clone()));
        if !shard.owns(index) && !is_known() {
            continue;
        }
        let place = format!("{} of {total}", index + 1);
        let (mut cell, times): (CellOf<J>, TimesOf<J>) = kept(store, CELL, print, || {
            cell_of(judge, own, &dense, &place, &mut Part::new(monitor, index, total))
        })?;
        monitor.whole((index + 1) as f64 / total as f64);
        if let Found::Model(figures) = &mut cell.found {
            figures.speed = <[J::Speed; 2]>::try_from(times.speeds).ok().into();
            figures.seconds = times.seconds.into();
        }
        cells.push(cell);
    }
    if cells.len() < total {
        return Ok(Outcome::Part { known: cells.len(), total });
    }
    Ok(Outcome::Complete(Compared { keeps: keeps.to_vec(), dense, cells, notes: Vec::new() }))
}

/// What was timed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Times<S> {
    /// Of the dense network, and of the one next to it.
    speeds: Vec<S>,
    /// Of capture and fits.
    seconds: Option<f64>,
}

impl<S> Times<S> {
    fn none() -> Self {
        Self { speeds: Vec::new(), seconds: None }
    }
}

/// A piece with its times, read or computed.
fn kept<T, S, E>(
    store: &Store,
    kind: &'static str,
    print: Fingerprint,
    compute: impl FnOnce() -> Result<(T, Times<S>), E>,
) -> Result<(T, Times<S>), E>
where
    T: Serialize + DeserializeOwned,
    S: Serialize + DeserializeOwned,
    E: JudgeError,
{
    let of_times = PieceKey::new(TIMES, print.clone());
    let value = store.finished(&PieceKey::new(kind, print), || {
        let (value, times) = compute()?;
        // First, so that a piece that is there has its times.
        store.finished(&of_times, || Ok::<_, E>(times))?;
        Ok::<_, E>(value)
    })?;
    let times = store.finished(&of_times, || Ok::<_, E>(Times::none()))?;
    Ok((value, times))
}

fn dense_of<J: Judge>(
    judge: &J,
    monitor: &mut dyn Monitor,
) -> Result<(DenseOf<J>, TimesOf<J>), J::Error> {
    monitor.step("scoring the dense model");
    let network = judge.network();
    let results = judge.scores(network, monitor)?;
    let times = Times { speeds: judge.speeds(&[network], monitor)?, seconds: None };
    let parameters = network.dense_parameters();
    let bytes = parameters * judge.number_bytes();
    let dense = Dense {
        parameters: [judge.targeted(), parameters],
        macs: judge.macs(network)?,
        bytes,
        memory: judge.memory(network, bytes),
        items: results.iter().map(items_of).collect(),
        results,
        speed: None.into(),
    };
    Ok((dense, times))
}

fn cell_of<J: Judge>(
    judge: &J,
    asked: &Asked<J::Way>,
    dense: &DenseOf<J>,
    place: &str,
    monitor: &mut dyn Monitor,
) -> Result<(CellOf<J>, TimesOf<J>), J::Error> {
    let Asked { candidate, keep } = asked;
    let method = candidate.name();
    let size = keep.map_or_else(String::new, |keep| format!(" at {keep}"));
    monitor.step(&format!("{method}{size} ({place})"));
    let (found, times) = match figures_of(judge, asked, dense, monitor) {
        Ok((figures, times)) => (Found::Model(Box::new(figures)), times),
        // What a method cannot do is reported; everything else ends the run, which resumes.
        Err(error) if error.is_final() => (Found::None(error.to_string()), Times::none()),
        Err(error) => return Err(error),
    };
    let is_control = candidate.is_control();
    Ok((Cell { method, is_control, asked: *keep, found }, times))
}

fn figures_of<J: Judge>(
    judge: &J,
    asked: &Asked<J::Way>,
    dense: &DenseOf<J>,
    monitor: &mut dyn Monitor,
) -> Result<(FiguresOf<J>, TimesOf<J>), J::Error> {
    let began = monitor.seconds();
    let made = judge.make(&asked.candidate, asked.keep, FitTo::All, monitor)?;
    let seconds = monitor.seconds() - began;
    let is_rounded = asked.candidate.is_rounding();
    // Factors have the numbers of a file; rounded weights have them already.
    let stored = match is_rounded {
        true => None,
        false => judge.stored(&made.edited.network)?,
    };
    let network = stored.as_ref().unwrap_or(&made.edited.network);
    let results = judge.scores(network, monitor)?;
    let pairs = dense.results.iter().zip(&dense.items);
    let others: Vec<TaskResult> = pairs.map(|(own, items)| with_items(own, items)).collect();
    let comparisons = evaluate::compare(&results, &others);
    let speeds = match is_rounded {
        true => Vec::new(),
        false => judge.speeds(&[judge.network(), network], monitor)?,
    };
    let figures = Figures {
        nearest: made.nearest,
        parameters: made.parameters(judge.network()),
        macs: judge.macs(network)?,
        bytes: made.bytes,
        memory: judge.memory(network, made.bytes),
        results,
        comparisons,
        note: made.note,
        is_rounded,
        speed: None.into(),
        seconds: None.into(),
    };
    Ok((figures, Times { speeds, seconds: Some(seconds) }))
}
