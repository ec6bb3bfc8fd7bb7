//! Studies of language models.

use super::Study;
use crate::jobs::kit::inputs::{InputHash, is_local};
use crate::jobs::kit::source::{OpenModel, data_file, open_model};
use crate::jobs::kit::{Failure, FailureKind, Outcome, Session, shards};
use crate::jobs::language::calibration::{self, CalibrationOptions, Dataset};
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::offload::open_mapped;
use crate::jobs::language::tasks::{self, check_tasks};
use linwright_data::Corpus;
use linwright_evaluate::{
    DataFile, Task, TaskOptions, TaskResult, canonical_task, open_task, requests_digest,
};
use linwright_run::{DataSource, Provenance};
use linwright_study as study;
use linwright_study::TextTrial;
use linwright_study::recipe::{CalibrationSource, Evaluation, Recipe};
use linwright_study::report::ModelSummary;
use std::path::{Path, PathBuf};

/// A study of a language model.
struct TextStudy<'a> {
    recipe: &'a Recipe,
    trial: TextTrial<'a>,
    /// Notes on items excluded from the tasks.
    left_out: Vec<String>,
}

/// Runs a study of a language model.
pub(in crate::recipes) fn run(
    name: &str,
    recipe: &Recipe,
    output: Option<&Path>,
    dry_run: bool,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    shards::output_of(session, output)?;
    // Estimates read shapes, and time one layer.
    let model = match dry_run {
        true => open_mapped(&recipe.model, session)?,
        false => open_model(&recipe.model, session)?,
    };
    let OpenModel { loaded, place } = &model;
    // Records name the commit of a hub model.
    let recipe = &Recipe { model: place.name.clone(), ..recipe.clone() };
    study::check(recipe, &loaded.decoder)?;
    let Text { corpus: calibration, longest, tasks: beside } = calibration_of(recipe, session)?;
    let mut tasks = open_tasks(recipe, &beside, session)?;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model, &EvaluationOptions::default())?;
    let left_out = study::leave_out_overlap(recipe, &calibration, &mut tasks)?;
    let tokenizer = loaded
        .tokenizer
        .as_ref()
        .ok_or_else(|| Failure::general(format!("{} has no tokenizer.json", recipe.model)))?;
    let (source, tasks) = (&recipe.calibration, tasks.as_slice());
    let calibration = &calibration;
    let trial = TextTrial { model: loaded, tokenizer, calibration, longest, source, tasks };
    super::run(name, &TextStudy { recipe, trial, left_out }, output, dry_run, session)
}

impl<'a> Study for TextStudy<'a> {
    type Calibration = CalibrationSource;
    type Evaluation = Evaluation;
    type Trial = TextTrial<'a>;

    fn recipe(&self) -> &Recipe {
        self.recipe
    }

    fn trial(&self) -> &TextTrial<'a> {
        &self.trial
    }

    fn model(&self) -> ModelSummary {
        let config = self.trial.model.decoder.config();
        ModelSummary {
            name: self.recipe.model.clone(),
            family: config.family.model_type.to_owned(),
            parameters: config.parameters(),
            layers: config.layers.len(),
            hidden: Some(config.hidden),
        }
    }

    fn model_notes(&self) -> Vec<String> {
        self.trial.model.notes.clone()
    }

    fn notes(&self) -> Vec<String> {
        [self.left_out.clone(), study::notes(self.recipe, &self.trial)].concat()
    }

    fn reads(&self) -> Vec<PathBuf> {
        let Recipe { model, calibration, eval, .. } = self.recipe;
        let named = [model, &eval.text].into_iter().chain(&eval.questions).chain(&eval.tasks);
        let data = eval.data.iter().map(|data| data.path.clone());
        let calibration = calibration::input_of(&calibration.dataset);
        let all = named.map(PathBuf::from).chain(data).chain(calibration);
        all.filter(|path| is_local(path)).collect()
    }

    /// Questions of tasks: data sets may be given by name only.
    fn digests(&self) -> Vec<String> {
        self.trial.tasks.iter().map(|task| requests_digest(task.as_ref())).collect()
    }

    fn provenance(
        &self,
        name: &str,
        results: &[TaskResult],
        _read: &[InputHash],
        session: &Session<'_>,
    ) -> Provenance {
        let mut provenance = session.provenance(name, self.trial.model, results);
        provenance.data.push(DataSource {
            purpose: "calibration".into(),
            path: self.recipe.calibration.dataset.clone(),
            sha256: self.trial.calibration.sha256.clone(),
        });
        provenance
    }
}

