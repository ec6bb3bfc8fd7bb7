//! Options of evaluation tasks, of all jobs that evaluate models.

use crate::jobs::kit::named::Names;
use crate::jobs::kit::{BatchSize, JobError, bounds};
use crate::jobs::language::chat_template::ChatTemplateOptions;
use linwright_data::Format;
use linwright_evaluate::{Bos, DataFile, Join, Scoring, Split, TaskOption, canonical_task, entry};
use linwright_run::shown;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};

/// Stands for the built-in model and its data, and as a task for its questions.
const POCKET: &str = "pocket";

/// The task of a file of questions, which `--data questions=FILE` names.
pub(in crate::jobs) const QUESTIONS: &str = "questions";

/// Tasks, their data, and how prompts are made and scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvaluationOptions {
    /// Text for perplexity: a plain file as one document, rows with a `text` field (JSONL, JSON,
    /// CSV, TSV, Parquet, Arrow), either also in gzip (`.gz`), or `pocket`.
    pub text: Option<String>,
    /// More texts for perplexity, each a task of its own: `text:wiki` for `wiki.jsonl`.
    #[schemars(extend(
        "x-value" = "FILE", "x-path" = true, "x-whole" = true, "x-many" = true,
        "x-requires" = ["text"]
    ))]
    pub more_texts: Vec<String>,
    /// Field or column with the text, in all text files of the command [default: text].
    #[schemars(extend("x-value" = "NAME"))]
    pub text_field: Option<String>,
    /// Tasks of lm-evaluation-harness: names (see `linwright ls tasks`) and paths of task files;
    /// `questions`, multiple choice and completions of a JSONL file (`--data questions=FILE`), and
    /// `pocket`, those of the built-in model.
    #[serde(deserialize_with = "canonical_tasks")]
    #[schemars(extend("x-short" = "t", "x-aliases" = ["task"], "x-value" = "TASK"))]
    pub tasks: Vec<String>,
    /// Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`; `questions=FILE` of
    /// multiple-choice questions in JSONL, and `multiple_choice=pocket` of those of the built-in
    /// model.
    #[schemars(
        with = "Vec<String>",
        extend("x-value" = "TASK=FILE", "x-whole" = true, "x-pairs" = true, "examples" = ["a:test=b.jsonl"])
    )]
    pub data: Vec<DataFile>,
    /// Number of few-shot examples [default: that of the task].
    #[schemars(extend("x-short" = "f", "x-value" = "K"))]
    #[schemars(range(min = 0, max = bounds::FEWSHOT))]
    pub num_fewshot: Option<usize>,
    /// Scoring of `laser_` tasks: `correct` scores the generated answer, `compat` reproduces the
    /// paper's code, including its defects.
    #[schemars(with = "Names<Scoring>")]
    pub laser_scoring: Scoring,
    /// Largest number of generated tokens in `laser_` tasks with generated answers; with 1 the most
    /// likely token must be the answer [default: that of the data set].
    #[schemars(range(min = 1, max = bounds::POSITIONS), extend("x-value" = "N"))]
    pub laser_new_tokens: Option<usize>,
    /// Records of `laser_` tasks to use: `validation` is the first fifth, in the order of the
    /// files, `test` the rest.
    #[schemars(with = "Names<Split>")]
    pub laser_split: Split,
    /// Seed of the few-shot examples.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub fewshot_seed: u64,
    /// Bootstrap iterations for standard errors that have no formula.
    #[schemars(range(min = 0, max = bounds::DRAWS))]
    pub bootstrap_iters: usize,
    /// Format prompts with the model's chat template.
    pub apply_chat_template: bool,
    /// With the chat template, make each few-shot example a user and an assistant message [default:
    /// all in one message].
    #[schemars(extend("x-requires" = ["apply_chat_template"]))]
    pub fewshot_as_multiturn: bool,
    /// What the chat template gets.
    #[serde(flatten)]
    pub template: ChatTemplateOptions,
    /// System prompt before each prompt.
    #[schemars(extend("x-value" = "TEXT"))]
    pub system_instruction: Option<String>,
    /// Context length: longest input in tokens [default: that of the model].
    #[schemars(range(min = 2, max = bounds::POSITIONS))]
    pub max_length: Option<usize>,
    /// Batch size in thousands of tokens; `auto` is 4. It changes speed and memory, but no result.
    #[schemars(extend("x-short" = "b"))]
    pub batch_size: BatchSize,
    /// Window of perplexity, in tokens.
    #[schemars(range(min = 0, max = bounds::POSITIONS))]
    pub window: usize,
    /// Stride from one window to the next, in tokens [default: the window].
    #[schemars(range(min = 0, max = bounds::POSITIONS))]
    pub stride: Option<usize>,
    /// Count only the tokens after the first half of each window, as `llama-perplexity` does: whole
    /// windows of one text side by side, and `--limit` is their number.
    #[schemars(extend("x-conflicts" = ["stride"]))]
    pub second_half: bool,
    /// Whether documents, and windows of texts, start with the beginning-of-sequence token; `auto`
    /// follows the tokenizer.
    #[schemars(with = "Names<Bos>")]
    pub bos: Bos,
    /// Whether documents are scored separately, or joined by a space or a blank line.
    #[schemars(with = "Names<Join>")]
    pub join: Join,
    /// Evaluate only the documents with these indices, for the named tasks: `{"TASK": [0, 7]}`, as
    /// JSON or as a file.
    #[schemars(extend("x-short" = "E", "x-value" = "FILE|JSON", "x-conflicts" = ["limit"]))]
    pub samples: Option<String>,
    /// Evaluate only the first N documents of each task.
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-short" = "L"))]
    pub limit: Option<usize>,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self {
            text: None,
            more_texts: Vec::new(),
            text_field: None,
            tasks: Vec::new(),
            data: Vec::new(),
            num_fewshot: None,
            laser_scoring: Scoring::default(),
            laser_new_tokens: None,
            laser_split: Split::default(),
            fewshot_seed: 1234,
            bootstrap_iters: 100_000,
            apply_chat_template: false,
            fewshot_as_multiturn: false,
            template: ChatTemplateOptions::default(),
            system_instruction: None,
            max_length: None,
            batch_size: BatchSize::Auto,
            window: 512,
            stride: None,
            second_half: false,
            bos: Bos::Auto,
            join: Join::Separate,
            samples: None,
            limit: None,
        }
    }
}

