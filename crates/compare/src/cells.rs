//! The cells of a comparison, computed or read.

use crate::cell::{Cell, Compared, Dense, Figures, Found, Pair, items_of, with_items};
use crate::fits::{self, Fits, SiteSpeed};
use crate::judge::{Costs, Judge, JudgeError, Speeds, Way};
use crate::rows::{self, Asked, Asking, Place, Row};
use linwright_compress::fit_to::FitTo;
use linwright_evaluate as evaluate;
use linwright_evaluate::{ItemScores as Scores, Outcome, TaskResult};
use linwright_ops::Network;
use linwright_run::{Fingerprint, Monitor, Part, PieceKey, Shard, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Kinds of the pieces with scores.
const DENSE: &str = "dense";
const CELL: &str = "compared";
/// Kind of the pieces with times, apart from scores: they differ in every run.
pub const SPEED: &str = "speed";

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
type FiguresOf<J> = Figures<<J as Judge>::Costs, <J as Judge>::Speed>;
type KnownOf<J> = Known<<J as Judge>::Costs, <J as Judge>::Speed>;
type TimesOf<J> = Times<<J as Judge>::Speed>;

/// Compares candidates at shares of the parameters, with the layers and the seed of one judge.
///
/// # Errors
/// As [`Comparison::at`].
pub fn compare<J: Judge>(
    judge: &J,
    candidates: &[J::Way],
    keeps: &[f64],
    pieces: Pieces<'_>,
    monitor: &mut dyn Monitor,
) -> Result<Outcome<ComparedOf<J>>, J::Error> {
    let rows: Vec<Row<J::Way>> = candidates.iter().cloned().map(Row::of).collect();
    let place = Place { layers: Vec::new(), seed: 0 };
    let asking = Asking { rows: &rows, keeps, places: &[place], against: &[] };
    let mut comparison = Comparison::new(asking, pieces);
    comparison.at(judge, monitor)?;
    Ok(comparison.finish())
}

/// A comparison whose places are judged one after the other, each by a judge of its own.
#[derive(Debug)]
pub struct Comparison<'a, W, M, S> {
    asking: Asking<'a, W>,
    pieces: Pieces<'a>,
    dense: Option<Dense<M, S>>,
    known: Vec<Known<M, S>>,
    /// Places that were judged.
    judged: usize,
}

/// A cell, with the scores of its items where the report has runs.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known<M, S> {
    cell: Cell<M, S>,
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    items: Vec<Scores>,
}

