//! Calibration text: what `--calibration` names, turned into documents and windows, and a record of
//! where they are from.
//!
//! | `--calibration` | documents |
//! | --- | --- |
//! | a file, `pocket` | its rows |
//! | `task:NAME` | those of a task, each with its correct answer |
//! | `combination` | a sample of six tasks, each with its correct answer |
//! | `samples` | texts that the model writes itself |

mod combination;
mod overlap;
mod record;
mod samples;

pub(crate) use record::CalibrationRecord;

use crate::jobs::kit::named::{NameList, Names};
use crate::jobs::kit::source::{OpenModel, POCKET, text_file};
use crate::jobs::kit::terms::{Catalogue, Terms};
use crate::jobs::kit::{Failure, JobError, Name, Session, bounds};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::tasks::open_answered;
use linwright_data::{Corpus, Document};
use linwright_evaluate::{Answered, Bos, DataUsed, canonical_task};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Split, Windows, WindowsError};
use linwright_tensor::RngKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Number of tokens of most commands without another one.
pub(crate) const NUM_TOKENS: usize = 40_000;
/// Length of a window without another one.
const SEQ_LEN: usize = 256;
/// Before the name of a task.
const TASK: &str = "task:";
/// Name of the sample of six tasks.
const COMBINATION: &str = "combination";
/// Name of texts of the model itself.
const SAMPLES: &str = "samples";
/// Note on windows that overlap.
const OVERLAPPING: &str = "calibration windows overlap and are split at random, as in arXiv \
    2507.11688: most validation tokens are also training tokens";

/// What `--calibration` names. A file that is called as one of the fixed names is `./NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dataset<'a> {
    /// A file.
    File(&'a str),
    /// The calibration text of the built-in model.
    Pocket,
    /// Documents of a task with their correct answers.
    Task(&'a str),
    /// The preset of the feature-space decomposition.
    Combination,
    /// Texts of the model itself.
    Samples,
}

impl<'a> Dataset<'a> {
    /// The meaning of a name.
    pub(crate) fn of(name: &'a str) -> Self {
        match name {
            POCKET => Self::Pocket,
            COMBINATION => Self::Combination,
            SAMPLES => Self::Samples,
            _ => name.strip_prefix(TASK).map_or(Self::File(name), Self::Task),
        }
    }

    /// The file that it reads, if it names one: a text, or a task file.
    fn path(self) -> Option<&'a Path> {
        match self {
            Self::File(name) | Self::Task(name) => Some(Path::new(name)),
            Self::Pocket | Self::Combination | Self::Samples => None,
        }
    }

    /// Its kind in results.
    fn kind(self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Pocket => "built_in",
            Self::Task(_) => "task",
            Self::Combination => COMBINATION,
            Self::Samples => SAMPLES,
        }
    }

    /// Whether a seed draws its documents.
    fn is_drawn(self) -> bool {
        match self {
            Self::Combination | Self::Samples => true,
            Self::File(_) | Self::Pocket | Self::Task(_) => false,
        }
    }
}

/// Calibration text as an option: `text.jsonl:num_tokens=4096,seq_len=128`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CalibrationText {
    /// The text.
    pub dataset: String,
    /// Largest number of calibration tokens [default: 40000; of compare 12000].
    #[schemars(range(min = 0, max = bounds::TOKENS))]
    pub num_tokens: Option<usize>,
    /// Length of a calibration window, in tokens.
    #[schemars(range(min = 2, max = bounds::POSITIONS))]
    pub seq_len: usize,
    /// Whether documents start with the beginning-of-sequence token [default: as those of the
    /// evaluation].
    #[schemars(with = "Option<Names<Bos>>")]
    pub bos: Option<Bos>,
    /// Division of windows into training and validation: `rotor_paper` is that of arXiv:2507.11688,
    /// where windows overlap and most validation tokens are also training tokens.
    #[schemars(with = "Names<Split>")]
    pub split: Split,
    /// Read the documents in an order that the seed draws.
    pub shuffle: bool,
}

impl Default for CalibrationText {
    fn default() -> Self {
        Self {
            dataset: String::new(),
            num_tokens: None,
            seq_len: SEQ_LEN,
            bos: None,
            split: Split::Contiguous,
            shuffle: false,
        }
    }
}

impl NameList for Split {
    fn names() -> Vec<Name> {
        vec![
            Name::new("contiguous").with_help("Disjoint windows, the last ones for validation"),
            Name::new("rotor_paper")
                .with_others(&["paper"])
                .with_help("As in the code of arXiv:2507.11688, for comparison only"),
        ]
    }
}

