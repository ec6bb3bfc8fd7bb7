//! Task files of lm-evaluation-harness, with its prompts, metrics and scores.
//!
//! | file | contents |
//! | --- | --- |
//! | [`description`] | fields of a task file |
//! | [`dataset`] | sources of documents |
//! | [`template`], [`functions`], [`mmlu_pro`] | text from a document |
//! | [`prompt`], [`random`] | contexts and few-shot examples |
//! | [`chat`] | contexts as conversations |
//! | [`generation`] | sampling of answers |
//! | [`filter`], [`choice_letter`] | extraction of an answer from generated texts |
//! | [`metric`], [`translation`], [`edit_rate`] | metrics and aggregations |
//! | [`ifeval`] | the instructions of IFEval |
//! | [`outcome`] | metrics and samples from responses |
//! | [`check`] | validation of task files |
//! | [`group`] | groups of tasks |
//! | [`standard`], [`subject`] | built-in tasks |

mod chat;
mod check;
mod choice_letter;
mod dataset;
mod description;
mod edit_rate;
mod filter;
mod functions;
mod generation;
mod group;
mod ifeval;
mod metric;
mod mmlu_pro;
mod outcome;
mod prompt;
mod random;
mod standard;
mod subject;
mod template;
mod translation;
mod value;
mod yaml;

#[cfg(test)]
mod tests;

pub use chat::ChatPrompts;
pub use check::{Validated, prompt_of_text, validate};
pub use dataset::DataFile;
pub use group::{Selection, TaskGroup};
pub use random::python_shuffle;
pub use standard::{STANDARD_TASKS, StandardTask};
pub(crate) use subject::group_with_data;

use super::request::Cut;
use super::task::keep_at;
use super::{
    Answered, AnsweredDocuments, Bos, DataUsed, EvaluationError, Item, Reply, Request, Task,
    TaskResult,
};
use chat::ChatWriter;
use check::Rules;
use dataset::{Dataset, SharedFiles, Split};
use description::{OutputType, TaskFile};
use filter::Filter;
use functions::{Function, Kind};
use generation::Answers;
use linwright_data::sets::SetSource;
use linwright_run::{sha256_hex, shown};
use metric::MetricRule;
use prompt::{Examples, Located, Prompt, Prompter, output_of, text_of};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Options of tasks from files.
#[derive(Clone, Debug, Default)]
pub struct HarnessOptions<'a> {
    /// Number of few-shot examples; by default that of the file.
    pub shots: Option<usize>,
    /// Number of documents to score, from the first; by default all.
    pub limit: Option<usize>,
    /// Score only the documents with these indices (from zero), by task name.
    pub samples: BTreeMap<String, Vec<usize>>,
    /// Beginning-of-sequence token.
    pub bos: Bos,
    /// Data files by task, instead of those of the task file.
    pub data: Vec<DataFile>,
    /// Source of data sets by name.
    pub sets: Option<&'a dyn SetSource>,
    /// Seed for drawing examples; 1234 by default, as in the harness.
    pub shots_seed: Option<u64>,
    /// Seed for sampling answers; 1234 by default.
    pub sampling_seed: Option<u64>,
    /// Bootstrap samples for standard errors without a formula; 100,000 by default, as in the
    /// harness.
    pub bootstrap: Option<usize>,
    /// System instruction of all prompts.
    pub instruction: String,
    /// Chat template for prompts.
    pub chat: Option<ChatPrompts<'a>>,
    /// Whether documents are those to learn from, not those to score: of the training split if
    /// there are data for it, otherwise of the validation split or else of the test split.
    pub to_learn_from: bool,
}

/// A task with its prompts.
#[derive(Clone, Debug)]
pub struct HarnessTask {
    file: TaskFile,
    output: OutputType,
    prompts: Vec<Prompt>,
    multiple_targets: bool,
    metrics: Vec<MetricRule>,
    filters: Vec<Filter>,
    results: Option<&'static Function>,
    answers: Answers,
    bos: Bos,
    shots: usize,
    /// Source of its documents, without the documents.
    split: Split,
    original: usize,
    bootstrap: usize,
    /// Form of the prompts, as part of the protocol.
    form: String,
    /// Delimiter between a context and its continuation.
    target_delimiter: String,
}

