//! Scores of the model and of the baseline.
//!
//! Both models read each text together, batch by batch, so that their predictions can be compared
//! token by token; they answer all other tasks one after the other. Without a text, one model at a
//! time is in memory.

use super::{Eval, overlap};
use crate::jobs::kit::source::{OpenModel, find_model, open_model_as};
use crate::jobs::kit::{ByteSize, Failure, FailureKind, Session, shards};
use crate::jobs::language::eval::scores::check_samples;
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::tasks::{check_tasks, open_tasks};
use linwright_data::Overlap;
use linwright_evaluate::room::{self, NoRoom, Texts};
use linwright_evaluate::{
    Compared, EvaluationError, FileJournal, Hooks, Journal, LanguageModel, LanguageModels,
    LogitsFile, LogitsWriter, OpenTasks, Outcome, ParameterCounts, Prompting, Recorded, RunOptions,
    Several, Subject, Task, TaskGroup, TaskResult, evaluate_each, is_text, journal_fingerprint,
    windows_of,
};
use linwright_model::checkpoint::{LoadedModel, configuration};
use linwright_ops::{Network, Sites};
use linwright_run::atomic::Replace;
use linwright_run::memory::resident_bytes;
use linwright_run::store::Unfinished;
use linwright_run::{DataSource, JournalError, Monitor, Provenance};
use std::path::Path;

/// Results of both models, or how far a shard brought them.
pub(super) struct Scored {
    /// The model.
    about: About,
    /// Its results by task; none where batches of other shards are missing.
    results: Vec<Option<TaskResult>>,
    /// Time of its evaluations, and of those in which the baseline reads the same text.
    seconds: f64,
    /// Results of the baseline by task.
    baseline: Option<Vec<Option<TaskResult>>>,
    /// Known batches, and all of them.
    pub(super) batches: [usize; 2],
}

/// Results of the model.
pub(super) struct ModelScored {
    pub(super) about: About,
    pub(super) results: Vec<TaskResult>,
    pub(super) seconds: f64,
}

/// Properties of the model that its result states; they outlive it in memory.
pub(super) struct About {
    pub(super) name: String,
    pub(super) provenance: Provenance,
    pub(super) prompting: Prompting,
    pub(super) parameters: ParameterCounts,
    pub(super) positions: usize,
    pub(super) groups: Vec<TaskGroup>,
}

impl Scored {
    /// The results of the model and of the baseline, where no batch is missing.
    pub(super) fn complete(self) -> Result<(ModelScored, Option<Vec<TaskResult>>), Failure> {
        // Batches are missing where only a shard leaves some out.
        let all = |results: Vec<Option<TaskResult>>| {
            let results: Option<Vec<TaskResult>> = results.into_iter().collect();
            let missing = "the evaluation is incomplete, though it is not divided into shards";
            let results = results.ok_or_else(|| Failure::general(missing))?;
            results.iter().try_for_each(TaskResult::check_finite)?;
            Ok::<_, Failure>(results)
        };
        let (about, seconds) = (self.about, self.seconds);
        let model = ModelScored { about, results: all(self.results)?, seconds };
        Ok((model, self.baseline.map(all).transpose()?))
    }
}

/// A model that is open, with its tasks.
struct Asked {
    model: OpenModel,
    /// The tasks, if the chat template of the model writes their prompts.
    chat: Option<OpenTasks>,
}

impl Asked {
    fn subject(&self, job: &Eval) -> Result<Subject<'_>, Failure> {
        let subject = Subject::new(&self.model.loaded.decoder, self.model.tokenizer()?);
        let subject = subject.with_max_length(job.evaluation.max_length);
        Ok(subject.with_sentence(self.model.sentence()))
    }
}

