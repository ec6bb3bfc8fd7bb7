//! The data sets of LASER (Sharma et al. 2023, arXiv:2312.13558) as tasks.
//!
//! A set turns its rows into records; prompting and scoring are common to all sets, with two
//! variants of [`Scoring`]. A new set is one file and one line of [`LASER_TASKS`].
//!
//! Masked language models answer cloze requests, for sets with a cloze form: all masks of an answer
//! are predicted at once.
//!
//! Deviations from the paper's code in both variants: choices and answers may have several tokens,
//! whose likelihoods are multiplied; decoding is greedy; the context is tokenized together with the
//! answer.

mod bigbench;
mod bios;
mod counterfact;
mod fever;
mod figures;
mod hotpotqa;
mod outcome;
mod set;
mod truthfulqa;
mod wikidata;
mod words;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

pub use set::LaserSet;

use super::task::keep_at;
use super::{
    Answered, AnsweredDocuments, Bos, Cloze, DataUsed, DetailRequest, EvaluationError, Generation,
    Item, OpenOptions, OpenTasks, Parts, RegistryError, Reply, Request, Task, TaskData, TaskEntry,
    TaskOption, TaskRequest, TaskResult,
};
use linwright_data::{Table, TableFormat};
use linwright_run::sha256_hex;
use serde::{Deserialize, Serialize};
use set::{Form, Mask, Record, Source};
use std::borrow::Cow;
use std::path::PathBuf;

/// Version of the prompts and the scoring.
const VERSION: f64 = 1.0;

/// All sets.
pub const LASER_TASKS: &[LaserSet] = &[
    counterfact::ENTRY,
    fever::ENTRY,
    bios::GENDER,
    bios::PROFESSION,
    truthfulqa::ENTRY,
    hotpotqa::ENTRY,
    bigbench::CAUSAL_JUDGEMENT,
    bigbench::WEB_OF_LIES,
    bigbench::EPISTEMIC_REASONING,
    wikidata::ENTRY,
];

/// Variant of the scoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scoring {
    /// The generated text must contain the answer; the most likely choice is taken, the first one
    /// of equals; F1 = 2 p r / (p + r).
    #[default]
    Correct,
    /// As in the paper's code: the prompt with the generated text must contain the answer; choices
    /// are compared in half precision, and of two equal ones neither is correct; F1 = 2 p r /
    /// max(1, p + r); top-k accuracy compares the whole answer with single tokens.
    Compat,
}

impl Scoring {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::Correct, Self::Compat];

    /// Its name in options and protocol ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::Compat => "compat",
        }
    }
}

/// Which records are scored. The first fifth, in file order, is for selecting layers and ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// All records.
    #[default]
    All,
    /// The first ⌊N/5⌋ records.
    Validation,
    /// The other records.
    Test,
}

impl Split {
    /// All splits.
    pub const ALL: [Self; 3] = [Self::All, Self::Validation, Self::Test];

    /// Its name in options and protocol ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }

    fn of(self, mut records: Vec<Record>) -> Vec<Record> {
        let validation = records.len() / 5;
        match self {
            Self::All => records,
            Self::Validation => {
                records.truncate(validation);
                records
            }
            Self::Test => records.split_off(validation),
        }
    }
}

/// Options of a LASER task.
#[derive(Clone, Debug, Default)]
pub struct LaserOptions {
    /// Files of the set, in order.
    pub files: Vec<PathBuf>,
    /// Variant of the scoring.
    pub scoring: Scoring,
    /// Which records are scored.
    pub split: Split,
    /// Number of tokens to generate, for sets with generated answers; by default that of the set.
    /// If it is 1, the most likely token must be the answer, and no text is generated.
    pub new_tokens: Option<usize>,
    /// Number of records of the split to score, from the first; by default all.
    pub limit: Option<usize>,
    /// Beginning-of-sequence token.
    pub bos: Bos,
    /// Whether to record the likelihood of the question, too; this needs the logits of all tokens.
    pub whole_texts: bool,
}

impl LaserSet {
    /// Finds a set by its name, or by that of the paper: `fever` is `laser_fever`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        LASER_TASKS.iter().find(|set| set.is_called(name))
    }

    /// Whether the set has a cloze form for masked language models.
    #[must_use]
    pub fn has_cloze(&self) -> bool {
        self.mask.is_some()
    }

    /// Whether answers are generated, not chosen.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        matches!(self.form, Form::Generated { .. })
    }
}

impl TaskEntry for LaserSet {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn data(&self) -> TaskData {
        TaskData::Files
    }

