//! Opens the evaluation tasks of a command.

use super::laser::{self, laser_task};
use super::selection;
use crate::jobs::EvaluationOptions;
use crate::jobs::source::{OpenModel, data_file, text_file};
use crate::jobs::{Failure, Session};
use linwright_data::QuestionSet;
use linwright_data::sets::Sets;
use linwright_evaluate::{
    ChatPrompts, Completion, DataFile, HarnessOptions, LaserSet, MultipleChoice, NamedProtocol,
    PROTOCOLS, SENTENCE_TASKS, Selection, SentencePairs, Task, TaskEntry, TaskGroup, TaskOptions,
    TextPerplexity, open_task,
};
use linwright_files::hub;
use linwright_run::{Monitor, shown};
use std::cell::RefCell;

/// The opened tasks.
pub(crate) struct Tasks {
    pub(crate) all: Vec<Box<dyn Task>>,
    pub(crate) groups: Vec<TaskGroup>,
}

impl Tasks {
    /// Opens the tasks of a command; with a model, its chat template formats the prompts. With
    /// `whole_texts`, samples contain the log-likelihood of questions as well.
    pub(crate) fn open(
        args: &EvaluationOptions,
        whole_texts: bool,
        chat: Option<&OpenModel>,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let mut tasks = Self { all: Vec::new(), groups: Vec::new() };
        tasks.add_own(args, session)?;
        tasks.add_named(args, whole_texts, chat, session)?;
        let mut names: Vec<String> = tasks.all.iter().map(|task| task.id()).collect();
        if let Some(data) = args.data.iter().find(|data| !names.contains(&data.task)) {
            return Err(Failure::usage(format!(
                "--data names {}, which is not a task of this command",
                shown(&data.task)
            )));
        }
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::usage(format!("two tasks are called {}", shown(&twice[0]))));
        }
        if names.is_empty() {
            return Err(Failure::usage("no task, text or questions to evaluate")
                .hint("give --tasks NAME,..., --text FILE or --questions FILE"));
        }
        Ok(tasks)
    }

    /// The tasks of a command that evaluates a model before and after, if any is named.
    pub(crate) fn open_if_any(
        args: &EvaluationOptions,
        session: &mut Session<'_>,
    ) -> Result<Vec<Box<dyn Task>>, Failure> {
        if args.apply_chat_template {
            return Err(Failure::usage("this command does not support --apply-chat-template")
                .hint("save the model with -o and compare both with `linwright eval`"));
        }
        let is_asked = !args.tasks.is_empty() || args.questions.is_some() || args.text.is_some();
        match is_asked {
            true => Ok(Self::open(args, false, None, session)?.all),
            false => Ok(Vec::new()),
        }
    }

    /// Opens `--text` and `--questions`.
    fn add_own(
        &mut self,
        args: &EvaluationOptions,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let options = task_options(args);
        if let Some(text) = &args.text {
            let field = args.text_field.as_deref();
            let (path, field) = text_file(text, "stories-test.jsonl", field, session)?;
            let options = TaskOptions { text_field: field.map(str::to_owned), ..options };
            self.all.push(open_task("text", &path, &options)?);
        }
        if let Some(questions) = &args.questions {
            let path = data_file(questions, "facts.jsonl", session)?;
            let mut set = QuestionSet::open(&path)?;
            set.questions.truncate(args.limit.unwrap_or(usize::MAX));
            let choice = MultipleChoice::new(set.clone(), args.bos);
            self.all.push(Box::new(choice));
            if set.has_completions() {
                let completion = Completion::new(set, args.bos);
                self.all.push(Box::new(completion));
            }
        }
        Ok(())
    }

    /// Opens `--tasks`, by name and by file, in the given order.
    fn add_named(
        &mut self,
        args: &EvaluationOptions,
        whole_texts: bool,
        chat: Option<&OpenModel>,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        laser::check(args)?;
        let (variables, cancelled) = (session.variables(), session.cancelled());
        let shared = RefCell::new(session);
        let hooks = hub::Hooks {
            step: &mut |name| shared.borrow_mut().step(name),
            progress: &mut |done, total| shared.borrow_mut().progress(done, total),
            cancelled,
        };
        let sets = Sets::new(variables, hooks);
        self.add_with_sets(args, whole_texts, chat, &sets)
    }

    fn add_with_sets(
        &mut self,
        args: &EvaluationOptions,
        whole_texts: bool,
        chat: Option<&OpenModel>,
        sets: &Sets<'_>,
    ) -> Result<(), Failure> {
        let options = HarnessOptions {
            shots: args.num_fewshot,
            limit: args.limit,
            samples: selection::read(args.samples.as_deref())?,
            bos: args.bos,
            data: args.data.clone(),
            sets: Some(sets),
            shots_seed: Some(args.fewshot_seed),
            bootstrap: Some(args.bootstrap_iters),
            instruction: args.system_instruction.clone().unwrap_or_default(),
            chat: chat.map(|model| chat_prompts(args, model)).transpose()?,
        };
        let mut of_files = Vec::new();
        for (index, name) in args.tasks.iter().enumerate() {
            if args.tasks[..index].contains(name) {
                return Err(Failure::usage(format!("--tasks names {} twice", shown(name))));
            }
            if TaskEntry::named(name).is_some() {
                let path = &given(name, args, "data")?.path;
                self.all.push(open_task(name, path, &task_options(args))?);
            } else if let Some(named) = PROTOCOLS.iter().find(|named| named.name == name) {
                self.all.push(Box::new(text_task(named, args)?));
            } else if let Some(set) = LaserSet::named(name) {
                self.all.push(Box::new(laser_task(set, args, whole_texts)?));
            } else if SENTENCE_TASKS.iter().any(|(task, _)| task == name) {
                self.all.push(Box::new(sentence_pairs(name, args)?));
            } else {
                let selection = Selection::open(std::slice::from_ref(name), &options)?;
                of_files.extend(selection.tasks.iter().map(Task::id));
                let tasks = selection.tasks.into_iter();
                self.all.extend(tasks.map(|task| Box::new(task) as Box<dyn Task>));
                self.groups.extend(selection.groups);
            }
        }
        selection::check(&options.samples, &of_files)
    }
}