static CALIBRATION: LazyLock<Catalogue> = LazyLock::new(|| {
    let summary = "text to calibrate on, and how much of it";
    Catalogue::with_head::<CalibrationText>("calibration", "dataset", summary)
});

impl Terms for CalibrationText {
    const NAME: &'static str = "calibration";

    fn catalogue() -> &'static Catalogue {
        &CALIBRATION
    }
}

impl CalibrationText {
    /// The file that it names, if it names one.
    pub(crate) fn input(&self) -> Option<PathBuf> {
        input_of(&self.dataset)
    }
}

/// The file that the name of a text names, if it names one.
pub(crate) fn input_of(dataset: &str) -> Option<PathBuf> {
    Dataset::of(dataset).path().map(Path::to_owned)
}

/// Options of calibration text, as the commands have them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CalibrationOptions<'a> {
    /// The model, as the user names it.
    pub(crate) model: &'a str,
    /// What the text is.
    pub(crate) dataset: Option<&'a str>,
    /// Largest number of tokens.
    pub(crate) num_tokens: usize,
    /// Window in tokens.
    pub(crate) seq_len: usize,
    /// Beginning-of-sequence token at the start of documents.
    pub(crate) bos: Bos,
    /// Division of windows.
    pub(crate) split: Split,
    /// Whether the seed draws the order of documents.
    pub(crate) shuffle: bool,
    /// Seed of what is drawn.
    pub(crate) seed: u64,
    /// Whether only the size of the text counts.
    pub(crate) dry_run: bool,
    /// Data of tasks, field of texts, beginning-of-sequence token.
    pub(crate) evaluation: &'a EvaluationOptions,
}

impl<'a> CalibrationOptions<'a> {
    /// The options of a text, of `num_tokens` tokens unless it says how many.
    pub(crate) fn new(
        text: Option<&'a CalibrationText>,
        num_tokens: usize,
        model: &'a str,
        evaluation: &'a EvaluationOptions,
    ) -> Self {
        Self {
            model,
            dataset: text.map(|text| text.dataset.as_str()),
            num_tokens: text.and_then(|text| text.num_tokens).unwrap_or(num_tokens),
            seq_len: text.map_or(SEQ_LEN, |text| text.seq_len),
            bos: text.and_then(|text| text.bos).unwrap_or(evaluation.bos),
            split: text.map_or(Split::Contiguous, |text| text.split),
            shuffle: text.is_some_and(|text| text.shuffle),
            seed: 0,
            dry_run: false,
            evaluation,
        }
    }

    /// Refuses `--text-field` if no text of the command has fields.
    ///
    /// # Errors
    /// [`JobError`].
    pub(crate) fn check_text_field(&self) -> Result<(), JobError> {
        let file = match self.dataset.map(Dataset::of) {
            Some(Dataset::File(name)) => Some(Path::new(name)),
            _ => None,
        };
        self.evaluation.check_text_field(file.as_slice())
    }

