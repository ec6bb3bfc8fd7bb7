//! The command line: a command, and the options of all.

use crate::args::Shared;
use crate::build::VERSION;
use crate::commands::Command;
use crate::commands::main_job::NEXT;
use clap::{CommandFactory, Parser};
use linwright::jobs::beginning;

/// Study, replace and compress the linear layers of neural networks.
///
/// Without a command: a demonstration on the built-in model, about two minutes on two cores.
///
/// Exit codes: 0 success, 1 failure, 2 usage, 3 invalid recipe or config, 4 quality gate missed,
/// 5 out of memory or disk, 6 another run's files, 75 interrupted but resumable, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "linwright", version = VERSION, verbatim_doc_comment, after_help = NEXT)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// Commands that `linwright -h` describes; it names the others.
const FIRST: [&str; 17] = [
    "inspect", "compress", "compare", "prune", "laser", "sweep", "search", "eval", "run", "export",
    "train-lm", "generate", "chat", "serve", "report", "ls", "doctor",
];

/// The command line that reads these arguments, with fewer commands in the help if they ask for the
/// short one of the program.
pub(crate) fn command_for(arguments: &[String]) -> clap::Command {
    let command = Cli::command();
    let asks = arguments.iter().any(|word| word == "-h");
    match asks && arguments.iter().all(|word| word.starts_with('-')) {
        true => with_few_commands(command),
        false => command,
    }
}

/// The command line with a line for each of a few commands, and the names of the others.
fn with_few_commands(command: clap::Command) -> clap::Command {
    let names = command.get_subcommands().map(clap::Command::get_name);
    let others: Vec<&str> = names.filter(|name| !FIRST.contains(name)).collect();
    let more = format!(
        "Other commands: {}\n--help describes all commands, COMMAND -h one of them",
        others.join(", ")
    );
    let command = command.mut_subcommands(|own| {
        let about = own.get_about().map(ToString::to_string).unwrap_or_default();
        let is_first = FIRST.contains(&own.get_name());
        own.about(beginning(&about)).hide(!is_first)
    });
    command.disable_help_subcommand(true).after_help(format!("{more}\n\n{NEXT}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn what_to_do_next_is_three_commands_with_flags_that_exist() {
        let parsed = |line: &str| {
            let matches = Cli::command().try_get_matches_from(line.split_whitespace())?;
            Cli::from_arg_matches(&matches)
        };
        let verbs: Vec<String> = NEXT
            .lines()
            .skip(1)
            .map(|line| {
                assert!(line.len() <= 80, "{line}");
                let parsed = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
                match parsed.command {
                    Some(Command::Job(job)) => job.verb().to_owned(),
                    other => panic!("{line}: {other:?}"),
                }
            })
            .collect();
        assert_eq!(verbs, ["inspect", "compress", "eval"]);
    }
}
