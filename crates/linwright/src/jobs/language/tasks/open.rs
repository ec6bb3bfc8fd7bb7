//! Opens the evaluation tasks of a command through the registry.

use super::selection;
use crate::jobs::kit::source::{OpenModel, POCKET, data_file, text_file};
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::evaluation::{EvaluationOptions, QUESTIONS};
use linwright_data::sets::Sets;
use linwright_evaluate::{
    AnsweredTask, ChatPrompts, DataFile, EvaluationError, HarnessOptions, LaserOptions,
    OpenOptions, OpenTasks, Parts, RegistryError, Task, TaskOption, TaskOptions, TaskRequest,
    TextPerplexity, answered_tasks,
};
use linwright_files::hub;
use linwright_model::tokenizer::chat::{ChatOptions, Date};
use linwright_run::Monitor;
use std::cell::RefCell;
use std::path::PathBuf;

/// The questions `pocket`.
const FACTS: &str = "facts.jsonl";
/// The text `pocket`.
const STORIES: &str = "stories-test.jsonl";

/// Opens the tasks of a command; with a model, its chat template formats the prompts. With
/// `whole_texts`, samples contain the log-likelihood of questions as well.
pub(crate) fn open_tasks(
    args: &EvaluationOptions,
    whole_texts: bool,
    chat: Option<&OpenModel>,
    session: &mut Session<'_>,
) -> Result<OpenTasks, Failure> {
    let requests = requests(args, session)?;
    let texts = more_texts(args, session)?;
    with_options(args, whole_texts, chat, session, |options| all_tasks(&requests, &texts, options))
}

/// The tasks of a command that evaluates a model before and after, if any is named. Tasks called
/// `beside` are read by another part of the command and may have data as well.
pub(crate) fn open_tasks_if_any(
    args: &EvaluationOptions,
    beside: &[String],
    session: &mut Session<'_>,
) -> Result<Vec<Box<dyn Task>>, Failure> {
    if args.apply_chat_template {
        return Err(Failure::usage("this command does not support --apply-chat-template")
            .hint("save the model with -o and compare both with `linwright eval`"));
    }
    let is_asked = !args.tasks.is_empty() || args.text.is_some();
    if !is_asked {
        return Ok(Vec::new());
    }
    let requests = requests(args, session)?;
    let texts = more_texts(args, session)?;
    let opened = with_options(args, false, None, session, |options| {
        all_tasks(&requests, &texts, &options.clone().beside(beside))
    })?;
    Ok(opened.all)
}

/// Opens the named tasks and one for each further text.
fn all_tasks(
    requests: &[TaskRequest],
    texts: &[(PathBuf, Option<&str>)],
    options: &OpenOptions<'_>,
) -> Result<OpenTasks, Failure> {
    let mut opened = linwright_evaluate::open_tasks(requests, options)?;
    for (path, field) in texts {
        let task = TextPerplexity::one_of_several(path, *field, options)?;
        let name = task.id();
        if opened.all.iter().any(|other| other.id() == name) {
            return Err(Failure::usage(format!("--more-texts: two texts are called {name}"))
                .hint("rename one of the files: tasks have the names of their files"));
        }
        opened.all.push(Box::new(task));
    }
    Ok(opened)
}

/// The files of `--more-texts`, with the field of their text.
fn more_texts<'a>(
    args: &'a EvaluationOptions,
    session: &mut Session<'_>,
) -> Result<Vec<(PathBuf, Option<&'a str>)>, Failure> {
    if args.text.is_none() && !args.more_texts.is_empty() {
        return Err(Failure::usage("--more-texts goes with --text, which is not given"));
    }
    let field = args.text_field.as_deref();
    let file = |name: &'a String| text_file(name, STORIES, field, session);
    args.more_texts.iter().map(file).collect()
}

/// Opens the single task of a command, divided into validation and test items; `shuffle` is the
/// seed that draws them, and without one they are in the order of the file, as in the paper.
pub(crate) fn open_parts(
    args: &EvaluationOptions,
    shuffle: Option<u64>,
    session: &mut Session<'_>,
) -> Result<Parts, Failure> {
    refuse_selection(args)?;
    let requests = divisible(args, session)?;
    with_options(args, false, None, session, |options| {
        Ok(linwright_evaluate::open_parts(&requests, options, shuffle)?)
    })
}

/// The documents of the tasks that a name stands for, each with its right answer; of the options
/// count the data and what texts have.
pub(crate) fn open_answered(
    args: &EvaluationOptions,
    name: &str,
    session: &mut Session<'_>,
) -> Result<Vec<AnsweredTask>, Failure> {
    let asked = EvaluationOptions {
        data: args.data.clone(),
        text_field: args.text_field.clone(),
        ..EvaluationOptions::default()
    };
    with_options(&asked, false, None, session, |options| Ok(answered_tasks(name, options)?))
}

/// Opens the single task of a command that divides its documents itself; `beside` as in
/// [`open_tasks_if_any`].
pub(crate) fn open_one(
    args: &EvaluationOptions,
    beside: &[String],
    session: &mut Session<'_>,
) -> Result<Box<dyn Task>, Failure> {
    refuse_selection(args)?;
    let requests = divisible(args, session)?;
    if requests.len() != 1 {
        return Err(EvaluationError::from(RegistryError::NotOne { count: requests.len() }).into());
    }
    let tasks = with_options(args, false, None, session, |options| {
        let options = options.clone().beside(beside);
        Ok(linwright_evaluate::open_tasks(&requests, &options)?)
    })?;
    Ok(tasks.single().map_err(EvaluationError::from)?)
}