    /// What the text is: that of the built-in model by default.
    fn chosen(&self) -> Option<Dataset<'a>> {
        let name = self.dataset.or((self.model == POCKET).then_some(POCKET));
        name.map(Dataset::of)
    }

    /// Whether another seed gives another text.
    pub(crate) fn is_drawn(&self) -> bool {
        self.shuffle || self.chosen().is_some_and(Dataset::is_drawn)
    }

    /// Reads the documents, if they do not need the model; none if no text is named.
    ///
    /// # Errors
    /// [`Failure`] if a file or a task cannot be read, or a task has no correct answers.
    pub(crate) fn open(&self, session: &mut Session<'_>) -> Result<Option<Source<'a>>, Failure> {
        let Some(dataset) = self.chosen() else { return Ok(None) };
        let mut source = Source::new(dataset);
        match dataset {
            Dataset::File(name) => source.add_file(name, self.evaluation, session)?,
            Dataset::Pocket => source.add_file(POCKET, self.evaluation, session)?,
            Dataset::Task(name) => source.add_task(name, self.evaluation, session)?,
            Dataset::Combination => combination::add(&mut source, self, session)?,
            Dataset::Samples => {}
        }
        Ok(Some(source))
    }

    /// The windows of a text.
    ///
    /// # Errors
    /// [`Failure`] without a text or a tokenizer, if a document cannot be encoded, if there is too
    /// little text, if windows are too long for the model, or if it cannot write texts.
    pub(crate) fn windows(
        &self,
        source: Option<Source<'a>>,
        model: &OpenModel,
        session: &mut Session<'_>,
    ) -> Result<Calibration, Failure> {
        let mut source = source.ok_or_else(|| {
            Failure::usage("no calibration text").hint(
                "give --calibration FILE, a text or JSONL file like the inputs of the model in use; \
                 task:NAME; or samples",
            )
        })?;
        let tokenizer = model.loaded.tokenizer.as_ref();
        let tokenizer = tokenizer
            .ok_or_else(|| Failure::general(format!("{} has no tokenizer.json", self.model)))?;
        let tokens = match source.dataset {
            Dataset::Samples => samples::write(self, model, session)?,
            _ => self.encode(&mut source, tokenizer)?,
        };
        let first = tokenizer.first(self.bos)?;
        let windows = Windows::new(&tokens, first, self.seq_len, self.num_tokens, self.split)?;
        windows.check_positions(model.loaded.decoder.config().max_positions)?;
        let record = CalibrationRecord::new(self, &source, tokens.len(), &windows);
        session.detail(|| record.line());
        let notes = match self.split {
            Split::Contiguous => Vec::new(),
            Split::RotorPaper => vec![OVERLAPPING.to_owned()],
        };
        Ok(Calibration { windows, record, notes, documents: source.documents })
    }

    /// Tokens of as many documents as are needed; the others are dropped.
    fn encode(
        &self,
        source: &mut Source<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<Vec<Vec<u32>>, Failure> {
        if self.shuffle {
            let key = RngKey::new(self.seed).fold("calibration documents");
            key.stream().shuffle(&mut source.documents);
        }
        let texts = source.documents.iter().map(|document| document.text.as_str()).enumerate();
        let (bos, longest) = (self.bos, source.longest);
        let tokens = Windows::documents(texts, tokenizer, bos, self.num_tokens, longest);
        let tokens = tokens.map_err(|error| match error {
            WindowsError::Text { line, source: error } => {
                Failure::general(format!("{}: {error}", source.documents[line].place))
            }
            other => other.into(),
        })?;
        source.documents.truncate(tokens.len());
        Ok(tokens)
    }
}

/// Documents to calibrate on, before the model is known.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    dataset: Dataset<'a>,
    documents: Vec<Answered>,
    /// The files that they are from.
    data: Vec<DataUsed>,
    /// Names of the tasks that they are from.
    tasks: Vec<String>,
    /// Largest number of tokens of a document, if it is cut.
    longest: Option<usize>,
}

impl<'a> Source<'a> {
    fn new(dataset: Dataset<'a>) -> Self {
        Self { dataset, documents: Vec::new(), data: Vec::new(), tasks: Vec::new(), longest: None }
    }

    /// Names of the tasks whose documents these are: `--data` may name them.
    pub(crate) fn tasks(&self) -> &[String] {
        &self.tasks
    }

    fn add_file(
        &mut self,
        name: &str,
        evaluation: &EvaluationOptions,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let field = evaluation.text_field.as_deref();
        let (path, field) = text_file(name, "calibration.jsonl", field, session)?;
        let corpus = Corpus::open(&path, field)?;
        // The built-in text is unpacked somewhere else on every machine.
        let name = session.portable(name);
        let placed = |document: Document| Answered {
            place: format!("{name}, line {}", document.line),
            text: document.text,
        };
        self.documents = corpus.documents.into_iter().map(placed).collect();
        self.data = vec![DataUsed { split: "all".into(), path: name, sha256: corpus.sha256 }];
        Ok(())
    }

    fn add_task(
        &mut self,
        name: &str,
        evaluation: &EvaluationOptions,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        for opened in open_answered(evaluation, canonical_task(name), session)? {
            let data = opened.found.data.into_iter();
            self.data
                .extend(data.map(|used| DataUsed { path: session.portable(&used.path), ..used }));
            self.documents.extend(opened.found.documents);
            self.tasks.push(opened.task);
        }
        Ok(())
    }
}

/// Calibration text in windows.
#[derive(Debug)]
pub(crate) struct Calibration {
    /// The windows.
    pub(crate) windows: Windows,
    /// What they are.
    pub(crate) record: CalibrationRecord,
    /// What was told about documents that share words with it.
    pub(crate) notes: Vec<String>,
    /// The documents that they are from; none of samples.
    documents: Vec<Answered>,
}

#[cfg(test)]
mod tests;