/// Scores models on the tasks of a job.
pub(super) struct Scoring<'a> {
    pub(super) job: &'a Eval,
    /// The model, where it was needed before.
    pub(super) first: Option<OpenModel>,
    /// The file of log-probabilities that is the baseline.
    file: Option<LogitsFile>,
    /// Positions of the baseline.
    positions: Option<usize>,
    /// The tasks, unless the chat template of the model writes their prompts.
    plain: Option<OpenTasks>,
    /// The responses until the result is written.
    pub(super) unfinished: Unfinished,
    /// Overlap of the tasks with calibration text, once it is known, and the files of that text.
    pub(super) overlap: Option<(Vec<Overlap>, Vec<DataSource>)>,
}

impl<'a> Scoring<'a> {
    pub(super) fn new(
        job: &'a Eval,
        first: Option<OpenModel>,
        plain: Option<OpenTasks>,
        file: Option<LogitsFile>,
        unfinished: Unfinished,
    ) -> Self {
        Self { job, first, file, positions: None, plain, unfinished, overlap: None }
    }

    /// Scores the model, and the baseline where one is given.
    pub(super) fn score(&mut self, session: &mut Session<'_>) -> Result<Scored, Failure> {
        let job = self.job;
        if let Some(path) = &job.save_logits {
            return self.score_to_file(path, session);
        }
        if let Some(file) = self.file.take() {
            return self.score_against_file(&file, session);
        }
        // That the baseline is there and can be read is known before any work.
        self.positions = job.baseline.as_deref().map(|b| positions(b, session)).transpose()?;
        let model = self.open(&job.model, session)?;
        let tasks = &self.tasks(&model).all;
        let texts: Vec<bool> =
            tasks.iter().map(|task| job.baseline.is_some() && is_text(task.as_ref())).collect();
        let (mut own, mut dense) = (Answers::of(tasks.len()), Answers::of(tasks.len()));
        self.alone(&model, &mut own, &|index| !texts[index], session)?;
        let about = self.about(&model, session);
        let Some(name) = &job.baseline else { return Ok(own.scored(about, None)) };
        // The model stays in memory only for texts that both read.
        let model = texts.contains(&true).then_some(model);
        let baseline = self.open(name, session)?;
        let mut together = false;
        if let Some(model) = &model {
            let reason = self.why_apart(model, &baseline, &texts)?;
            together = reason.is_none();
            match reason {
                None => {
                    let answers = [&mut dense, &mut own];
                    self.together([&baseline, model], answers, &texts, session)?;
                }
                Some(reason) => {
                    session.note(&format!("note: no divergence from the baseline: {reason}"));
                    self.alone(model, &mut own, &|index| texts[index], session)?;
                }
            }
        }
        drop(model);
        self.alone(&baseline, &mut dense, &|index| !(together && texts[index]), session)?;
        Ok(own.scored(about, Some(dense)))
    }

    /// Scores the model on a text, and writes its log-probabilities.
    fn score_to_file(&mut self, path: &Path, session: &mut Session<'_>) -> Result<Scored, Failure> {
        let model = self.open(&self.job.model, session)?;
        let mut own = Answers::of(self.tasks(&model).all.len());
        self.recorded(&model, path, &mut own, session)?;
        Ok(own.scored(self.about(&model, session), None))
    }

    /// Scores the model on a text, and compares it with the log-probabilities of a file.
    fn score_against_file(
        &mut self,
        file: &LogitsFile,
        session: &mut Session<'_>,
    ) -> Result<Scored, Failure> {
        let model = self.open(&self.job.model, session)?;
        let tasks = self.tasks(&model).all.len();
        let (mut dense, mut own) = (Answers::of(tasks), Answers::of(tasks));
        self.against_file(&model, file, [&mut dense, &mut own], session)?;
        Ok(own.scored(self.about(&model, session), Some(dense)))
    }

