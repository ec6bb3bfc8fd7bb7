//! `linwright ls`: lists of operators, methods, tasks, families, presets, jobs and keys of
//! options.

use super::{print, print_json, table};
use crate::args::Shared;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use linwright::evaluate::entries;
use linwright::jobs::{
    Catalogue, Entry, Field, Key, Kind, Methods, OTHERS, Terms, VERBS, flag_of, plain_value,
};
use linwright::model::families::FAMILIES;
use linwright::ops::{OpSpec, Shape, Summary};
use linwright::recipes::PRESETS;
use linwright::run::spelling::nearest_names;
use serde_json::{Value, json};

/// List operators, methods, tasks, families, presets, jobs or keys of options.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// The kind of entries to list.
    what: What,
    /// A method, whose options are listed (methods), or a command (keys): `molecule train`.
    name: Vec<String>,
    /// Output and input features for which `ls operators --json` counts parameters and
    /// multiply-adds.
    #[arg(long, value_name = "OUTxINP", default_value = "2048x2048", value_parser = shape)]
    shape: Shape,
}

/// `OUTxINP` as a shape.
fn shape(word: &str) -> Result<Shape, String> {
    let sides = word
        .split_once('x')
        .and_then(|(out, inp)| Some(Shape { out: out.parse().ok()?, inp: inp.parse().ok()? }));
    sides.ok_or_else(|| "expected OUTxINP, two whole numbers such as 512x2048".to_owned())
}

/// Catalogues of more values, such as methods, are lists of their own.
const FEW: usize = 8;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Structured operators.
    Operators,
    /// Methods of `compress --method`.
    Methods,
    /// Evaluation tasks.
    Tasks,
    /// Keys of options such as `--evaluation` and `--training`, of all commands or of one.
    Keys,
    /// Model families that Linwright loads.
    Families,
    /// Built-in recipes.
    Presets,
    /// Jobs: commands that recipes can hold.
    Jobs,
}

pub(crate) fn run(args: &LsArgs, shared: &Shared) -> Result<(), Failure> {
    if !args.name.is_empty() {
        let name = args.name.join(" ");
        return match args.what {
            What::Methods => options(Methods::catalogue(), &name, shared),
            What::Keys => keys(Some(&name), shared),
            _ => {
                Err(Failure::usage(format!("{name}: only methods and commands have keys to list"))
                    .hint("linwright ls methods NAME, linwright ls keys COMMAND"))
            }
        };
    }
    let rows: Vec<(String, String)> = match args.what {
        What::Operators => return operators(args.shape, shared),
        What::Methods => {
            let all = Methods::catalogue().entries.iter();
            all.map(|method| (method.name.to_owned(), method.summary.clone())).collect()
        }
        What::Keys => return keys(None, shared),
        What::Tasks => tasks().map(|(name, about)| (name.to_owned(), about.to_owned())).collect(),
        What::Families => FAMILIES
            .iter()
            .map(|family| {
                let about = format!("{} ({})", family.about, family.architecture);
                (family.model_type.to_owned(), about)
            })
            .collect(),
        What::Presets => PRESETS
            .iter()
            .map(|preset| (preset.name.to_owned(), preset.summary.to_owned()))
            .collect(),
        What::Jobs => VERBS
            .iter()
            .map(|verb| (verb.words(), verb.about.split("\n\n").next().unwrap_or_default()))
            .map(|(name, about)| (name, about.to_owned()))
            .collect(),
    };
    if shared.json {
        let list: Vec<_> =
            rows.iter().map(|(name, about)| json!({"name": name, "about": about})).collect();
        return print_json(&list);
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, about)| vec![name, about]).collect();
    print(&table(&["name", "about"], &rows))
}

/// Names and descriptions of all tasks.
pub(crate) fn tasks() -> impl Iterator<Item = (&'static str, &'static str)> {
    let questions = [
        (
            "questions",
            "multiple choice and completions of a file, --data questions=FILE.jsonl: question, \
             choices, answer from 0",
        ),
        ("pocket", "questions of the built-in model"),
    ];
    entries().map(|task| (task.name(), task.summary())).chain(questions)
}

fn operators(shape: Shape, shared: &Shared) -> Result<(), Failure> {
    if shared.json {
        let list: Vec<Value> = OpSpec::SUMMARIES
            .iter()
            .map(|summary| {
                json!({
                    "name": summary.kind,
                    "equation": summary.equation,
                    "parameters": summary.parameters,
                    "macs_per_row": summary.macs,
                    "at": at(summary.kind, shape),
                })
            })
            .collect();
        return print_json(&list);
    }
    let row = |summary: &Summary| {
        [summary.kind, summary.equation, summary.parameters, summary.macs].map(str::to_owned).into()
    };
    let rows: Vec<Vec<String>> = OpSpec::SUMMARIES.iter().map(row).collect();
    print(&table(&["kind", "equation", "parameters", "MACs per row"], &rows))
}

