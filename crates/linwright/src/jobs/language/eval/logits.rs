//! Files of log-probabilities: `--save-logits`, and `--baseline` with a file of them.

use super::Eval;
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::evaluation::EvaluationOptions;
use linwright_evaluate::{EvaluationError, LogitsFile};
use std::path::Path;

/// The job with the windows of the file that is written or read, and the file that is read; none
/// for a job without one.
pub(super) fn of(
    job: &Eval,
    session: &Session<'_>,
) -> Result<Option<(Eval, Option<LogitsFile>)>, Failure> {
    let file = match job.baseline.as_deref().map(Path::new) {
        Some(path) if LogitsFile::is_one(path) => {
            Some(LogitsFile::open(path).map_err(EvaluationError::from)?)
        }
        _ => None,
    };
    let option = match (&file, &job.save_logits) {
        (Some(_), _) => "--baseline with a file of log-probabilities",
        (None, Some(_)) => "--save-logits",
        (None, None) => return Ok(None),
    };
    let asked = &job.evaluation;
    if asked.text.is_none() || !asked.tasks.is_empty() || !asked.more_texts.is_empty() {
        return Err(Failure::usage(format!("{option} needs one text, --text, and no other task")));
    }
    if asked.stride.is_some() {
        return Err(Failure::usage(format!(
            "{option} has windows side by side: leave --stride out"
        )));
    }
    if job.save_logits.is_some() && !session.shard().is_whole() {
        return Err(Failure::usage("--save-logits writes one file, which has no shards"));
    }
    let mut evaluation = EvaluationOptions { second_half: true, ..asked.clone() };
    if let Some(file) = &file {
        evaluation.window = file.window();
        evaluation.limit = Some(asked.limit.unwrap_or(usize::MAX).min(file.windows()));
    }
    Ok(Some((Eval { evaluation, ..job.clone() }, file)))
}