/// Refuses options that select documents or format prompts by a model, before anything is read.
fn refuse_selection(args: &EvaluationOptions) -> Result<(), Failure> {
    let unread = [
        (TaskOption::Samples, args.samples.is_some()),
        (TaskOption::Chat, args.apply_chat_template),
    ];
    match unread.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            Err(EvaluationError::from(RegistryError::NotWithParts { option }).into())
        }
        None => Ok(()),
    }
}

/// As [`requests`]; of the tasks of one file of questions, the first is divided.
fn divisible(
    args: &EvaluationOptions,
    session: &mut Session<'_>,
) -> Result<Vec<TaskRequest>, Failure> {
    if !args.more_texts.is_empty() {
        return Err(Failure::usage("this command reads one text, and --more-texts names others"));
    }
    let mut requests = requests(args, session)?;
    let is_of_questions = |task: &String| [QUESTIONS, POCKET].contains(&task.as_str());
    if args.text.is_none() && args.tasks.len() == 1 && args.tasks.iter().all(is_of_questions) {
        requests.truncate(1);
    }
    Ok(requests)
}

/// The tasks of `--text` and `--tasks`, in this order.
fn requests(
    args: &EvaluationOptions,
    session: &mut Session<'_>,
) -> Result<Vec<TaskRequest>, Failure> {
    let mut requests = Vec::new();
    if let Some(text) = &args.text {
        let field = args.text_field.as_deref();
        let (path, field) = text_file(text, STORIES, field, session)?;
        requests.push(TaskRequest::text(path, field.map(str::to_owned)));
    }
    for task in &args.tasks {
        let file = match task.as_str() {
            QUESTIONS => questions(args)?,
            POCKET => POCKET,
            name => {
                requests.push(TaskRequest::named(name));
                continue;
            }
        };
        let path = data_file(file, FACTS, session)?;
        requests.extend(TaskRequest::questions(&path, args.limit)?);
    }
    Ok(requests)
}

/// The file of the task `questions`.
fn questions(args: &EvaluationOptions) -> Result<&str, Failure> {
    let mut files = args.data.iter().filter(|data| data.task == QUESTIONS);
    let missing = || Failure::usage("--tasks questions reads one file");
    let hint =
        "give --data questions=FILE.jsonl, or --tasks pocket for those of the built-in model";
    match (files.next(), files.next()) {
        (Some(data), None) if data.split.is_none() => {
            data.path.to_str().ok_or_else(|| missing().hint("its name has to be UTF-8"))
        }
        _ => Err(missing().hint(hint)),
    }
}

/// Calls `open` with the options of tasks, and data sets by name.
fn with_options<R>(
    args: &EvaluationOptions,
    whole_texts: bool,
    chat: Option<&OpenModel>,
    session: &mut Session<'_>,
    open: impl FnOnce(&OpenOptions<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    args.template.check(args.apply_chat_template)?;
    let data = data_of(args, session)?;
    let (variables, cancelled) = (session.variables(), session.cancelled());
    let mut chat_options = args.template.chat();
    // All prompts have the same, and so have those of a resumed run.
    chat_options.date.get_or_insert_with(Date::today);
    let shared = RefCell::new(session);
    let hooks = hub::Hooks {
        step: &mut |name| shared.borrow_mut().step(name),
        progress: &mut |done, total| shared.borrow_mut().progress(done, total),
        cancelled,
    };
    let sets = Sets::new(variables, hooks);
    let harness = HarnessOptions {
        shots: args.num_fewshot,
        samples: selection::read(args.samples.as_deref())?,
        sets: Some(&sets),
        shots_seed: Some(args.fewshot_seed),
        bootstrap: Some(args.bootstrap_iters),
        instruction: args.system_instruction.clone().unwrap_or_default(),
        chat: chat.map(|model| chat_prompts(args, model, &chat_options)).transpose()?,
        ..HarnessOptions::default()
    };
    let text = TaskOptions {
        window: args.window,
        stride: args.stride.unwrap_or(args.window),
        second_half: args.second_half,
        bos: args.bos,
        join: args.join,
        limit: args.limit,
        text_field: args.text_field.clone(),
    };
    let laser = LaserOptions {
        scoring: args.laser_scoring,
        split: args.laser_split,
        new_tokens: args.laser_new_tokens,
        whole_texts,
        ..LaserOptions::default()
    };
    open(&OpenOptions::new(data, text, harness, laser))
}

/// Data of tasks, in which `pocket` stands for the questions of the built-in model. Those of
/// `questions` are read by their file, as requests name it.
fn data_of(args: &EvaluationOptions, session: &mut Session<'_>) -> Result<Vec<DataFile>, Failure> {
    let is_asked = args.tasks.iter().any(|task| task == QUESTIONS);
    let is_of_others = |data: &&DataFile| !(is_asked && data.task == QUESTIONS);
    let mut data: Vec<DataFile> = args.data.iter().filter(is_of_others).cloned().collect();
    for own in data.iter_mut().filter(|own| own.path.as_os_str() == POCKET) {
        own.path = data_file(POCKET, FACTS, session)?;
    }
    Ok(data)
}

/// The chat template that formats prompts.
fn chat_prompts<'a>(
    args: &EvaluationOptions,
    model: &'a OpenModel,
    options: &'a ChatOptions,
) -> Result<ChatPrompts<'a>, Failure> {
    let tokenizer = model.loaded.tokenizer.as_ref().filter(|tokenizer| tokenizer.has_chat());
    let tokenizer = tokenizer.ok_or_else(|| {
        Failure::usage(format!("{} has no chat template", model.place.name))
            .hint("omit --apply-chat-template, or add chat_template.jinja to the model")
    })?;
    Ok(ChatPrompts { tokenizer, multiturn: args.fewshot_as_multiturn, options })
}