impl HarnessTask {
    /// Opens one task by the path of its file or the name of a built-in task.
    ///
    /// # Errors
    /// [`EvaluationError`], naming the file or document.
    pub fn open(name: &str, options: &HarnessOptions<'_>) -> Result<Self, EvaluationError> {
        Self::new(group::task_file(name)?, options, &SharedFiles::default())
    }

    fn new(
        file: TaskFile,
        options: &HarnessOptions<'_>,
        shared: &SharedFiles,
    ) -> Result<Self, EvaluationError> {
        let d = &file.description;
        let seed = options.sampling_seed.unwrap_or(generation::SEED);
        let Rules { scored, process, results, metrics, filters, answers } = Rules::of(&file, seed)?;
        let (given, sets) = (options.data.as_slice(), options.sets);
        let dataset = Dataset { file: &file, given, sets, scored: &scored, shared };
        let mut split = match options.to_learn_from {
            true => dataset.split_to_learn_from(process)?,
            false => dataset.split(&scored, process)?,
        };
        let first = split.documents.first();
        let first = first.ok_or_else(|| file.wrong(format!("split {scored} has no documents")))?;
        let prompter = Prompter::new(&file, first, &options.instruction, options.chat)?;
        let shots = options.shots.or(d.num_fewshot).unwrap_or(0);
        let seed = options.shots_seed.unwrap_or(1234);
        let examples = examples(&dataset, process, shots, seed, &mut split)?;
        let original = split.documents.len();
        let chosen = chosen(&file, std::mem::take(&mut split.documents), options)?;
        let prompts = prompter.prompts(chosen, &examples)?;
        check_documents(&file, results, &prompts)?;
        let form = prompt_form(options, prompter.chat.as_ref());
        if output_of(d) == OutputType::GenerateUntil {
            split.notes.extend(answers.note());
        }
        Ok(Self {
            output: output_of(d),
            metrics,
            filters,
            multiple_targets: prompter.multiple_targets,
            prompts,
            results,
            answers,
            bos: options.bos,
            shots,
            split,
            original,
            bootstrap: options.bootstrap.unwrap_or(100_000),
            form,
            target_delimiter: target_delimiter(&file, options.chat.is_some()),
            file,
        })
    }

    /// Number of few-shot examples.
    #[must_use]
    pub fn shots(&self) -> usize {
        self.shots
    }

    /// Fields of its file.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        &self.file.fields
    }

    /// Name of its output type.
    fn protocol(&self) -> String {
        let (shots, bos, form) = (self.shots, self.bos.name(), &self.form);
        let is_generated = self.output == OutputType::GenerateUntil;
        let seed = self.answers.seed().filter(|_| is_generated);
        let sampled = seed.map_or(String::new(), |seed| format!("_sampled-with-seed-{seed}"));
        format!("lm-eval_{shots}-shot_bos-{bos}{form}{sampled}")
    }

    /// The correct answer of a document after its context, if it has one.
    fn right(&self, prompt: &Prompt) -> Option<String> {
        let context = |index: usize| prompt.contexts.get(index).map_or("", String::as_str);
        let delimiter = &self.target_delimiter;
        let target = match &prompt.target {
            Value::Array(several) => several.first()?,
            single => single,
        };
        let answer = || text_of(target.clone());
        match self.output {
            // Scored by rules, without a correct answer.
            _ if self.results.is_some_and(|function| matches!(function.kind, Kind::Answer(_))) => {
                None
            }
            OutputType::Loglikelihood => Some(format!("{}{}", context(0), answer())),
            OutputType::LoglikelihoodRolling => Some(answer()),
            OutputType::GenerateUntil => {
                let choice = target.as_u64().and_then(|index| prompt.choices.get(index as usize));
                let answer = choice.cloned().unwrap_or_else(answer);
                Some(chat::joined(context(0), &answer, delimiter))
            }
            OutputType::MultipleChoice => {
                let gold = prompt.gold.iter().find_map(|gold| *gold)?;
                match self.has_context_per_choice(prompt) {
                    true => Some(format!("{}{delimiter}{}", context(gold), answer())),
                    false => {
                        Some(format!("{}{delimiter}{}", context(0), prompt.choices.get(gold)?))
                    }
                }
            }
        }
    }

    /// Whether the choices of a document are contexts before one target.
    fn has_context_per_choice(&self, prompt: &Prompt) -> bool {
        prompt.contexts.len() == prompt.choices.len() && prompt.contexts.len() > 1
    }

    fn requests<'a>(&'a self, prompt: &'a Prompt) -> Vec<Request<'a>> {
        let likelihood = |context: &'a str, continuation: String| Request::LogLikelihood {
            context: Cow::Borrowed(context),
            continuation: Cow::Owned(continuation),
            details: None,
        };
        let context = || prompt.contexts.first().map_or("", String::as_str);
        match self.output {
            OutputType::Loglikelihood => {
                vec![likelihood(context(), text_of(prompt.target.clone()))]
            }
            OutputType::LoglikelihoodRolling => vec![Request::Rolling {
                text: Cow::Owned(text_of(prompt.target.clone())),
                cut: Cut::Harness,
            }],
            OutputType::GenerateUntil => {
                let generate = |repeat| Request::Generate {
                    context: Cow::Borrowed(context()),
                    generation: self.answers.generation(prompt.index, repeat),
                };
                (0..self.answers.repeats).map(generate).collect()
            }
            OutputType::MultipleChoice => {
                let delimiter = &self.target_delimiter;
                let mut requests: Vec<_> = if self.has_context_per_choice(prompt) {
                    let target = text_of(prompt.target.clone());
                    let continuation = format!("{delimiter}{target}");
                    let contexts = prompt.contexts.iter();
                    contexts.map(|context| likelihood(context, continuation.clone())).collect()
                } else {
                    let choices = prompt.choices.iter();
                    choices.map(|c| likelihood(context(), format!("{delimiter}{c}"))).collect()
                };
                if self.metrics.iter().any(|rule| rule.name == "acc_mutual_info") {
                    let alone = |choice: &String| likelihood("", format!("{delimiter}{choice}"));
                    requests.extend(prompt.choices.iter().map(alone));
                }
                requests
            }
        }
    }
}

