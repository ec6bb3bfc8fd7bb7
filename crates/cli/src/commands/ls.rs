//! `linwright ls`: lists of operators, methods, tasks, families, presets and jobs.

use super::{print, print_json, table};
use crate::args::Shared;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use linwright::evaluate::entries;
use linwright::jobs::{
    Catalogue, Cut, Entry, Key, Methods, SearchEvaluation, Terms, VERBS, plain_value,
};
use linwright::model::families::FAMILIES;
use linwright::ops::{OpSpec, Shape, Summary};
use linwright::recipes::PRESETS;
use serde_json::{Value, json};

/// List operators, methods, tasks, families, presets or jobs.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// The kind of entries to list.
    what: What,
    /// A method, whose options are listed (methods).
    name: Option<String>,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Structured operators.
    Operators,
    /// Methods of `compress --method`.
    Methods,
    /// Evaluation tasks.
    Tasks,
    /// Keys of `--evaluation`.
    Evaluation,
    /// Keys of `--intervention`.
    Intervention,
    /// Model families that Linwright loads.
    Families,
    /// Built-in recipes.
    Presets,
    /// Jobs: commands that recipes can hold.
    Jobs,
}

pub(crate) fn run(args: &LsArgs, shared: &Shared) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        return match args.what {
            What::Methods => options(Methods::catalogue(), name, shared),
            _ => Err(Failure::usage(format!("{name}: only methods have options to list"))
                .hint("linwright ls methods NAME")),
        };
    }
    let rows: Vec<(String, String)> = match args.what {
        What::Operators => return operators(args.shape, shared),
        What::Methods => {
            let all = Methods::catalogue().entries.iter();
            all.map(|method| (method.name.to_owned(), method.summary.clone())).collect()
        }
        What::Evaluation => return options(SearchEvaluation::catalogue(), "", shared),
        What::Intervention => return options(Cut::catalogue(), "", shared),
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
        ("questions", "multiple choice and completions of a file: --data questions=FILE.jsonl"),
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

/// The options of a value of a catalogue.
fn options(catalogue: &Catalogue, name: &str, shared: &Shared) -> Result<(), Failure> {
    let title = if name.is_empty() { catalogue.what } else { name };
    let entry = match catalogue.unnamed() {
        Some(entry) => Some(entry),
        None => catalogue.entry(catalogue.read(name).map_err(Failure::usage)?.name),
    };
    let Some(Entry { summary, keys, .. }) = entry else {
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
        return print_json(&json!({ "name": title, "about": summary, "options": keys }));
    }
    let default = |key: &Key| match &key.default {
        Value::Null => "-".to_owned(),
        value => plain_value(value),
    };
    let row =
        |key: &Key| vec![key.name.clone(), key.kind.expected(), default(key), key.help.clone()];
    let rows: Vec<Vec<String>> = keys.iter().map(row).collect();
    print(&format!("{title}: {summary}\n"))?;
    match rows.is_empty() {
        true => print("it has no options"),
        false => print(&table(&["option", "value", "default", ""], &rows)),
    }
}