/// Names of tasks; LASER data sets may have the paper's names.
fn canonical_tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    Ok(names.iter().map(|name| canonical_task(name).to_owned()).collect())
}

impl EvaluationOptions {
    /// The input files, which no output may overwrite.
    #[must_use]
    pub fn inputs(&self) -> Vec<PathBuf> {
        let texts = [&self.text, &self.samples].into_iter().flatten();
        let data = self.data.iter().map(|data| data.path.clone());
        let is_file = |task: &&String| ![QUESTIONS, POCKET].contains(&task.as_str());
        let tasks = self.tasks.iter().filter(is_file);
        let texts = texts.chain(&self.more_texts).chain(tasks);
        texts.map(PathBuf::from).chain(data).collect()
    }

    /// Refuses `text_field` if no text has fields; `more` are texts besides those of tasks.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn check_text_field(&self, more: &[&Path]) -> Result<(), JobError> {
        let Some(field) = &self.text_field else { return Ok(()) };
        let is_text = |data: &&DataFile| entry(&data.task).reads(TaskOption::TextField);
        let of_tasks = self.data.iter().filter(is_text).map(|data| data.path.as_path());
        let own = self.text.iter().chain(&self.more_texts).map(Path::new);
        let mut texts = own.chain(of_tasks).chain(more.iter().copied());
        // An unsupported format is reported where the file is read.
        let has_fields =
            |path: &Path| path != Path::new(POCKET) && Format::of(path) != Format::Text;
        if texts.any(has_fields) {
            return Ok(());
        }
        let field = shown(field);
        Err(JobError::new(format!("--text-field {field}: no text of this command has fields"))
            .hint("it names the text in files of rows: .jsonl, .csv, .tsv, .parquet or .arrow"))
    }
}