impl Task for HarnessTask {
    fn id(&self) -> String {
        self.file.description.task.clone()
    }

    fn version(&self) -> f64 {
        let version = self.file.description.metadata.as_ref().and_then(|m| m.get("version"));
        version.and_then(Value::as_f64).unwrap_or(0.0)
    }

    fn bos(&self) -> Bos {
        self.bos
    }

    fn items(&self) -> Vec<Item<'_>> {
        let item = |prompt| Item {
            place: place(prompt),
            requests: self.requests(prompt),
            own: &prompt.own,
        };
        self.prompts.iter().map(item).collect()
    }

    fn answered(&self) -> Option<AnsweredDocuments> {
        let answered = |prompt: &Prompt| {
            let right = self.right(prompt)?;
            Some(Answered { place: prompt.place.clone(), text: right })
        };
        let documents: Option<Vec<Answered>> = self.prompts.iter().map(answered).collect();
        Some(AnsweredDocuments { documents: documents?, data: self.split.files.clone() })
    }

    fn only(&self, indices: &[usize]) -> Option<Box<dyn Task>> {
        let mut part = self.clone();
        keep_at(&mut part.prompts, indices);
        Some(Box::new(part))
    }

    fn score(&self, replies: &[Vec<Reply>], bos_used: bool) -> Result<TaskResult, EvaluationError> {
        outcome::result(self, replies, bos_used)
    }
}

/// Form of the prompts, if not plain.
fn prompt_form(options: &HarnessOptions<'_>, chat: Option<&ChatWriter<'_>>) -> String {
    let mut form = String::new();
    if let (Some(prompts), Some(writer)) = (options.chat, chat) {
        form.push_str(if prompts.multiturn { "_chat-multiturn" } else { "_chat" });
        if writer.without_system.get() {
            form.push_str("-without-system");
        }
    }
    if !options.instruction.is_empty() {
        form.push_str("_system-instruction");
    }
    form
}

/// Delimiter before a choice: empty in a conversation, unless the answer has begun.
fn target_delimiter(file: &TaskFile, is_chat: bool) -> String {
    let d = &file.description;
    let begun = d.gen_prefix.as_deref().filter(|prefix| !prefix.is_empty());
    let has_room = begun.is_some_and(|prefix| !prefix.ends_with(char::is_whitespace));
    if is_chat && !has_room { String::new() } else { d.target_delimiter.clone() }
}

fn place(prompt: &Prompt) -> String {
    prompt.place.clone()
}