/// Cost of an operator of this shape with its default options, or the reason why it does not
/// support the shape.
fn at(kind: &str, shape: Shape) -> Value {
    let cost = OpSpec::default_of(kind).and_then(|spec| spec.cost(shape));
    match cost {
        Ok(cost) => json!({
            "shape": shape,
            "options": cost.spec,
            "parameters": cost.parameters,
            "keep": cost.keep,
            "macs_per_row": cost.macs_per_row,
        }),
        Err(error) => json!({"shape": shape, "reason": error.to_string()}),
    }
}

/// A key of an option of a command.
struct Row {
    command: String,
    option: String,
    entry: &'static Entry,
    key: &'static Key,
}

/// The keys of the options of a command; without those of long catalogues.
fn keys_of((command, fields): &(String, Vec<Field>)) -> Vec<Row> {
    let mut rows = Vec::new();
    for field in fields {
        let Kind::Term(catalogue) = field.kind else { continue };
        if catalogue.entries.len() > FEW {
            continue;
        }
        let option = format!("--{}", flag_of(&field.key));
        for entry in &catalogue.entries {
            rows.extend(entry.keys.iter().map(|key| {
                let (command, option) = (command.clone(), option.clone());
                Row { command, option, entry, key }
            }));
        }
    }
    rows
}

/// The keys of options of a command, or of all commands.
fn keys(command: Option<&str>, shared: &Shared) -> Result<(), Failure> {
    let verbs = VERBS.iter().map(|verb| (verb.words(), (verb.fields)()));
    let others = OTHERS.iter().map(|(words, fields)| ((*words).to_owned(), fields()));
    let mut commands: Vec<(String, Vec<Field>)> = verbs.chain(others).collect();
    if let Some(name) = command {
        let words: Vec<String> = commands.iter().map(|(words, _)| words.clone()).collect();
        commands.retain(|(words, _)| words == name || words.replace(' ', "-") == name);
        if commands.is_empty() {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let message = format!("{name}: there is no such command");
            return Err(Failure::usage(message).hint(nearest_names(name, &words)));
        }
    }
    let rows: Vec<Row> = commands.iter().flat_map(keys_of).collect();
    if let Some(name) = command.filter(|_| rows.is_empty() && !shared.json) {
        return print(&format!("the options of {name} have no keys"));
    }
    if shared.json {
        let row = |Row { command, option, entry, key }: &Row| {
            json!({
                "command": command, "option": option, "name": entry.name, "key": key.name,
                "type": key.kind.expected(), "default": key.default, "about": key.help,
            })
        };
        return print_json(&rows.iter().map(row).collect::<Vec<_>>());
    }
    let row = |Row { command, option, entry, key }: &Row| {
        let option = format!("{option} {}", entry.name).trim_end().to_owned();
        let (expected, default) = (key.kind.expected(), shown_default(key));
        vec![command.clone(), option, key.name.clone(), expected, default, key.help.clone()]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    print(&table(&["command", "option", "key", "value", "default", ""], &rows))
}

/// A default as it is typed.
fn shown_default(key: &Key) -> String {
    match &key.default {
        Value::Null => "-".to_owned(),
        value => plain_value(value),
    }
}

/// The options of a value of a catalogue.
fn options(catalogue: &Catalogue, name: &str, shared: &Shared) -> Result<(), Failure> {
    let term = catalogue.read(name).map_err(Failure::usage)?;
    let Some(Entry { summary, keys, .. }) = catalogue.entry(term.name) else {
        return Err(Failure::usage(format!("there is no {} {name}", catalogue.what)));
    };
    if shared.json {
        let key = |key: &Key| {
            json!({
                "key": key.name, "type": key.kind.expected(), "default": key.default,
                "about": key.help,
            })
        };
        let keys: Vec<Value> = keys.iter().map(key).collect();
        return print_json(&json!({ "name": name, "about": summary, "options": keys }));
    }
    let row = |key: &Key| {
        vec![key.name.clone(), key.kind.expected(), shown_default(key), key.help.clone()]
    };
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    print(&format!("{name}: {summary}\n"))?;
    match rows.is_empty() {
        true => print("it has no options"),
        false => print(&table(&["option", "value", "default", ""], &rows)),
    }
}
