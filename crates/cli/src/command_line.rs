//! The command line: a command, and the options of all.

use crate::args::Shared;
use crate::build::VERSION;
use crate::commands::Command;
use crate::commands::main_job::NEXT;
use clap::Parser;

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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches};

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
