//! The cells of a comparison, computed or read.

use super::candidate::Candidate;
use super::cell::{Cell, Compared, Dense, Figures, Found, items_of, with_items};
use super::speed::{Speed, speeds};
use super::work::Work;
use crate::LmError;
use crate::search::counts::Shapes;
use crate::text::windows_without_text;
use linwright_compress::CompressError;
use linwright_compress::fit_to::FitTo;
use linwright_evaluate as evaluate;
use linwright_evaluate::{Hooks, Outcome, Progress, Subject, TaskResult};
use linwright_model::Transformer;
use linwright_ops::Network;
use linwright_run::{Fingerprint, Monitor, PieceKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// Kinds of the pieces: scores, and times apart from them, which differ in every run.
const DENSE: &str = "dense";
const CELL: &str = "compared";
const TIMES: &str = "speed";

/// A candidate at a share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The candidate.
    pub candidate: Candidate,
    /// The share; none of a candidate with one size.
    pub keep: Option<f64>,
}

/// The cells of a comparison, in order.
#[must_use]
pub fn asked(candidates: &[Candidate], keeps: &[f64]) -> Vec<Asked> {
    let of = |candidate: &Candidate| -> Vec<Asked> {
        let keeps: Vec<Option<f64>> = match candidate.has_sizes() {
            true => keeps.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        keeps.into_iter().map(|keep| Asked { candidate: candidate.clone(), keep }).collect()
    };
    candidates.iter().flat_map(of).collect()
}

/// Compares candidates at shares of the parameters. `print` names everything but the cells.
///
/// # Errors
/// [`LmError`] if the dense model cannot be scored, of the store, and if cancelled. What a
/// candidate cannot do is part of the result.
pub fn compare(
    work: &Work<'_>,
    candidates: &[Candidate],
    keeps: &[f64],
    print: &Fingerprint,
    monitor: &mut dyn Monitor,
) -> Result<Outcome<Compared>, LmError> {
    let (mut dense, times) =
        work.kept(DENSE, Fingerprint::of(&[("run", print)]), || work.dense(monitor))?;
    dense.speed = times.speeds.first().copied().into();
    let asked = asked(candidates, keeps);
    let total = asked.len();
    let mut cells = Vec::new();
    for (index, own) in asked.iter().enumerate() {
        let print = Fingerprint::of(&[("run", print), ("cell", own)]);
        let is_known = || work.pieces.contains(&PieceKey::new(CELL, print.clone()));
        if !work.shard.owns(index) && !is_known() {
            continue;
        }
        let place = format!("{} of {total}", index + 1);
        let (mut cell, times): (Cell, Times) =
            work.kept(CELL, print, || work.cell(own, &dense, &place, monitor))?;
        if let Found::Model(figures) = &mut cell.found {
            figures.speed = <[Speed; 2]>::try_from(times.speeds).ok().into();
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
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Times {
    /// Of the dense model, and of the one beside it.
    speeds: Vec<Speed>,
    /// Of capture and fits.
    seconds: Option<f64>,
}

impl Work<'_> {
    /// A piece with its times, read or computed.
    fn kept<T: Serialize + DeserializeOwned>(
        &self,
        kind: &'static str,
        print: Fingerprint,
        compute: impl FnOnce() -> Result<(T, Times), LmError>,
    ) -> Result<(T, Times), LmError> {
        let of_times = PieceKey::new(TIMES, print.clone());
        let value = self.pieces.finished(&PieceKey::new(kind, print), || {
            let (value, times) = compute()?;
            // First, so that a piece that is there has its times.
            self.pieces.finished(&of_times, || Ok::<_, LmError>(times))?;
            Ok::<_, LmError>(value)
        })?;
        let times = self.pieces.finished(&of_times, || Ok::<_, LmError>(Times::default()))?;
        Ok((value, times))
    }

    fn dense(&self, monitor: &mut dyn Monitor) -> Result<(Dense, Times), LmError> {
        monitor.step("scoring the dense model");
        let results = self.scores(self.model, monitor)?;
        let times = Times { speeds: self.speeds(&[self.model], monitor)?, seconds: None };
        let parameters = self.model.dense_parameters();
        let dense = Dense {
            parameters: [self.targeted(), parameters],
            macs: Shapes::of(self.model).counts(Shapes::TOKENS),
            bytes: parameters * self.number_bytes(),
            memory: self.memory(self.model, parameters * self.number_bytes()),
            items: results.iter().map(items_of).collect(),
            results,
            speed: None.into(),
        };
        Ok((dense, times))
    }

    fn cell(
        &self,
        asked: &Asked,
        dense: &Dense,
        place: &str,
        monitor: &mut dyn Monitor,
    ) -> Result<(Cell, Times), LmError> {
        let Asked { candidate, keep } = asked;
        let method = candidate.name();
        let size = keep.map_or_else(String::new, |keep| format!(" at {keep}"));
        monitor.step(&format!("{method}{size} ({place})"));
        let (found, times) = match self.figures(asked, dense, monitor) {
            Ok((figures, times)) => (Found::Model(Box::new(figures)), times),
            // What a method cannot do is told; everything else ends the run, which resumes.
            Err(error) if error.is_final() => (Found::None(error.to_string()), Times::default()),
            Err(error) => return Err(error),
        };
        let is_control = candidate.is_control();
        Ok((Cell { method, is_control, asked: *keep, found }, times))
    }

    fn figures(
        &self,
        asked: &Asked,
        dense: &Dense,
        monitor: &mut dyn Monitor,
    ) -> Result<(Figures, Times), LmError> {
        let began = monitor.seconds();
        let made = self.make(&asked.candidate, asked.keep, FitTo::All, monitor)?;
        let seconds = monitor.seconds() - began;
        let is_rounded = matches!(asked.candidate, Candidate::Rounded(_));
        // Factors have the numbers of a file; rounded weights have them already.
        let stored = match is_rounded {
            true => None,
            false => Some(made.edited.network.as_stored(self.dtype, false, None)),
        };
        let stored = stored.transpose().map_err(|error| CompressError::Network(Box::new(error)))?;
        let network = stored.as_ref().map_or(&made.edited.network, |stored| &stored.model);
        let results = self.scores(network, monitor)?;
        let pairs = dense.results.iter().zip(&dense.items);
        let others: Vec<TaskResult> = pairs.map(|(own, items)| with_items(own, items)).collect();
        let comparisons = evaluate::compare(&results, &others);
        let speeds = match is_rounded {
            true => Vec::new(),
            false => self.speeds(&[self.model, network], monitor)?,
        };
        let figures = Figures {
            nearest: made.nearest,
            parameters: made.parameters(self.model),
            macs: Shapes::of(network).counts(Shapes::TOKENS),
            bytes: made.bytes,
            memory: self.memory(network, made.bytes),
            results,
            comparisons,
            note: made.note,
            is_rounded,
            speed: None.into(),
            seconds: None.into(),
        };
        Ok((figures, Times { speeds, seconds: Some(seconds) }))
    }

    /// Counted memory of a model with weights of so many bytes, see [`Figures::memory`].
    fn memory(&self, model: &Transformer, weights: u64) -> u64 {
        let of_token = model.bytes_per_token() + model.cache_bytes_per_token();
        weights + (self.run.max_batch_tokens * of_token) as u64
    }

    fn speeds(
        &self,
        models: &[&Transformer],
        monitor: &dyn Monitor,
    ) -> Result<Vec<Speed>, LmError> {
        let windows = match self.windows {
            Some(windows) => windows.windows()[windows.training()..].to_vec(),
            None => windows_without_text(self.model),
        };
        Ok(speeds(models, &windows, &|| monitor.interrupted())?)
    }

    /// Results of all tasks.
    fn scores(
        &self,
        model: &Transformer,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, LmError> {
        let subject = Subject::new(model, self.tokenizer)
            .with_max_length(self.max_length)
            .with_sentence(self.sentence);
        let monitor = RefCell::new(monitor);
        let mut results = Vec::new();
        for task in self.tasks {
            let mut hooks = Hooks {
                progress: &mut |p: Progress| {
                    monitor.borrow_mut().progress(p.done_tokens, p.total_tokens);
                },
                cancelled: &|| monitor.borrow().interrupted(),
                journal: None,
            };
            let found = evaluate::evaluate(task.as_ref(), &subject, &self.run, &mut hooks)?;
            let result = found.complete()?;
            result.check_finite()?;
            results.push(result);
        }
        Ok(results)
    }
}