impl<'a, W, M, S> Comparison<'a, W, M, S>
where
    W: Way,
    M: Costs,
    S: Speeds,
{
    /// A comparison of which nothing is done.
    #[must_use]
    pub fn new(asking: Asking<'a, W>, pieces: Pieces<'a>) -> Self {
        Self { asking, pieces, dense: None, known: Vec::new(), judged: 0 }
    }

    /// Computes the cells of the next place, or those of a shard. The first judge scores the dense
    /// network.
    ///
    /// # Errors
    /// Those of the judge if the dense network cannot be scored, of the store, and if cancelled.
    /// What a candidate cannot do is part of the result.
    ///
    /// # Panics
    /// If all places are judged.
    #[track_caller]
    pub fn at<J>(&mut self, judge: &J, monitor: &mut dyn Monitor) -> Result<(), J::Error>
    where
        J: Judge<Way = W, Costs = M, Speed = S>,
    {
        let Pieces { store, shard, print } = self.pieces;
        let dense = match self.dense.take() {
            Some(dense) => dense,
            None => {
                let of_dense = Fingerprint::of(&[("run", print)]);
                let (mut dense, times): (DenseOf<J>, TimesOf<J>) =
                    kept(store, DENSE, of_dense, || dense_of(judge, monitor))?;
                dense.speed = times.speeds.first().copied().into();
                dense
            }
        };
        let place = self.asking.places.get(self.judged).expect("a place that is not judged");
        let place = self.asking.has_runs().then_some(place);
        let cells = self.asking.cells();
        let (before, total) = (self.judged * cells.len(), self.asking.places.len() * cells.len());
        for (index, own) in (before..).zip(&cells) {
            let print = match place {
                None => Fingerprint::of(&[("run", print), ("cell", own)]),
                Some(place) => Fingerprint::of(&[("run", print), ("cell", own), ("at", place)]),
            };
            let is_known = || store.contains(&PieceKey::new(CELL, print.clone()));
            if !shard.owns(index) && !is_known() {
                continue;
            }
            let spec = CellSpec { asked: own, place, number: format!("{} of {total}", index + 1) };
            let (mut known, times): (KnownOf<J>, TimesOf<J>) = kept(store, CELL, print, || {
                cell_of(judge, &spec, &dense, &mut Part::new(monitor, index, total))
            })?;
            monitor.whole((index + 1) as f64 / total as f64);
            if let Found::Model(figures) = &mut known.cell.found {
                figures.speed = <[S; 2]>::try_from(times.speeds).ok().into();
                figures.seconds = times.seconds.into();
                figures.fits.iter_mut().for_each(|fits| fits.speed = times.sites.into());
            }
            self.known.push(known);
        }
        self.judged += 1;
        self.dense = Some(dense);
        Ok(())
    }

    /// What was found, or how much of it, if it is that of a shard.
    ///
    /// # Panics
    /// If not all places are judged.
    #[must_use]
    #[track_caller]
    pub fn finish(self) -> Outcome<Compared<M, S>> {
        let Self { asking, dense, known, judged, .. } = self;
        assert_eq!(judged, asking.places.len(), "places");
        let total = judged * asking.cells().len();
        if known.len() < total {
            return Outcome::Part { known: known.len(), total };
        }
        let dense = dense.expect("a place was judged");
        let pairs = if asking.has_runs() { pairs(&asking, &dense, &known) } else { Vec::new() };
        let cells = known.into_iter().map(|known| known.cell).collect();
        let keeps = asking.keeps.to_vec();
        Outcome::Complete(Compared { keeps, dense, cells, pairs, notes: Vec::new() })
    }
}

/// The differences of all rows from those of the comparison, and from the dense network.
fn pairs<W: Way, M, S>(
    asking: &Asking<'_, W>,
    dense: &Dense<M, S>,
    known: &[Known<M, S>],
) -> Vec<Pair> {
    let mut sets: Vec<&[usize]> = Vec::new();
    for place in asking.places {
        if !sets.contains(&place.layers.as_slice()) {
            sets.push(&place.layers);
        }
    }
    let of_dense = Scores::of(&dense_results(dense));
    let lines = asking.lines();
    let mut found = Vec::new();
    for against in asking.against.iter().map(String::as_str).chain([rows::DENSE]) {
        for layers in &sets {
            // One for each seed, in order.
            let of = |line: &str| -> Vec<&[Scores]> {
                let is_own = |known: &&Known<M, S>| {
                    let place = known.cell.place.as_ref();
                    known.cell.line() == line && place.is_some_and(|place| place.layers == *layers)
                };
                known.iter().filter(is_own).map(|known| known.items.as_slice()).collect()
            };
            for method in lines.iter().filter(|line| *line != against) {
                let own = of(method);
                let others = match against == rows::DENSE {
                    true => vec![of_dense.as_slice(); own.len()],
                    false => of(against),
                };
                // A row without a model has no scores.
                let differences = Scores::compared(&own, &others);
                if !differences.is_empty() {
                    found.push(Pair {
                        method: method.clone(),
                        against: against.to_owned(),
                        layers: layers.to_vec(),
                        differences,
                    });
                }
            }
        }
    }
    found
}

/// What was timed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Times<S> {
    /// Of the dense network, and of the one next to it.
    speeds: Vec<S>,
    /// Of capture and fits.
    seconds: Option<f64>,
    /// Of the replaced slots.
    #[serde(default)]
    sites: Option<SiteSpeed>,
}

