//! `linwright ls`: what there is.

use super::{print, print_json, table};
use crate::args::Shared;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use linwright::compress::MethodSpec;
use linwright::measure::evaluate::TASKS;
use linwright::model::families::FAMILIES;
use linwright::ops::OpSpec;

/// List operators, methods, tasks, families or presets.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// What to list.
    what: What,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Structured operators.
    Operators,
    /// Methods that fit an operator to a site.
    Methods,
    /// Tasks that measure a model.
    Tasks,
    /// Model families that can be loaded.
    Families,
    /// Recipes that are built in.
    Presets,
}

pub(crate) fn run(args: &LsArgs, shared: &Shared) -> Result<(), Failure> {
    let pairs =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
    let rows: Vec<(String, String)> = match args.what {
        What::Operators => pairs(OpSpec::KINDS),
        What::Methods => pairs(MethodSpec::IDS),
        What::Tasks => {
            TASKS.iter().map(|task| (task.name.to_owned(), task.summary.to_owned())).collect()
        }
        What::Families => FAMILIES
            .iter()
            .map(|family| (family.model_type.to_owned(), family.architecture.to_owned()))
            .collect(),
        What::Presets => crate::commands::run::PRESETS
            .iter()
            .map(|preset| (preset.name.to_owned(), preset.summary.to_owned()))
            .collect(),
    };
    if shared.json {
        let list: Vec<_> = rows
            .iter()
            .map(|(name, about)| serde_json::json!({"name": name, "about": about}))
            .collect();
        return print_json(&list);
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, about)| vec![name, about]).collect();
    print(&table(&["name", "about"], &rows))
}
