//! How a comparison makes and judges transformers.

use super::candidate::{Candidate, Part};
use super::speed::{Speed, speeds};
use super::work::{Work, pruned_share};
use super::{Asked, Made};
use crate::LmError;
use crate::search::counts::{Counts, Shapes};
use crate::text::windows_without_text;
use linwright_compare::{Costs, Judge, JudgeError, Speeds};
use linwright_compress::CompressError;
use linwright_compress::fit_to::FitTo;
use linwright_evaluate as evaluate;
use linwright_evaluate::{
    Beside, Hooks, KL_MEAN, Progress, RunOptions, SAME_TOP, Subject, TaskResult, evaluate_each,
    is_text,
};
use linwright_model::Transformer;
use linwright_run::Monitor;
use std::cell::RefCell;

impl JudgeError for LmError {
    fn is_final(&self) -> bool {
        Self::is_final(self)
    }
}

impl Costs for Counts {
    const HEADS: &'static [&'static str] = &["multiply-adds", "with attention"];
    const METRICS: usize = 1;
    const FROM_DENSE: &'static [&'static str] = &[KL_MEAN, SAME_TOP];
    const MEMORY: Option<&'static str> =
        Some("counted: weights as stored, activations and cache of a batch of the evaluation");

    fn counted_on() -> String {
        format!("on {} tokens", Shapes::TOKENS)
    }

    fn counts(&self) -> Vec<u64> {
        vec![self.linear, self.with_attention]
    }
}

impl Speeds for Speed {
    const HEADS: &'static [&'static str] = &["prompt tokens/s", "decoded tokens/s"];

    fn rates(&self) -> Vec<Option<f64>> {
        vec![Some(self.prompt), self.decode]
    }
}

impl Judge for Work<'_> {
    type Network = Transformer;
    type Way = Candidate;
    type Costs = Counts;
    type Speed = Speed;
    type Error = LmError;

    fn network(&self) -> &Transformer {
        self.model
    }

    fn targeted(&self) -> u64 {
        self.slots().targeted()
    }

    fn number_bytes(&self) -> u64 {
        self.slots().number_bytes()
    }

    /// Wherever it is recovered, validation windows are held out of its fits.
    fn make(
        &self,
        asked: &Asked,
        fit_to: FitTo<'static>,
        monitor: &mut dyn Monitor,
    ) -> Result<Made, LmError> {
        let fit_to = if self.recovery.is_some() { FitTo::Training } else { fit_to };
        match asked.candidate.part() {
            Part::Slots(method) => {
                let made = self.slots().make(&asked.with(method), fit_to, monitor)?;
                match asked.candidate {
                    Candidate::Sites(_) => self.recovered(made, monitor),
                    Candidate::Rounded(_) | Candidate::Pruned(_) => Ok(made),
                }
            }
            Part::Layers(spec) => {
                self.saving(asked)?;
                let made = self.pruned(spec, pruned_share(asked)?, fit_to, monitor)?;
                self.recovered(made, monitor)
            }
        }
    }

    fn stored(&self, model: &Transformer) -> Result<Option<Transformer>, LmError> {
        let stored = model.as_stored(self.dtype, false, None);
        let stored = stored.map_err(|error| CompressError::Network(Box::new(error)))?;
        Ok(Some(stored.model))
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
            let task = task.as_ref();
            // The dense model is read by the edits alone.
            let result = match is_text(task) && !std::ptr::eq(model, self.model) {
                true => {
                    let beside = Beside::new(self.model, self.outputs, subject);
                    let run = RunOptions { divergence: true, ..self.run };
                    let both = evaluate_each(task, &beside, &run, &mut hooks, |result| result)?;
                    both.complete()?.swap_remove(1)
                }
                false => evaluate::evaluate(task, &subject, &self.run, &mut hooks)?.complete()?,
            };
            result.check_finite()?;
            results.push(result);
        }
        Ok(results)
    }

    fn macs(&self, model: &Transformer) -> Result<Counts, LmError> {
        Ok(Shapes::of(model).counts(Shapes::TOKENS))
    }

    /// The weights as stored, and activations and cached keys and values of a batch of the
    /// evaluation in f32.
    fn memory(&self, model: &Transformer, weights: u64) -> Option<u64> {
        let of_token = model.bytes_per_token() + model.cache_bytes_per_token();
        Some(weights + (self.run.max_batch_tokens * of_token) as u64)
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
}