/// Documents to score, with their indices: the first ones, or those selected.
fn chosen(
    file: &TaskFile,
    documents: Vec<Located>,
    options: &HarnessOptions<'_>,
) -> Result<Vec<(usize, Located)>, EvaluationError> {
    let count = documents.len();
    let limit = options.limit.unwrap_or(usize::MAX);
    let Some(indices) = options.samples.get(&file.description.task) else {
        return Ok(documents.into_iter().enumerate().take(limit).collect());
    };
    let wanted: BTreeSet<usize> = indices.iter().copied().collect();
    if let Some(index) = wanted.iter().find(|&&index| index >= count) {
        let last = count - 1;
        return Err(file.wrong(format!("samples name document {index}, there are 0 to {last}")));
    }
    if wanted.is_empty() || wanted.len() < indices.len() {
        let reason = if wanted.is_empty() { "no document" } else { "a document twice" };
        return Err(file.wrong(format!("samples name {reason}")));
    }
    // In the order of the split, as in the harness.
    let is_wanted = |(index, _): &(usize, Located)| wanted.contains(index);
    Ok(documents.into_iter().enumerate().filter(is_wanted).collect())
}

/// Source of the few-shot examples. Adds notes on their data to `scored`.
fn examples(
    dataset: &Dataset<'_>,
    process: Option<&Function>,
    count: usize,
    seed: u64,
    scored: &mut Split,
) -> Result<Examples, EvaluationError> {
    let (file, d) = (dataset.file, &dataset.file.description);
    let fewshot = d.fewshot_config.clone().unwrap_or_default();
    let first = match fewshot.sampler.as_deref() {
        None | Some("default") => false,
        Some("first_n") => true,
        Some(other) => {
            let reason =
                format!("sampler \"{}\" is unknown; known are default and first_n", shown(other));
            return Err(file.wrong(reason));
        }
    };
    let own_split = fewshot.split.or_else(|| d.fewshot_split.clone());
    let mut examples = Examples {
        documents: Vec::new(),
        count,
        first,
        without_itself: own_split == d.test_split,
        seed,
    };
    if count == 0 {
        return Ok(examples);
    }
    let process = match fewshot.process_docs.as_deref() {
        Some(function) => Some(file.function_of("process_docs", function)?),
        None => process,
    };
    let mut of_split = |name: &str| -> Result<Vec<Located>, EvaluationError> {
        let split = dataset.split(name, process)?;
        let new = |file: &DataUsed| !scored.files.contains(file);
        let files: Vec<DataUsed> = split.files.into_iter().filter(new).collect();
        if !files.is_empty() {
            scored.notes.extend(split.notes);
        }
        scored.files.extend(files);
        Ok(split.documents)
    };
    examples.documents = match (own_split, fewshot.samples) {
        (Some(split), _) => of_split(&split)?,
        (None, Some(samples)) => {
            let located = |(index, fields)| Located {
                fields,
                place: format!("{}, sample {index}", file.origin),
            };
            samples.into_iter().enumerate().map(located).collect()
        }
        (None, None) => {
            let split = d.training_split.as_deref().or(d.validation_split.as_deref());
            of_split(split.unwrap_or(dataset.scored))?
        }
    };
    if let Some(indices) = fewshot.fewshot_indices {
        let chosen = indices.iter().map(|&index| examples.documents.get(index).cloned());
        let chosen: Option<Vec<_>> = chosen.collect();
        examples.documents =
            chosen.ok_or_else(|| file.wrong("fewshot_indices point behind the last example"))?;
    }
    Ok(examples)
}

/// Hash of the fields of a task's file.
fn task_hash(file: &TaskFile) -> String {
    sha256_hex(Value::Object(file.fields.clone()).to_string().as_bytes())
}

/// Checks documents that a function scores by their answers.
fn check_documents(
    file: &TaskFile,
    results: Option<&Function>,
    prompts: &[Prompt],
) -> Result<(), EvaluationError> {
    let Some(Kind::Answer(scorer)) = results.map(|function| &function.kind) else { return Ok(()) };
    for prompt in prompts {
        (scorer.check)(&prompt.fields).map_err(|reason| EvaluationError::Document {
            place: place(prompt),
            task: file.description.task.clone(),
            field: "process_results".into(),
            reason,
        })?;
    }
    Ok(())
}
