//! `linwright completions`: shell completions of commands, options and their values.

use super::{Pieces, ls, print_json};
use crate::args::Shared;
use crate::command_line::Cli;
use crate::failure::Failure;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, CommandFactory};
use clap_complete::Shell;
use linwright::jobs::{Catalogue, Key, Kind, OTHERS, ValueKind, Verb};
use linwright::ops::OpSpec;
use serde_json::json;

/// Print shell completions: commands, options, names of operators, methods, tasks and forms
///
/// bash: save them as ~/.local/share/bash-completion/completions/linwright
/// zsh:  save them as `_linwright` in a folder of $fpath
/// fish: save them as ~/.config/fish/completions/linwright.fish
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, shared: &Shared) -> Result<(), Failure> {
    let mut top = Cli::command();
    // Commands make their arguments when they are built.
    top.build();
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut with_names(top), "linwright", &mut text);
    let text = String::from_utf8_lossy(&text);
    if shared.json {
        return print_json(&json!({ "shell": args.shell.to_string(), "script": text }));
    }
    let mut pieces = Pieces::default();
    pieces.write(&text);
    pieces.finish()
}

/// Adds names, and each with every option that it has, to an argument that takes terms.
fn with_terms(arg: Arg, catalogue: &Catalogue) -> Arg {
    // What may be a path or a number is completed by the shell, if at all.
    let is_named = |head: &Key| matches!(head.kind, ValueKind::Named(_));
    if !arg.get_possible_values().is_empty() || !catalogue.head.as_ref().is_none_or(is_named) {
        return arg;
    }
    let words = catalogue.entries.iter().flat_map(|entry| {
        let heads = match &catalogue.head {
            Some(Key { kind: ValueKind::Named(names), .. }) => {
                names.iter().map(|name| name.name.clone()).collect()
            }
            _ => vec![entry.name.to_owned()],
        };
        heads.into_iter().flat_map(|name| {
            let before = if name.is_empty() { String::new() } else { format!("{name}:") };
            let of_key = move |key: &Key| format!("{before}{}=", key.name);
            (!name.is_empty()).then_some(name).into_iter().chain(entry.keys.iter().map(of_key))
        })
    });
    arg.value_parser(PossibleValuesParser::new(words))
}

/// Adds the known names to arguments that also take files or specifications.
fn with_names(command: Command) -> Command {
    let verb = command.get_display_name().and_then(|name| name.strip_prefix("linwright-"));
    let other = || OTHERS.iter().find(|(words, _)| Some(*words) == verb);
    let fields = match verb.and_then(Verb::named) {
        Some(verb) => (verb.fields)(),
        None => other().map(|(_, fields)| fields()).unwrap_or_default(),
    };
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "operator" | "operators" => {
            let kinds = OpSpec::SUMMARIES.iter().map(|summary| summary.kind);
            arg.value_parser(PossibleValuesParser::new(kinds))
        }
        "tasks" => arg.value_parser(PossibleValuesParser::new(ls::tasks().map(|(name, _)| name))),
        id => {
            let field = fields.iter().find(|field| field.key == id);
            if let Some(Kind::Term(catalogue)) = field.map(|field| &field.kind) {
                with_terms(arg, catalogue)
            } else {
                arg
            }
        }
    });
    command.mut_subcommands(with_names)
}
