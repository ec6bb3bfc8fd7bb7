//! What to measure, as options: shared by all commands that judge models.

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

/// Options of tasks.
#[derive(Clone, Debug, Args)]
pub(crate) struct TaskArgs {
    /// Text for perplexity: a file taken as one document, rows with a `text` field (JSONL, CSV,
    /// TSV, Parquet, Arrow), or `pocket`.
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// The field or column that holds the text, in all texts that are read [default: text].
    #[arg(long, alias = "text_field", value_name = "NAME")]
    pub(crate) text_field: Option<String>,
    /// Questions with choices: JSONL, or `pocket`.
    #[arg(long)]
    pub(crate) questions: Option<String>,
    /// Tasks of the evaluation harness: names (see `linwright ls tasks`) and paths of task files.
    #[arg(short, long, alias = "task", value_delimiter = ',', value_name = "TASK",
          value_parser = task_argument)]
    pub(crate) tasks: Vec<String>,
    /// Rows of a task's data set: `TASK=FILE`, or `TASK:SPLIT=FILE`.
    #[arg(long, value_name = "TASK=FILE", value_parser = data_argument)]
    pub(crate) data: Vec<DataFile>,
    /// Examples before each document of a task [default: as its file says].
    #[arg(short = 'f', long, alias = "num_fewshot", value_name = "K")]
    pub(crate) num_fewshot: Option<usize>,
    #[command(flatten)]
    laser: LaserTaskArgs,
    /// Seed by which examples are drawn.
    #[arg(long, alias = "fewshot_seed", default_value_t = 1234)]
    pub(crate) fewshot_seed: u64,
    /// Draws for standard errors that have no formula.
    #[arg(long, alias = "bootstrap_iters", default_value_t = 100_000)]
    pub(crate) bootstrap_iters: usize,
    /// Write prompts by the model's chat template.
    #[arg(long, alias = "apply_chat_template")]
    pub(crate) apply_chat_template: bool,
    /// In a chat, make each example a question and an answer of their own [default: one message].
    #[arg(long, alias = "fewshot_as_multiturn", requires = "apply_chat_template")]
    pub(crate) fewshot_as_multiturn: bool,
    /// What the system says before each prompt.
    #[arg(long, alias = "system_instruction", value_name = "TEXT")]
    pub(crate) system_instruction: Option<String>,
    /// Longest input in tokens [default: that of the model].
    #[arg(long, alias = "max_length", value_parser = RangedU64ValueParser::<usize>::new().range(2..))]
    pub(crate) max_length: Option<usize>,
    /// Tokens that the model sees at once, in thousands; `auto` is 4. It changes speed and memory,
    /// and no figure.
    #[arg(short, long, alias = "batch_size", default_value = "auto", value_parser = batch)]
    pub(crate) batch_size: usize,
    /// Tokens in a window.
    #[arg(long, default_value_t = 512)]
    pub(crate) window: usize,
    /// Tokens from one window to the next [default: the window].
    #[arg(long)]
    pub(crate) stride: Option<usize>,
    /// Whether documents start with the beginning-of-sequence token; `auto` does what the tokenizer
    /// does by itself.
    #[arg(long, default_value = "auto", value_parser = one_of(&Bos::ALL, Bos::name))]
    pub(crate) bos: Bos,
    /// Whether documents are scored one by one, or joined by a space or a blank line.
    #[arg(long, default_value = "separate", value_parser = one_of(&Join::ALL, Join::name))]
    pub(crate) join: Join,
    /// Only the documents of these indices, for the tasks that it names: `{"TASK": [0, 7]}`, as
    /// JSON or as a file.
    #[arg(short = 'E', long, value_name = "FILE|JSON", conflicts_with = "limit")]
    pub(crate) samples: Option<String>,
    /// Only this many documents and questions, from the start.
    #[arg(short = 'L', long, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) limit: Option<usize>,
}

/// The name of a task as the tables have it: that of a set of LASER's may be the paper's.
fn task_name(name: &str) -> String {
    LaserSet::named(name).map_or(name, |set| set.name).to_owned()
}

/// [`task_name`] of an argument, in the form that the parser wants.
#[allow(clippy::unnecessary_wraps, reason = "a parser of values may fail")]
fn task_argument(text: &str) -> Result<String, String> {
    Ok(task_name(text))
}

impl TaskArgs {
    /// The files that are named, which no output may replace.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        let texts = [&self.text, &self.questions, &self.samples].into_iter().flatten();
        let data = self.data.iter().map(|data| data.path.clone());
        texts.chain(&self.tasks).map(PathBuf::from).chain(data).collect()
    }

    /// Refuses a field for texts of which none has any; `more` are texts beside those of tasks.
    pub(crate) fn check_text_field(&self, more: &[&Path]) -> Result<(), Failure> {
        let Some(field) = &self.text_field else { return Ok(()) };
        let is_text = |data: &&DataFile| PROTOCOLS.iter().any(|named| named.name == data.task);
        let of_tasks = self.data.iter().filter(is_text).map(|data| data.path.as_path());
        let own = self.text.iter().map(Path::new);
        let mut texts = own.chain(of_tasks).chain(more.iter().copied());
        // A format that is refused is told of where the file is read.
        let has_fields =
            |path: &Path| path != Path::new(POCKET) && Format::of(path).ok() != Some(Format::Text);
        if texts.any(has_fields) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--text-field {}: no text that is read has fields",
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

/// Thousands of tokens in a batch, as tokens.
pub(crate) fn batch(text: &str) -> Result<usize, String> {
    if text == "auto" {
        return Ok(RunOptions::default().max_batch_tokens);
    }
    match text.parse::<usize>() {
        Ok(thousands @ 1..=1_000_000) => Ok(thousands * 1000),
        _ => Err("expected auto, or thousands of tokens from 1 to 1000000".to_owned()),
    }
}