    /// Opens a model, and checks that it can answer the tasks and that they can be written.
    fn open(&mut self, model: &str, session: &mut Session<'_>) -> Result<Asked, Failure> {
        let job = self.job;
        let model = match self.first.take() {
            Some(opened) => opened,
            None => open_model_as(model, job.precision.dtype, session)?,
        };
        let whole_texts = job.log_samples.is_some();
        let chat = match &self.plain {
            Some(_) => None,
            None => Some(open_tasks(&job.evaluation, whole_texts, Some(&model), session)?),
        };
        let asked = Asked { model, chat };
        let tasks = &self.tasks(&asked).all;
        // What the baseline cannot answer is said before the model is scored.
        let shorter = [job.evaluation.max_length, self.positions].into_iter().flatten().min();
        let evaluation = EvaluationOptions { max_length: shorter, ..job.evaluation.clone() };
        check_tasks(tasks.iter().map(AsRef::as_ref), &asked.model, &evaluation)?;
        check_samples(job, tasks, session)?;
        if self.overlap.is_none() {
            self.overlap = Some(overlap::find_overlap(job, tasks, session)?);
        }
        Ok(asked)
    }

    /// The tasks as they are asked of a model.
    fn tasks<'s>(&'s self, asked: &'s Asked) -> &'s OpenTasks {
        asked.chat.as_ref().or(self.plain.as_ref()).expect("opened for all models or for this one")
    }