/// The chat template that formats prompts.
fn chat_prompts<'a>(
    args: &EvaluationOptions,
    model: &'a OpenModel,
) -> Result<ChatPrompts<'a>, Failure> {
    let tokenizer = model.loaded.tokenizer.as_ref().filter(|tokenizer| tokenizer.has_chat());
    let tokenizer = tokenizer.ok_or_else(|| {
        Failure::usage(format!("{} has no chat template", model.place.name))
            .hint("omit --apply-chat-template, or add chat_template.jinja to the model")
    })?;
    Ok(ChatPrompts { tokenizer, multiturn: args.fewshot_as_multiturn })
}

/// Options of the tasks of one data file.
fn task_options(args: &EvaluationOptions) -> TaskOptions {
    TaskOptions {
        window: args.window,
        stride: args.stride.unwrap_or(args.window),
        bos: args.bos,
        join: args.join,
        limit: args.limit,
        text_field: args.text_field.clone(),
    }
}

/// The task of a protocol for texts or questions.
fn text_task(named: &NamedProtocol, args: &EvaluationOptions) -> Result<TextPerplexity, Failure> {
    let data = given(named.name, args, "text")?;
    let (bos, limit, text_field) = (args.bos, args.limit, args.text_field.clone());
    let options = TaskOptions { bos, limit, text_field, ..TaskOptions::default() };
    Ok(TextPerplexity::named(named, &data.path, &options)?)
}

/// The scored pairs of a sentence similarity task.
pub(super) fn sentence_pairs(
    name: &str,
    args: &EvaluationOptions,
) -> Result<SentencePairs, Failure> {
    Ok(SentencePairs::open(name, &given(name, args, "pairs")?.path, args.limit)?)
}

/// The `--data` file of a task that has no other source.
fn given<'a>(name: &str, args: &'a EvaluationOptions, what: &str) -> Result<&'a DataFile, Failure> {
    args.data.iter().find(|data| data.task == name).ok_or_else(|| {
        Failure::usage(format!("{name} has no {what}")).hint(format!("give --data {name}=FILE"))
    })
}
