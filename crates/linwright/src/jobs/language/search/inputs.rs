//! What a search reads: its documents, its layers and its calibration text.

use super::Search;
use crate::jobs::kit::source::{OpenModel, open_model, text_file};
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::calibration::{Calibration, Source};
use crate::jobs::language::tasks::{check_tasks, open_one};
use linwright_data::Corpus;
use linwright_evaluate::Task;
use linwright_lm::search::{Splits, Target, TextWindows, linears, part};
use linwright_ops::SiteId;

/// The model of a search, what it visits, and the documents that decide.
pub(super) struct Inputs<'a> {
    pub(super) model: OpenModel,
    /// The slots to visit, in the order of computation.
    pub(super) sites: Vec<SiteId>,
    /// The task; of a text its perplexity.
    pub(super) task: Box<dyn Task>,
    pub(super) documents: Documents,
    /// The documents to calibrate on.
    source: Option<Source<'a>>,
}

/// Documents that select and that test.
pub(super) enum Documents {
    Task(Splits),
    Text { search: TextWindows, test: TextWindows },
}

impl<'a> Inputs<'a> {
    pub(super) fn new(job: &'a Search, session: &mut Session<'_>) -> Result<Self, Failure> {
        job.calibration_text().check_text_field()?;
        check(job)?;
        // Errors in tasks are reported before a model is loaded.
        let source = job.calibration_text().open(session)?;
        let beside = source.as_ref().map_or_else(Vec::new, |source| source.tasks().to_vec());
        let task = open_one(&job.evaluation, &beside, session)?;
        let model = open_model(&job.model, session)?;
        check_tasks([task.as_ref()], &model, &job.evaluation)?;
        let sites = sites(job, &model)?;
        let shuffle = job.evaluation.shuffle.unwrap_or(Splits::SEED);
        let documents = match &job.evaluation.text {
            Some(text) => text_documents(text, job, &model, session)?,
            None => Documents::Task(splits(task.as_ref(), shuffle)?),
        };
        Ok(Self { model, sites, task, documents, source })
    }

    /// What decides, as the search reads it.
    pub(super) fn target<'t>(&'t self, job: &'t Search) -> Target<'t> {
        match &self.documents {
            Documents::Task(splits) => Target::Task {
                task: self.task.as_ref(),
                splits,
                delta: job.delta,
                metric: job.evaluation.metric.as_deref(),
                compat: job.evaluation.compat,
            },
            Documents::Text { search, test } => Target::Text { search, test, growth: job.growth },
        }
    }

    /// The calibration text, compared with the documents that select.
    pub(super) fn calibration(
        &mut self,
        job: &Search,
        session: &mut Session<'_>,
    ) -> Result<Calibration, Failure> {
        let source = self.source.take();
        let mut text = job.calibration_text().windows(source, &self.model, session)?;
        let own;
        let task = match &self.documents {
            Documents::Text { .. } => self.task.as_ref(),
            Documents::Task(splits) => {
                own = part(self.task.as_ref(), &splits.documents(0..splits.search))?;
                own.as_ref()
            }
        };
        text.compare([task], "ranks may be too small", session);
        Ok(text)
    }
}

/// Checks what needs no file.
fn check(job: &Search) -> Result<(), Failure> {
    let asked = &job.evaluation;
    if asked.text.is_some() && !asked.tasks.is_empty() {
        return Err(Failure::usage("a search is by a text or by a task, not by both")
            .hint("give --text or --tasks"));
    }
    if !job.delta.is_finite() {
        return Err(Failure::usage(format!("--delta {} is no number", job.delta)));
    }
    if !job.growth.is_finite() || job.growth <= 0.0 {
        return Err(Failure::usage(format!("--growth {} is not above zero", job.growth))
            .hint("1 allows no growth, 1.005 half a percent a layer"));
    }
    match job.ranks.contains(&0) {
        true => Err(Failure::usage("--ranks 0 removes a layer; ranks are at least 1")),
        false => Ok(()),
    }
}

/// The slots to visit.
fn sites(job: &Search, model: &OpenModel) -> Result<Vec<SiteId>, Failure> {
    let decoder = &model.loaded.decoder;
    let chosen = job.slots.set_of_cuts()?.of(decoder)?;
    let start = job.start.unwrap_or(0);
    let all = linears(decoder);
    let visited = all.iter().skip(start).map(|slot| slot.id().clone());
    let sites: Vec<SiteId> = visited.filter(|site| chosen.contains(site)).collect();
    if sites.is_empty() {
        return Err(Failure::usage(format!(
            "none of the chosen linear layers has an index of at least {start}; the model has {}",
            all.len()
        ))
        .hint("give a smaller --start"));
    }
    Ok(sites)
}

fn splits(task: &dyn Task, seed: u64) -> Result<Splits, Failure> {
    let count = task.items().len();
    // Before any work: not every task can be divided.
    part(task, &[0])?;
    Splits::new(count, seed).ok_or_else(|| {
        Failure::usage(format!(
            "task {} has {count} documents, at least 16 are needed for three chunks",
            task.id()
        ))
    })
}

/// The first fifth of the rows of a text, and the others, in windows.
fn text_documents(
    text: &str,
    job: &Search,
    model: &OpenModel,
    session: &mut Session<'_>,
) -> Result<Documents, Failure> {
    let field = job.evaluation.text_field.as_deref();
    let (path, field) = text_file(text, "stories-test.jsonl", field, session)?;
    let corpus = Corpus::open(&path, field)?;
    let limit = job.evaluation.limit.unwrap_or(usize::MAX);
    let rows: Vec<&str> =
        corpus.documents.iter().take(limit).map(|document| document.text.as_str()).collect();
    let (window, positions) = (job.evaluation.window, model.loaded.decoder.config().max_positions);
    let window = job.evaluation.max_length.map_or(window, |length| window.min(length));
    if window > positions {
        return Err(Failure::usage(format!(
            "windows of {window} tokens, and the model has {positions} positions"
        ))
        .hint(format!("give --evaluation window={positions} or less")));
    }
    let count = (0.2 * rows.len() as f64) as usize;
    let (first, rest) = rows.split_at(count);
    if first.is_empty() {
        return Err(Failure::usage(format!(
            "the text has {} rows, at least 5 are needed: a fifth selects, the others test",
            rows.len()
        ))
        .hint("give a file of rows (.jsonl, .csv), or a plain text divided in rows"));
    }
    let tokenizer = model.tokenizer()?;
    Ok(Documents::Text {
        search: TextWindows::new(first, tokenizer, job.evaluation.bos, window)?,
        test: TextWindows::new(rest, tokenizer, job.evaluation.bos, window)?,
    })
}