    /// Why two models cannot read the texts together; none if they can.
    fn why_apart(
        &self,
        model: &Asked,
        baseline: &Asked,
        texts: &[bool],
    ) -> Result<Option<&'static str>, Failure> {
        let subjects = [model.subject(self.job)?, baseline.subject(self.job)?];
        let [own, other] = [model, baseline].map(|asked| asked.model.loaded.decoder.config());
        if own.vocab != other.vocab {
            return Ok(Some("the vocabularies differ in size"));
        }
        if subjects[0].max_positions() != subjects[1].max_positions() {
            return Ok(Some("the context lengths differ, and --max-length makes them equal"));
        }
        let begins = subjects.each_ref().map(|subject| (subject.bos(), subject.adds_bos()));
        if begins[0] != begins[1] {
            return Ok(Some("the tokenizers begin a text differently"));
        }
        for (task, _) in self.tasks(model).all.iter().zip(texts).filter(|(_, is_text)| **is_text) {
            for item in task.items() {
                for request in &item.requests {
                    let [own, other] = subjects.each_ref().map(|s| s.encode(request.text()));
                    let failed = |source| {
                        let place = item.place.clone();
                        Failure::from(EvaluationError::Tokenizer { place, source })
                    };
                    if own.map_err(failed)? != other.map_err(failed)? {
                        return Ok(Some("the tokenizers divide a text differently"));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Answers of one model to some tasks.
    fn alone(
        &self,
        asked: &Asked,
        answers: &mut Answers,
        which: &dyn Fn(usize) -> bool,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let began = session.seconds();
        let subject = asked.subject(self.job)?;
        let together = Together {
            models: &Several(&[&subject]),
            tasks: &self.tasks(asked).all,
            loaded: &[&asked.model.loaded],
            names: asked.model.place.name.clone(),
            file: None,
            is_kept: true,
        };
        for index in (0..answers.results.len()).filter(|index| which(*index)) {
            let mut results = self.answer(index, &together, &mut answers.batches, session)?;
            answers.results[index] = results.pop();
        }
        answers.seconds += session.seconds() - began;
        Ok(())
    }

    /// Answers of the baseline and the model to the texts, which both read together. Batches and
    /// time are those of the model.
    fn together(
        &self,
        [baseline, model]: [&Asked; 2],
        [dense, own]: [&mut Answers; 2],
        texts: &[bool],
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let began = session.seconds();
        let subjects = [baseline.subject(self.job)?, model.subject(self.job)?];
        let together = Together {
            models: &Several(&[&subjects[0], &subjects[1]]),
            tasks: &self.tasks(model).all,
            loaded: &[&baseline.model.loaded, &model.model.loaded],
            names: format!("{} and {}", model.model.place.name, baseline.model.place.name),
            file: None,
            is_kept: true,
        };
        for index in (0..texts.len()).filter(|index| texts[*index]) {
            let mut results = self.answer(index, &together, &mut own.batches, session)?;
            own.results[index] = results.pop();
            dense.results[index] = results.pop();
        }
        own.seconds += session.seconds() - began;
        Ok(())
    }

    /// Answers of a model to a text whose log-probabilities by another model are in a file.
    fn against_file(
        &self,
        asked: &Asked,
        file: &LogitsFile,
        [dense, own]: [&mut Answers; 2],
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let began = session.seconds();
        let subject = asked.subject(self.job)?;
        let tasks = &self.tasks(asked).all;
        for (index, task) in tasks.iter().enumerate() {
            let windows = windows_of(task.as_ref(), &subject, session.cancelled())?;
            let compared = Compared::new(subject, file, &windows).map_err(EvaluationError::from)?;
            let together = Together {
                models: &compared,
                tasks,
                loaded: &[&asked.model.loaded],
                names: format!("{} and {}", asked.model.place.name, file.path().display()),
                file: Some(file.digest()),
                is_kept: true,
            };
            let mut results = self.answer(index, &together, &mut own.batches, session)?;
            own.results[index] = results.pop();
            dense.results[index] = results.pop();
        }
        own.seconds += session.seconds() - began;
        Ok(())
    }

    /// Answers of a model to a text, whose log-probabilities are written to a file. They are not in
    /// the journal, so a stopped evaluation starts again.
    fn recorded(
        &self,
        asked: &Asked,
        path: &Path,
        own: &mut Answers,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let began = session.seconds();
        let subject = asked.subject(self.job)?;
        let tasks = &self.tasks(asked).all;
        for (index, task) in tasks.iter().enumerate() {
            let windows = windows_of(task.as_ref(), &subject, session.cancelled())?;
            let windows: Vec<&[u32]> = windows.iter().map(Vec::as_slice).collect();
            let replace = Replace::if_forced(self.job.force, LogitsFile::is_one);
            let writer = LogitsWriter::create(path, replace, subject.vocab(), &windows);
            let recorded = Recorded::new(subject, writer.map_err(EvaluationError::from)?);
            let together = Together {
                models: &recorded,
                tasks,
                loaded: &[&asked.model.loaded],
                names: asked.model.place.name.clone(),
                file: None,
                is_kept: false,
            };
            let mut results = self.answer(index, &together, &mut own.batches, session)?;
            own.results[index] = results.pop();
            recorded.commit().map_err(EvaluationError::from)?;
        }
        own.seconds += session.seconds() - began;
        Ok(())
    }

    /// Results of models that answer one task together; none where batches of other shards are
    /// missing.
    fn answer(
        &self,
        index: usize,
        together: &Together<'_>,
        batches: &mut [usize; 2],
        session: &mut Session<'_>,
    ) -> Result<Vec<TaskResult>, Failure> {
        let task = together.tasks[index].as_ref();
        let (id, total) = (task.id(), together.tasks.len());
        session.step(&format!("evaluating {}: {id} ({} of {total})", together.names, index + 1));
        let mut options = RunOptions {
            shard: session.shard(),
            divergence: together.models.count() > 1,
            ..run_options(self.job, together.loaded, together.tasks)?
        };
        // A shard keeps them in its output directory.
        let folder = match session.shard().is_whole() {
            true => self.unfinished.path(),
            false => self.job.output.as_deref(),
        };
        let folder = folder.filter(|_| together.is_kept);
        let journals = folder.map(|folder| Journals { job: self.job, together, folder });
        let journal = journals.map(|all| all.open(task, &mut options, session));
        let mut journal = journal.transpose()?.flatten();
        let cancelled = session.cancelled();
        let mut hooks = Hooks {
            progress: &mut |p| session.progress(p.done_tokens, p.total_tokens),
            cancelled,
            journal: journal.as_mut().map(|journal| journal as &mut dyn Journal),
        };
        let (counts, results) =
            match evaluate_each(task, together.models, &options, &mut hooks, |result| result)? {
                Outcome::Complete(results) => {
                    ([journal.as_ref().map_or(0, FileJournal::len); 2], results)
                }
                Outcome::Part { known, total } => ([known, total], Vec::new()),
            };
        *batches = [0, 1].map(|index| batches[index] + counts[index]);
        Ok(results)
    }

    /// What the result of a model states beside its scores.
    fn about(&self, asked: &Asked, session: &Session<'_>) -> About {
        let loaded = &asked.model.loaded;
        About {
            name: asked.model.place.name.clone(),
            provenance: session.provenance("linwright eval", loaded, &[]),
            prompting: prompting(self.job, loaded),
            parameters: parameters(loaded),
            positions: loaded.decoder.config().max_positions,
            groups: self.tasks(asked).groups.clone(),
        }
    }
}

/// Results of one model by task, as far as they are known.
struct Answers {
    results: Vec<Option<TaskResult>>,
    /// Known batches, and all of them.
    batches: [usize; 2],
    /// Time of the evaluations.
    seconds: f64,
}

impl Answers {
    fn of(tasks: usize) -> Self {
        Self { results: vec![None; tasks], batches: [0; 2], seconds: 0.0 }
    }

    fn scored(self, about: About, baseline: Option<Self>) -> Scored {
        let others = baseline.as_ref().map_or([0; 2], |baseline| baseline.batches);
        Scored {
            about,
            batches: [0, 1].map(|index| self.batches[index] + others[index]),
            results: self.results,
            seconds: self.seconds,
            baseline: baseline.map(|baseline| baseline.results),
        }
    }
}

/// Positions of a model that is loaded later: that it is there and can be read is known now.
fn positions(model: &str, session: &mut Session<'_>) -> Result<usize, Failure> {
    let place = find_model(model, session)?;
    Ok(configuration(&place.path)?.max_positions)
}

/// Models that answer the same requests together.
struct Together<'a> {
    models: &'a dyn LanguageModels,
    tasks: &'a [Box<dyn Task>],
    /// Those that are in memory.
    loaded: &'a [&'a LoadedModel],
    /// Their names, for progress.
    names: String,
    /// Digest of the file that stands for one of them.
    file: Option<&'a str>,
    /// Whether the responses are kept, so that a stopped evaluation goes on.
    is_kept: bool,
}

/// Where the responses of models to the same requests are kept.
struct Journals<'a> {
    job: &'a Eval,
    together: &'a Together<'a>,
    folder: &'a Path,
}

impl Journals<'_> {
    /// The journal of one task. One of the store that is of another evaluation is started from
    /// scratch. Where the size of batches follows the free memory, a journal that
    /// is already there determines it.
    fn open(
        &self,
        task: &dyn Task,
        options: &mut RunOptions,
        session: &Session<'_>,
    ) -> Result<Option<FileJournal>, Failure> {
        let Self { job, together, folder } = *self;
        let shown = folder.display().to_string();
        std::fs::create_dir_all(folder).map_err(|error| Failure::io(&shown, &error))?;
        shards::mark(session, folder)?;
        let dtype = job.precision.dtype.name();
        let hashes = together.loaded.iter().map(|model| &*model.hash).chain(together.file);
        let hashes: Vec<&str> = hashes.collect();
        let short = hashes.iter().map(|hash| &hash[..hash.len().min(12)]).collect::<Vec<_>>();
        let name = format!("{}-{}.jsonl", task.id(), short.join("-"));
        let path = folder.join(&name);
        if let (Some(room), Some(tokens)) = (options.longest, FileJournal::batch_tokens_of(&path)) {
            let fits = tokens <= room.min(job.evaluation.batch_size.tokens());
            options.max_batch_tokens = if fits { tokens } else { options.max_batch_tokens };
        }
        let fingerprint =
            journal_fingerprint(&hashes, dtype, task, together.models.first(), options);
        let mut opened = FileJournal::open(&path, &fingerprint);
        if let Err(EvaluationError::Journal(JournalError::OtherRun { difference, .. })) = &opened
            && session.shard().is_whole()
        {
            // The model's other files were changed since. Nobody but this command keeps it.
            session.note(&format!(
                "note: {}: what an earlier try computed is left out, {difference}",
                task.id()
            ));
            std::fs::remove_file(&path).map_err(|error| Failure::io(&shown, &error))?;
            opened = FileJournal::open(&path, &fingerprint);
        }
        match opened {
            Ok(mut journal) => {
                for source in shards::sources(session, Path::new(&name))? {
                    journal.merge(&source)?;
                }
                for damage in journal.damages() {
                    session.note(&format!("note: {damage}"));
                }
                if !journal.is_empty() {
                    let (known, id) = (journal.len(), task.id());
                    session.note(&format!("note: {id}: {known} batches are already computed"));
                }
                Ok(Some(journal))
            }
            // A failing journal must not stop the evaluation.
            Err(EvaluationError::Journal(JournalError::Io { source, .. })) => {
                session.note(&format!(
                    "note: {}: {source}; if this evaluation is stopped, it cannot be resumed",
                    path.display()
                ));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The size of batches, within the memory allowed.
fn run_options(
    job: &Eval,
    models: &[&LoadedModel],
    tasks: &[Box<dyn Task>],
) -> Result<RunOptions, Failure> {
    let max_batch_tokens = job.evaluation.batch_size.tokens();
    let Some(ByteSize(allowed)) = job.max_memory else {
        return Ok(RunOptions { max_batch_tokens, ..RunOptions::default() });
    };
    let resident = resident_bytes().ok_or_else(|| {
        Failure::usage("this system does not report how much memory is used")
            .hint("leave --max-memory out and choose --batch-size")
    })?;
    let bytes_per_token = models.iter().map(|model| model.decoder.bytes_per_token()).max();
    let bytes_per_token = bytes_per_token.unwrap_or_default();
    let tokens = room::batch_tokens(Texts::of(tasks), allowed, resident, bytes_per_token);
    let tokens = tokens.map_err(no_room)?;
    let max_batch_tokens = max_batch_tokens.min(tokens);
    Ok(RunOptions { max_batch_tokens, longest: Some(tokens), ..RunOptions::default() })
}

pub(super) fn no_room(error: NoRoom) -> Failure {
    let NoRoom { what, allowed, needed } = error;
    let least = needed / 1_000_000 + 1;
    let reason = format!("{what}: more than --max-memory {allowed} allows");
    Failure::new(FailureKind::Resources, reason)
        .hint(format!("allow {least}MB, cut the text into documents (JSONL), or take a part of it"))
}

/// The prompt settings that the tasks do not record themselves.
fn prompting(job: &Eval, loaded: &LoadedModel) -> Prompting {
    let asked = &job.evaluation;
    let template = loaded.tokenizer.as_ref().and_then(|tokenizer| tokenizer.chat_template());
    Prompting {
        system_instruction: asked.system_instruction.clone(),
        chat_template: template.filter(|_| asked.apply_chat_template).map(str::to_owned),
        multiturn: asked.fewshot_as_multiturn,
        date: asked.template.date.map(|date| date.to_string()),
        template_args: asked.template.chat_template_args.as_ref().map(ToString::to_string),
    }
}

fn parameters(loaded: &LoadedModel) -> ParameterCounts {
    let slots = loaded.decoder.slots();
    let targeted = slots.iter().map(|slot| slot.parameters() as u64).sum();
    let targeted_dense =
        slots.iter().map(|slot| slot.shape().dense_parameters() as u64).sum::<u64>();
    ParameterCounts {
        targeted,
        targeted_dense,
        model: loaded.decoder.parameters(),
        model_dense: loaded.decoder.config().parameters(),
    }
}
