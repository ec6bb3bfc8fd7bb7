//! Options that select evaluation tasks, shared by all commands that evaluate models.

mod judge;
mod laser;
mod open;
mod parts;
mod selection;

pub(crate) use judge::{Judged, before_and_after, check_tasks};
pub(crate) use open::Tasks;
pub(crate) use parts::{Division, Parts};

use crate::args::one_of;
use crate::failure::Failure;
use crate::source::POCKET;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use laser::LaserTaskArgs;
use linwright::data::Format;
use linwright::evaluate::{Bos, DataFile, Join, LaserSet, PROTOCOLS, RunOptions};
use linwright::run::shown;
use std::path::{Path, PathBuf};

/// Options of evaluation tasks.
#[derive(Clone, Debug, Args)]
pub(crate) struct TaskArgs {
    /// Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, CSV,
    /// TSV, Parquet, Arrow), or `pocket`.
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Field or column with the text, in all text files of the command [default: text].
    #[arg(long, alias = "text_field", value_name = "NAME")]
    pub(crate) text_field: Option<String>,
    /// Multiple-choice questions: JSONL, or `pocket`.
    #[arg(long)]
    pub(crate) questions: Option<String>,
    /// Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files.
    #[arg(short, long, alias = "task", value_delimiter = ',', value_name = "TASK",
          value_parser = task_argument)]
    pub(crate) tasks: Vec<String>,
    /// Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`.
    #[arg(long, value_name = "TASK=FILE", value_parser = data_argument)]
    pub(crate) data: Vec<DataFile>,
    /// Number of few-shot examples [default: that of the task].
    #[arg(short = 'f', long, alias = "num_fewshot", value_name = "K")]
    pub(crate) num_fewshot: Option<usize>,
    #[command(flatten)]
    laser: LaserTaskArgs,
    /// Seed of the few-shot examples.
    #[arg(long, alias = "fewshot_seed", default_value_t = 1234)]
    pub(crate) fewshot_seed: u64,
    /// Bootstrap iterations for standard errors that have no formula.
    #[arg(long, alias = "bootstrap_iters", default_value_t = 100_000)]
    pub(crate) bootstrap_iters: usize,
    /// Format prompts with the model's chat template.
    #[arg(long, alias = "apply_chat_template")]
    pub(crate) apply_chat_template: bool,
    /// With the chat template, make each few-shot example a user and an assistant message [default:
    /// all in one message].
    #[arg(long, alias = "fewshot_as_multiturn", requires = "apply_chat_template")]
    pub(crate) fewshot_as_multiturn: bool,
    /// System prompt before each prompt.
    #[arg(long, alias = "system_instruction", value_name = "TEXT")]
    pub(crate) system_instruction: Option<String>,
    /// Context length: longest input in tokens [default: that of the model].
    #[arg(long, alias = "max_length", value_parser = RangedU64ValueParser::<usize>::new().range(2..))]
    pub(crate) max_length: Option<usize>,
    /// Batch size in thousands of tokens; `auto` is 4. It changes speed and memory, but no result.
    #[arg(short, long, alias = "batch_size", default_value = "auto", value_parser = batch)]
    pub(crate) batch_size: usize,
    /// Window of perplexity, in tokens.
    #[arg(long, default_value_t = 512)]
    pub(crate) window: usize,
    /// Stride from one window to the next, in tokens [default: the window].
    #[arg(long)]
    pub(crate) stride: Option<usize>,
    /// Whether documents start with the beginning-of-sequence token; `auto` follows the tokenizer.
    #[arg(long, default_value = "auto", value_parser = one_of(&Bos::ALL, Bos::name))]
    pub(crate) bos: Bos,
    /// Whether documents are scored separately, or joined by a space or a blank line.
    #[arg(long, default_value = "separate", value_parser = one_of(&Join::ALL, Join::name))]
    pub(crate) join: Join,
    /// Evaluate only the documents with these indices, for the named tasks: `{"TASK": [0, 7]}`, as
    /// JSON or as a file.
    #[arg(short = 'E', long, value_name = "FILE|JSON", conflicts_with = "limit")]
    pub(crate) samples: Option<String>,
    /// Evaluate only the first N documents of each task.
    #[arg(short = 'L', long, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) limit: Option<usize>,
}

/// The canonical name of a task; LASER data sets may have the paper's names.
fn task_name(name: &str) -> String {
    LaserSet::named(name).map_or(name, |set| set.name).to_owned()
}

/// [`task_name`] as a value parser.
#[allow(clippy::unnecessary_wraps, reason = "a parser of values may fail")]
fn task_argument(text: &str) -> Result<String, String> {
    Ok(task_name(text))
}

impl TaskArgs {
    /// The input files, which no output may overwrite.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        let texts = [&self.text, &self.questions, &self.samples].into_iter().flatten();
        let data = self.data.iter().map(|data| data.path.clone());
        texts.chain(&self.tasks).map(PathBuf::from).chain(data).collect()
    }

    /// Refuses `--text-field` if no text has fields; `more` are texts besides those of tasks.
    pub(crate) fn check_text_field(&self, more: &[&Path]) -> Result<(), Failure> {
        let Some(field) = &self.text_field else { return Ok(()) };
        let is_text = |data: &&DataFile| PROTOCOLS.iter().any(|named| named.name == data.task);
        let of_tasks = self.data.iter().filter(is_text).map(|data| data.path.as_path());
        let own = self.text.iter().map(Path::new);
        let mut texts = own.chain(of_tasks).chain(more.iter().copied());
        // An unsupported format is reported where the file is read.
        let has_fields =
            |path: &Path| path != Path::new(POCKET) && Format::of(path).ok() != Some(Format::Text);
        if texts.any(has_fields) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--text-field {}: no text of this command has fields",
            shown(field)
        ))
        .hint("it names the text in files of rows: .jsonl, .csv, .tsv, .parquet or .arrow"))
    }
}

/// `TASK=FILE` or `TASK:SPLIT=FILE`.
pub(crate) fn data_argument(text: &str) -> Result<DataFile, String> {
    let expected = "expected TASK=FILE or TASK:SPLIT=FILE";
    let (name, path) = text.split_once('=').ok_or(expected)?;
    let (task, split) = match name.split_once(':') {
        Some((task, split)) => (task, Some(split.to_owned())),
        None => (name, None),
    };
    if task.is_empty() || path.is_empty() || split.as_deref() == Some("") {
        return Err(expected.to_owned());
    }
    Ok(DataFile { task: task_name(task), split, path: PathBuf::from(path) })
}

/// Parses a batch size in thousands of tokens, as tokens.
pub(crate) fn batch(text: &str) -> Result<usize, String> {
    if text == "auto" {
        return Ok(RunOptions::default().max_batch_tokens);
    }
    match text.parse::<usize>() {
        Ok(thousands @ 1..=1_000_000) => Ok(thousands * 1000),
        _ => Err("expected auto, or thousands of tokens from 1 to 1000000".to_owned()),
    }
}
