//! Options shared by commands, and parsers of option values.

use crate::failure::{Failure, message_of};
use crate::host::variable;
use crate::opened::watch_files;
use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{ArgAction, Args};
use linwright::run::Shard;
use linwright::tensor::parallel::MAX_THREADS;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The parser of a number within bounds.
pub(crate) fn within(bounds: RangeInclusive<usize>) -> impl TypedValueParser<Value = usize> {
    move |text: &str| match text.parse() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {} to {}", bounds.start(), bounds.end())),
    }
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Shared {
    /// Number of threads, at most 1024; 0 means RAYON_NUM_THREADS, or all cores. Results do not
    /// depend on it.
    #[arg(long, global = true, help_heading = "All commands", hide_short_help = true, default_value_t = 0,
          value_parser = RangedU64ValueParser::<usize>::new().range(..=MAX_THREADS as u64))]
    pub(crate) threads: usize,
    /// Print only the result, as JSON, on stdout; an error is one line of JSON, the last on stderr.
    #[arg(long, global = true, help_heading = "All commands", hide_short_help = true)]
    pub(crate) json: bool,
    /// Print no progress and no notes on stderr.
    #[arg(short, long, global = true, help_heading = "All commands", hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Print details on stderr: time of each step, files read, peak memory, defaults and their
    /// reasons; given twice, also each opened file and the fit of each layer.
    #[arg(short, long, global = true, help_heading = "All commands", hide_short_help = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Do share i of N of the work, counted from 0, and write it to --output; `linwright merge`
    /// merges all shares. Shards of commands with a store share the store; shards of compress,
    /// search and compose run at the same time and exchange results, and the first one writes the
    /// result.
    #[arg(long, global = true, help_heading = "All commands", hide_short_help = true, value_name = "i/N", value_parser = Shard::from_str)]
    pub(crate) shard: Option<Shard>,
    /// Run the job on all MPI ranks together: `mpirun -n 4 linwright --mpi compress ...`. Jobs with
    /// shards use a folder next to --output.
    #[cfg(feature = "mpi")]
    #[arg(long, global = true, help_heading = "All commands", hide_short_help = true, conflicts_with_all = ["shard", "print_recipe"])]
    pub(crate) mpi: bool,
    /// Print the command as a recipe, and stop.
    #[arg(
        long,
        global = true,
        help_heading = "All commands",
        hide_short_help = true,
        alias = "print_recipe"
    )]
    pub(crate) print_recipe: bool,
    /// Print progress as plain lines instead of a bar.
    #[arg(
        long,
        global = true,
        help_heading = "All commands",
        hide_short_help = true,
        alias = "no_progress"
    )]
    pub(crate) no_progress: bool,
}

/// Parses an option whose values are the names of library values.
pub(crate) fn one_of<T: Copy + Send + Sync>(
    values: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    one_of_words(values, name, |_| Vec::new())
}

/// As [`one_of`], accepting aliases as well.
pub(crate) fn one_of_words<T: Copy + Send + Sync>(
    values: &'static [T],
    name: fn(T) -> &'static str,
    other_names: fn(T) -> Vec<&'static str>,
) -> impl TypedValueParser<Value = T> {
    let possible = |&value: &T| PossibleValue::new(name(value)).aliases(other_names(value));
    let parser = PossibleValuesParser::new(values.iter().map(possible));
    AnyDash(parser.try_map(move |word| {
        let is_called = |value: &T| name(*value) == word || other_names(*value).contains(&&*word);
        values.iter().copied().find(is_called).ok_or("not one of the values")
    }))
}

/// Treats hyphens and underscores as equal when a word matches no value exactly.
#[derive(Clone, Debug)]
pub(crate) struct AnyDash<P>(pub(crate) P);

impl<P: TypedValueParser> TypedValueParser for AnyDash<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<P::Value, clap::Error> {
        self.0.parse_ref(command, arg, value).or_else(|error| {
            let word = value.to_string_lossy();
            let others = [word.replace('-', "_"), word.replace('_', "-")];
            let read = |word: &String| self.0.parse_ref(command, arg, OsStr::new(word)).ok();
            others.iter().find_map(read).ok_or(error)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

impl Shared {
    /// Rejects contradictory options, and starts the count of opened files for `--verbose`.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        // One option may precede the subcommand and the other follow it.
        if self.quiet && self.verbose > 0 {
            return Err(Failure::usage("--verbose cannot be used with --quiet")
                .hint("give only one of them"));
        }
        #[cfg(feature = "mpi")]
        if self.mpi && (self.shard.is_some() || self.print_recipe) {
            return Err(Failure::usage("--mpi cannot be used with --shard or --print-recipe")
                .hint("give only one of them"));
        }
        watch_files(self.verbose);
        Ok(())
    }

    /// Starts the threads that all kernels share.
    pub(crate) fn set_threads(&self) -> Result<(), Failure> {
        let threads = match self.threads {
            0 => {
                let asked = variable("RAYON_NUM_THREADS");
                threads_of_environment(asked.as_deref().map(OsStr::to_string_lossy).as_deref())?
            }
            threads => threads,
        };
        linwright::tensor::parallel::set_threads(threads).map_err(|error| {
            Failure::general(format!("cannot start {threads} threads: {}", message_of(&error)))
        })
    }
}

/// Number of threads in RAYON_NUM_THREADS; zero if it is unset or empty.
fn threads_of_environment(value: Option<&str>) -> Result<usize, Failure> {
    let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) else { return Ok(0) };
    match value.parse() {
        Ok(threads) if threads <= MAX_THREADS => Ok(threads),
        _ => Err(Failure::usage(format!(
            "RAYON_NUM_THREADS is {value:?}, expected a number from 0 to {MAX_THREADS}"
        ))
        .hint("set it to the number of cores, or unset it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_environment_have_the_same_bound() {
        for (value, threads) in [(None, 0), (Some(""), 0), (Some(" 3 "), 3), (Some("1024"), 1024)] {
            assert!(threads_of_environment(value).is_ok_and(|found| found == threads), "{value:?}");
        }
        for value in ["100000", "1025", "-1", "many"] {
            assert!(threads_of_environment(Some(value)).is_err(), "{value}");
        }
    }
}
