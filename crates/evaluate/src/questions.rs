//! Common code of the tasks on sets of questions.

use super::result::by_group;
use super::{
    Answered, AnsweredDocuments, Bos, Counts, DataUsed, EvaluationError, FileTask, Item, Metric,
    Reply, Request, TaskOptions, TaskResult,
};
use linwright_data::{Question, QuestionSet};
use std::path::Path;

/// Version of the prompts and the scoring.
pub(super) const VERSION: f64 = 1.0;

/// Questions with the setting of their beginning-of-sequence token.
#[derive(Clone, Debug)]
pub(super) struct Questions {
    pub(super) set: QuestionSet,
    pub(super) bos: Bos,
}

/// Log-likelihood of one continuation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Likelihood {
    pub(super) nats: f64,
    pub(super) is_greedy: bool,
}

impl Questions {
    pub(super) fn open(path: &Path, options: &TaskOptions) -> Result<Self, EvaluationError> {
        let mut set = QuestionSet::open(path)?;
        set.questions.truncate(options.limit.unwrap_or(usize::MAX));
        Ok(Self { set, bos: options.bos })
    }

    /// One item per question, with the requests of the task.
    pub(super) fn items<'a>(
        &'a self,
        requests: impl Fn(&'a Question) -> Vec<Request<'a>>,
    ) -> Vec<Item<'a>> {
        let file = self.set.path.display();
        let item = |question: &'a Question| Item {
            place: format!("{file}, question at line {}", question.line),
            requests: requests(question),
            own: &[],
        };
        self.set.questions.iter().map(item).collect()
    }

    /// The questions with their correct answers; none if one has no answer.
    pub(super) fn answered(
        &self,
        right: impl Fn(&Question) -> Option<String>,
    ) -> Option<AnsweredDocuments> {
        let path = self.set.path.display().to_string();
        let answered = |question: &Question| {
            let place = format!("{path}, line {}", question.line);
            Some(Answered { place, text: right(question)? })
        };
        let documents: Option<Vec<Answered>> = self.set.questions.iter().map(answered).collect();
        let data = DataUsed { split: "all".into(), path, sha256: self.set.sha256.clone() };
        Some(AnsweredDocuments { documents: documents?, data: vec![data] })
    }

    /// The result of the task `entry`; `figures` computes the metrics of a list of questions.
    pub(super) fn result(
        &self,
        entry: &FileTask,
        protocol: &str,
        replies: &[Vec<Reply>],
        bos_used: bool,
        figures: impl Fn(&[usize]) -> Vec<Metric>,
    ) -> TaskResult {
        let mut counts = Counts { items: replies.len(), ..Counts::default() };
        replies.iter().flatten().for_each(|reply| counts.add(reply));
        let groups: Vec<Option<&str>> =
            self.set.questions.iter().map(|question| question.group.as_deref()).collect();
        TaskResult {
            task: entry.name.to_owned(),
            protocol: format!("{protocol}_bos-{}", self.bos.name()),
            version: VERSION,
            data_sha256: self.set.sha256.clone(),
            bos_used,
            metrics: figures(&(0..replies.len()).collect::<Vec<_>>()),
            groups: by_group(&groups, figures),
            counts,
            original: replies.len(),
            ..TaskResult::default()
        }
    }
}

/// The log-likelihood responses.
pub(super) fn likelihoods(replies: &[Reply]) -> impl Iterator<Item = Likelihood> {
    replies.iter().filter_map(|reply| match reply {
        Reply::LogLikelihood { log_likelihood, is_greedy, .. } => {
            Some(Likelihood { nats: *log_likelihood, is_greedy: *is_greedy })
        }
        _ => None,
    })
}
