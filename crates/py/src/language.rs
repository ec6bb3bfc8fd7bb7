//! A language model that answers requests from other harnesses.

use crate::jobs::in_session;
use linwright::evaluate::{Cut, Generation, Hooks, Reply, Request, RunOptions, Subject, answer};
use linwright::jobs::source::{OpenModel, open_model_as};
use linwright::jobs::{Failure, PrecisionOptions};
use linwright::run::Monitor;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde::Deserialize;

/// A model in memory.
#[pyclass(frozen, module = "linwright._linwright")]
pub(crate) struct RawLanguageModel {
    model: OpenModel,
    max_length: Option<usize>,
    batch_tokens: usize,
}

/// Options of a model in memory.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    #[serde(flatten)]
    precision: PrecisionOptions,
    max_length: Option<usize>,
    batch_tokens: Option<usize>,
}

/// A request of lm-evaluation-harness.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Asked {
    LogLikelihood { context: String, continuation: String },
    Rolling { text: String },
    Generate { context: String, until: Vec<String>, new_tokens: usize },
}

impl Asked {
    fn request(&self) -> Request<'_> {
        match self {
            Self::LogLikelihood { context, continuation } => Request::LogLikelihood {
                context: context.into(),
                continuation: continuation.into(),
                details: None,
            },
            Self::Rolling { text } => Request::Rolling { text: text.into(), cut: Cut::Harness },
            Self::Generate { context, until, new_tokens } => Request::Generate {
                context: context.into(),
                generation: Generation::greedy(until.clone(), *new_tokens),
            },
        }
    }
}

fn misread(error: serde_json::Error) -> Failure {
    Failure::usage(format!("requests: {error}"))
}

#[pymethods]
impl RawLanguageModel {
    /// Loads a model; `settings` is a JSON object.
    #[new]
    fn new(
        py: Python<'_>,
        model: &str,
        settings: &str,
        receiver: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        in_session(py, receiver, |mut session| {
            let settings: Settings = serde_json::from_str(settings).map_err(misread)?;
            let model = open_model_as(model, settings.precision.dtype, &mut session)?;
            model.tokenizer()?;
            let batch_tokens =
                settings.batch_tokens.unwrap_or(RunOptions::default().max_batch_tokens);
            Ok(Self { model, max_length: settings.max_length, batch_tokens })
        })
    }

    /// Name and hash, for results.
    fn name(&self) -> (&str, &str) {
        (&self.model.place.name, &self.model.loaded.hash)
    }

    /// Longest input in tokens.
    fn max_length(&self) -> usize {
        let positions = self.model.loaded.decoder.config().max_positions;
        self.max_length.map_or(positions, |length| length.min(positions))
    }

    /// Answers requests, a JSON list; gives a JSON list of replies in their order.
    fn answer(
        &self,
        py: Python<'_>,
        requests: &str,
        receiver: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let replies = in_session(py, receiver, |mut session| {
            let asked: Vec<Asked> = serde_json::from_str(requests).map_err(misread)?;
            let requests = asked.iter().map(Asked::request).collect();
            let subject = Subject::new(&self.model.loaded.decoder, self.model.tokenizer()?)
                .with_max_length(self.max_length);
            let options =
                RunOptions { max_batch_tokens: self.batch_tokens, ..RunOptions::default() };
            session.step("answering");
            let cancelled = session.cancelled();
            let mut hooks = Hooks {
                progress: &mut |p| session.progress(p.done_tokens, p.total_tokens),
                cancelled,
                journal: None,
            };
            let replies: Vec<Reply> = answer(requests, &subject, &options, &mut hooks)?;
            Ok(replies)
        })?;
        serde_json::to_string(&replies).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}