impl<S> Times<S> {
    fn none() -> Self {
        Self { speeds: Vec::new(), seconds: None, sites: None }
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
    let of_times = PieceKey::new(SPEED, print.clone());
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
    let times = Times { speeds: judge.speeds(&[network], monitor)?, seconds: None, sites: None };
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

/// A cell that is to be made.
struct CellSpec<'a, W> {
    asked: &'a Asked<W>,
    place: Option<&'a Place>,
    /// Its number among all cells.
    number: String,
}

fn cell_of<J: Judge>(
    judge: &J,
    spec: &CellSpec<'_, J::Way>,
    dense: &DenseOf<J>,
    monitor: &mut dyn Monitor,
) -> Result<(KnownOf<J>, TimesOf<J>), J::Error> {
    let CellSpec { asked, place, number } = spec;
    let Asked { candidate, keep, label, size } = asked;
    let line = rows::line_of(&asked.name(), *keep);
    let at = place.map_or_else(String::new, |Place { layers, seed }| {
        format!(" on layers {layers:?}, seed {seed}")
    });
    monitor.step(&format!("{line}{at} ({number})"));
    let mut items = Vec::new();
    let (found, times) = match figures_of(judge, spec, dense, monitor) {
        Ok((figures, times)) => {
            if place.is_some() {
                items = Scores::of(&figures.results);
            }
            (Found::Model(Box::new(figures)), times)
        }
        // What a method cannot do is reported; everything else ends the run, which resumes.
        Err(error) if error.is_final() => (Found::None(error.to_string()), Times::none()),
        Err(error) => return Err(error),
    };
    let cell = Cell {
        method: candidate.name(),
        is_control: candidate.is_control(),
        asked: *keep,
        label: label.clone(),
        size: *size,
        place: place.cloned(),
        found,
    };
    Ok((Known { cell, items }, times))
}

fn figures_of<J: Judge>(
    judge: &J,
    spec: &CellSpec<'_, J::Way>,
    dense: &DenseOf<J>,
    monitor: &mut dyn Monitor,
) -> Result<(FiguresOf<J>, TimesOf<J>), J::Error> {
    let CellSpec { asked, place, .. } = spec;
    let began = monitor.seconds();
    let is_run = place.is_some();
    // Errors of fits are reported of runs, on examples that the fits have not read.
    let fit_to = if is_run { FitTo::Training } else { FitTo::All };
    let made = judge.make(asked, fit_to, monitor)?;
    let seconds = monitor.seconds() - began;
    let is_rounded = asked.candidate.is_rounding();
    // Factors have the numbers of a file; rounded weights have them already.
    let stored = match is_rounded {
        true => None,
        false => judge.stored(&made.edited.network)?,
    };
    let (original, sites) = (judge.network(), &made.edited.sites);
    let network = stored.as_ref().unwrap_or(&made.edited.network);
    let results = judge.scores(network, monitor)?;
    let comparisons = evaluate::compare(&results, &dense_results(dense));
    // Of runs, which are many, the replaced slots alone are timed.
    let speeds = match is_rounded || is_run {
        true => Vec::new(),
        false => judge.speeds(&[original, network], monitor)?,
    };
    let times = Times {
        speeds,
        seconds: Some(seconds),
        sites: (is_run && !is_rounded).then(|| fits::speed(original, network, sites)),
    };
    let figures = Figures {
        nearest: made.nearest,
        parameters: made.parameters(original),
        macs: judge.macs(network)?,
        bytes: made.bytes,
        memory: judge.memory(network, made.bytes),
        results,
        comparisons,
        fits: is_run.then(|| Fits::of(original, sites)),
        note: made.note,
        is_rounded,
        speed: None.into(),
        seconds: None.into(),
    };
    Ok((figures, times))
}

/// Results of the dense network, with the scores of items.
fn dense_results<M, S>(dense: &Dense<M, S>) -> Vec<TaskResult> {
    let pairs = dense.results.iter().zip(&dense.items);
    pairs.map(|(own, items)| with_items(own, items)).collect()
}