/// Calibration text of a recipe.
struct Text {
    corpus: Corpus,
    /// Number of tokens after which documents are truncated, if any.
    longest: Option<usize>,
    /// Names of its source tasks.
    tasks: Vec<String>,
}

/// The calibration text of a recipe. The sample drawn from several tasks is the same for all seeds
/// of the recipe, which determine the order.
fn calibration_of(recipe: &Recipe, session: &mut Session<'_>) -> Result<Text, Failure> {
    let CalibrationSource { dataset, text_field, num_tokens, seq_len, .. } = &recipe.calibration;
    if let Dataset::File(_) | Dataset::Pocket = Dataset::of(dataset) {
        let path = data_file(dataset, "calibration.jsonl", session)?;
        let corpus = Corpus::open(&path, text_field.as_deref())?;
        return Ok(Text { corpus, longest: None, tasks: Vec::new() });
    }
    let data = recipe.eval.data.clone();
    let evaluation = EvaluationOptions { data, ..EvaluationOptions::default() };
    let options = CalibrationOptions {
        model: &recipe.model,
        dataset: Some(dataset),
        num_tokens: *num_tokens,
        seq_len: *seq_len,
        bos: recipe.calibration.bos,
        split: recipe.calibration.split,
        shuffle: false,
        seed: 0,
        dry_run: false,
        evaluation: &evaluation,
    };
    let source = options.open(session)?;
    let source = source.ok_or_else(|| Failure::usage("no calibration text"))?;
    let tasks = source.tasks().to_vec();
    let (corpus, longest) = source.into_corpus(dataset)?;
    Ok(Text { corpus, longest, tasks })
}

fn open_tasks(
    recipe: &Recipe,
    beside: &[String],
    session: &mut Session<'_>,
) -> Result<Vec<Box<dyn Task>>, Failure> {
    let eval = &recipe.eval;
    let options = TaskOptions {
        window: eval.window,
        stride: eval.stride.unwrap_or(eval.window),
        bos: eval.bos,
        join: eval.join,
        limit: eval.limit,
        text_field: eval.text_field.clone(),
        ..TaskOptions::default()
    };
    let mut tasks =
        vec![open_task("text", &data_file(&eval.text, "stories-test.jsonl", session)?, &options)?];
    if let Some(questions) = &eval.questions {
        tasks.push(open_task(
            "multiple_choice",
            &data_file(questions, "facts.jsonl", session)?,
            &options,
        )?);
    }
    tasks.extend(named_tasks(recipe, beside, session)?);
    let ids: Vec<String> = tasks.iter().map(|task| task.id()).collect();
    match (1..ids.len()).find(|&index| ids[..index].contains(&ids[index])) {
        None => Ok(tasks),
        Some(index) => Err(Failure::new(
            FailureKind::Recipe,
            format!("eval.tasks: there is a task {} already", ids[index]),
        )),
    }
}

/// The further tasks of a recipe; those in `beside` are only read for calibration.
fn named_tasks(
    recipe: &Recipe,
    beside: &[String],
    session: &mut Session<'_>,
) -> Result<Vec<Box<dyn Task>>, Failure> {
    let Evaluation { tasks, data, num_fewshot, limit, bos, .. } = recipe.eval.clone();
    let is_unread = |data: &DataFile| !beside.contains(&data.task);
    if tasks.is_empty() && (data.iter().any(is_unread) || num_fewshot.is_some()) {
        return Err(Failure::new(
            FailureKind::Recipe,
            "eval.data and eval.num_fewshot apply to eval.tasks, which is empty",
        ));
    }
    let tasks = tasks.iter().map(|name| canonical_task(name).to_owned()).collect();
    let options =
        EvaluationOptions { tasks, data, num_fewshot, limit, bos, ..EvaluationOptions::default() };
    tasks::open_tasks_if_any(&options, beside, session)
}
