//! `linwright validate`: checks task files.

use super::{print, print_json, table};
use crate::args::{Shared, within};
use crate::console::Console;
use crate::failure::Failure;
use crate::host::variable;
use crate::interrupt;
use clap::Args;
use linwright::data::sets::Sets;
use linwright::evaluate::{DataFile, HarnessOptions, Validated, validate};
use linwright::files::hub;
use linwright::jobs::bounds;
use linwright::run::Monitor;
use serde_json::json;
use std::cell::RefCell;
use std::str::FromStr;

/// Check task files and show the first request of each task.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Tasks and groups: names (see `linwright ls tasks`) and paths of their files.
    #[arg(value_name = "TASK", value_delimiter = ',', required_unless_present = "also")]
    tasks: Vec<String>,
    /// Tasks and groups, as an option.
    #[arg(short, long = "tasks", id = "also", value_delimiter = ',', value_name = "TASK")]
    also: Vec<String>,
    /// Data set of a task, or one split of it: `TASK=FILE`, `TASK:SPLIT=FILE`.
    #[arg(long, value_name = "TASK=FILE", value_parser = DataFile::from_str)]
    data: Vec<DataFile>,
    /// Number of few-shot examples [default: that of the task].
    #[arg(short = 'f', long, alias = "num_fewshot", value_name = "K",
          value_parser = within(0..=bounds::FEWSHOT))]
    num_fewshot: Option<usize>,
}

pub(crate) fn run(args: &ValidateArgs, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let names: Vec<String> = args.tasks.iter().chain(&args.also).cloned().collect();
    let console_of_sets = RefCell::new(&mut console);
    let hooks = hub::Hooks {
        step: &mut |name| console_of_sets.borrow_mut().step(name),
        progress: &mut |done, total| console_of_sets.borrow_mut().progress(done, total),
        cancelled: &interrupt::is_requested,
    };
    let sets = Sets::new(&variable, hooks);
    let options = HarnessOptions {
        shots: args.num_fewshot,
        data: args.data.clone(),
        sets: Some(&sets),
        ..HarnessOptions::default()
    };
    let all = validate(&names, &options)?;
    if shared.json {
        let one = |v: &Validated| {
            let (context, continuations) = v.first.clone().unzip();
            json!({
                "task": v.task, "output_type": v.output, "documents": v.documents,
                "missing": v.missing, "first_context": context,
                "first_continuations": continuations,
            })
        };
        return print_json(&all.iter().map(one).collect::<Vec<_>>());
    }
    let row = |v: &Validated| {
        let documents = v.documents.map_or("not found".to_owned(), |count| count.to_string());
        vec![v.task.clone(), v.output.to_owned(), documents]
    };
    print(&table(&["task", "asks", "documents"], &all.iter().map(row).collect::<Vec<_>>()))?;
    for v in &all {
        match (&v.first, &v.missing) {
            (Some((context, continuations)), _) => {
                print(&format!("\n{}: first context {context:?}", v.task))?;
                for continuation in continuations {
                    print(&format!("  {continuation:?}"))?;
                }
            }
            (None, Some(missing)) => {
                print(&format!("\n{}: only its file was checked: {missing}", v.task))?;
            }
            (None, None) => {}
        }
    }
    Ok(())
}