    fn reads(&self, option: TaskOption) -> bool {
        matches!(option, TaskOption::Scoring | TaskOption::Split)
            || (option == TaskOption::NewTokens && self.is_generated())
    }

    fn is_called(&self, name: &str) -> bool {
        [Some(self.name), self.name.strip_prefix("laser_")].contains(&Some(name))
    }

    fn open(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
    ) -> Result<OpenTasks, EvaluationError> {
        let mut files: Vec<PathBuf> = request.path.iter().cloned().collect();
        for data in options.data.iter().filter(|data| data.task == self.name) {
            if let Some(split) = &data.split {
                let (task, split) = (self.name.to_owned(), split.clone());
                return Err(RegistryError::NoSplit { task, split }.into());
            }
            files.push(data.path.clone());
        }
        let options = LaserOptions { files, ..options.laser.clone() };
        Ok(OpenTasks::one(LaserTask::open(self, &options)?))
    }

    /// The paper's splits.
    fn parts(
        &'static self,
        request: &TaskRequest,
        options: &OpenOptions<'_>,
        shuffle: Option<u64>,
    ) -> Result<Parts, EvaluationError> {
        if shuffle.is_some() {
            return Err(RegistryError::Shuffled.into());
        }
        let part = |split| -> Result<_, EvaluationError> {
            let mut options = options.clone();
            options.laser.split = split;
            Ok(self.open(request, &options)?.single()?)
        };
        Ok(Parts { validation: part(Split::Validation)?, test: Some(part(Split::Test)?) })
    }
}

/// A set with its records.
#[derive(Clone, Debug)]
pub struct LaserTask {
    set: &'static LaserSet,
    form: Form,
    options: LaserOptions,
    records: Vec<Record>,
    left_out: Vec<(&'static str, usize)>,
    /// Number of records before split and limit.
    original: usize,
    sha256: String,
    data: Vec<DataUsed>,
}

impl LaserTask {
    /// Reads the files of a set.
    ///
    /// # Errors
    /// [`EvaluationError::Data`], naming file and line; [`EvaluationError::TaskFile`] if there is
    /// no file or one of an unknown kind; [`EvaluationError::Nothing`] if no record is left.
    pub fn open(set: &'static LaserSet, options: &LaserOptions) -> Result<Self, EvaluationError> {
        let wrong = |reason: String| EvaluationError::TaskFile { origin: set.name.into(), reason };
        if options.files.is_empty() {
            return Err(wrong(format!("there are no records; give --data {}=FILE", set.name)));
        }
        let mut tables = Vec::new();
        for path in &options.files {
            let has_names = |format| format != TableFormat::Text;
            let format = TableFormat::of(path).filter(|format| has_names(*format));
            let format = format.ok_or_else(|| {
                let (shown, extensions) = (path.display(), TableFormat::extensions(has_names));
                wrong(format!("{shown}: expected a {extensions} file"))
            })?;
            tables.push(Table::open(path, format, None)?);
        }
        Self::new(set, options, &tables)
    }

    fn new(
        set: &'static LaserSet,
        options: &LaserOptions,
        tables: &[Table],
    ) -> Result<Self, EvaluationError> {
        let sources: Vec<Source<'_>> = tables.iter().flat_map(Source::all).collect();
        let reading = (set.read)(&sources)?;
        let original = reading.records.len();
        let mut records = options.split.of(reading.records);
        records.truncate(options.limit.unwrap_or(usize::MAX));
        if records.is_empty() {
            return Err(EvaluationError::Nothing { task: set.name.into(), what: "records" });
        }
        let form = match (set.form, options.new_tokens) {
            (Form::Generated { longest, .. }, Some(new_tokens)) => {
                Form::Generated { new_tokens, longest }
            }
            (form, _) => form,
        };
        let hashes: Vec<&str> = tables.iter().map(|table| table.sha256.as_str()).collect();
        let sha256 = match hashes[..] {
            [single] => single.to_owned(),
            _ => sha256_hex(hashes.concat().as_bytes()),
        };
        let used = |table: &Table| DataUsed {
            split: options.split.name().to_owned(),
            path: table.path.display().to_string(),
            sha256: table.sha256.clone(),
        };
        let (data, left_out) = (tables.iter().map(used).collect(), reading.left_out);
        let options = options.clone();
        Ok(Self { set, form, options, records, left_out, original, sha256, data })
    }

    /// Form of the requests for a masked or a causal language model.
    fn form(&self, is_masked: bool) -> Form {
        match (self.form, self.set.mask.filter(|_| is_masked)) {
            (Form::Generated { longest, .. }, Some(mask)) => {
                let new_tokens = self.options.new_tokens.unwrap_or(mask.filled_masks);
                Form::Generated { new_tokens, longest }
            }
            (form, _) => form,
        }
    }

    /// Name of the prompts and the scoring.
    fn protocol(&self, is_masked: bool) -> String {
        let LaserOptions { scoring, split, bos, .. } = &self.options;
        let scoring = match is_masked {
            true => format!("{}_masked", scoring.name()),
            false => scoring.name().to_owned(),
        };
        let new = match self.form(is_masked) {
            Form::Generated { new_tokens, .. } => format!("_new-{new_tokens}"),
            Form::Choice { .. } => String::new(),
        };
        let (split, bos) = (split.name(), bos.name());
        format!("laser-{scoring}{new}_split-{split}_bos-{bos}")
    }

    fn requests<'a>(&'a self, record: &'a Record) -> Vec<Request<'a>> {
        let (top_logprobs, context) = (outcome::TOP_LOGPROBS, self.options.whole_texts);
        let details = Some(DetailRequest { top_logprobs, context });
        let likelihood = |answer: &str, details: Option<DetailRequest>| Request::LogLikelihood {
            context: Cow::Borrowed(&record.prompt),
            continuation: Cow::Owned(format!(" {answer}")),
            details,
        };
        match self.form {
            Form::Choice { .. } => {
                let choices = record.choices.iter().enumerate();
                let of_gold = |index| details.filter(|_| index == record.gold);
                choices.map(|(index, choice)| likelihood(choice, of_gold(index))).collect()
            }
            Form::Generated { new_tokens, .. } => {
                let mut requests = vec![likelihood(&record.answer, details)];
                if new_tokens > 1 {
                    requests.push(Request::Generate {
                        context: Cow::Borrowed(&record.prompt),
                        generation: Generation::greedy(Vec::new(), new_tokens),
                    });
                }
                requests
            }
        }
    }
}

impl LaserTask {
    /// The request to a masked language model.
    fn cloze<'a>(&self, record: &'a Record, mask: Mask) -> Cloze<'a> {
        let (context, before) = match mask.sentence {
            Some(sentence) => (&record.prompt[..record.start], sentence),
            None => (record.prompt.as_str(), ""),
        };
        let answers = match self.form {
            Form::Choice { .. } => record.choices.as_slice(),
            Form::Generated { .. } => std::slice::from_ref(&record.answer),
        };
        let filled_masks = match self.form(true) {
            Form::Choice { .. } => 0,
            Form::Generated { new_tokens, .. } => new_tokens,
        };
        Cloze {
            context: Cow::Borrowed(context),
            max_context_tokens: mask.max_context_tokens,
            before: Cow::Borrowed(before),
            after: Cow::Borrowed(mask.after),
            answers: answers.iter().map(|answer| format!(" {answer}")).collect(),
            gold: record.gold,
            top_logprobs: outcome::TOP_LOGPROBS,
            filled_masks,
        }
    }
}

impl Task for LaserTask {
    fn id(&self) -> String {
        self.set.name.to_owned()
    }

    fn version(&self) -> f64 {
        VERSION
    }

    fn bos(&self) -> Bos {
        self.options.bos
    }

    fn items(&self) -> Vec<Item<'_>> {
        let items = self.records.iter().map(|record| Item {
            place: record.place.clone(),
            requests: self.requests(record),
            own: &[],
        });
        items.collect()
    }

    fn only(&self, indices: &[usize]) -> Option<Box<dyn Task>> {
        let mut part = self.clone();
        keep_at(&mut part.records, indices);
        Some(Box::new(part))
    }

    fn answered(&self) -> Option<AnsweredDocuments> {
        let right = |record: &Record| Answered {
            place: record.place.clone(),
            text: format!("{} {}", record.prompt, record.answer),
        };
        let documents = self.records.iter().map(right).collect();
        Some(AnsweredDocuments { documents, data: self.data.clone() })
    }

    fn cloze_items(&self) -> Option<Vec<Item<'_>>> {
        let mask = self.set.mask?;
        let items = self.records.iter().map(|record| Item {
            place: record.place.clone(),
            requests: vec![Request::Cloze(self.cloze(record, mask))],
            own: &[],
        });
        Some(items.collect())
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        outcome::result(self, replies, bos_used)
    }
}
