//! The commands: those of jobs, and those of this list. A new job is a file in the library and a
//! line of its list; another command is a file here and a line below.

mod figures;
pub(crate) mod main_job;

use crate::args::Shared;
use crate::console::Console;
use crate::face;
use crate::failure::Failure;
use clap::{ArgMatches, Error, FromArgMatches, Subcommand};
use linwright::jobs::{AnyJob, Outcome, RECIPE_VERSION, Verb, to_yaml};
use linwright::report::{AnyReport, Block, Table, terminal};
use linwright::run::team::{Alone, Team};
use linwright::run::{Monitor, place};
use serde_json::{Map, Value};
use std::io::{self, ErrorKind, Write};

macro_rules! commands {
    ($($module:ident => $name:ident($args:ident);)*) => {
        $(pub(crate) mod $module;)*

        /// Commands that are not jobs.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Own {
            $($name($module::$args),)*
        }

        impl Own {
            fn run(&self, shared: &Shared) -> Result<(), Failure> {
                match self { $(Self::$name(args) => $module::run(args, shared),)* }
            }
        }
    };
}

commands! {
    validate => Validate(ValidateArgs);
    generate => Generate(GenerateArgs);
    chat => Chat(ChatArgs);
    serve => Serve(ServeArgs);
    slurm => Slurm(SlurmArgs);
    report => Report(ReportArgs);
    ls => Ls(LsArgs);
    cache => Cache(CacheArgs);
    bench => Bench(BenchArgs);
    rotor => Rotor(RotorArgs);
    completions => Completions(CompletionsArgs);
    man => Man(ManArgs);
    doctor => Doctor(DoctorArgs);
}

/// A command with its arguments.
#[derive(Debug)]
pub(crate) enum Command {
    /// A job.
    Job(Box<dyn AnyJob>),
    /// Another command.
    Own(Box<Own>),
}

impl Command {
    pub(crate) fn run(&self, shared: &Shared) -> Result<(), Failure> {
        match self {
            Self::Job(job) if shared.print_recipe => print_recipe(job.as_ref(), shared),
            Self::Job(job) => run(job.as_ref(), shared),
            Self::Own(_) if shared.print_recipe => {
                Err(Failure::usage("--print-recipe: this command is not a job of recipes"))
            }
            Self::Own(_) if shared.shard.is_some() => {
                Err(Failure::usage("--shard: this command has no work to divide"))
            }
            Self::Own(own) => own.run(shared),
        }
    }

    /// Whether it can be stopped gracefully. Others end immediately when interrupted.
    pub(crate) fn can_stop(&self) -> bool {
        match self {
            Self::Job(job) => !matches!(job.verb(), "export" | "import"),
            Self::Own(own) => !matches!(
                **own,
                Own::Report(_)
                    | Own::Slurm(_)
                    | Own::Ls(_)
                    | Own::Completions(_)
                    | Own::Man(_)
                    | Own::Doctor(_)
            ),
        }
    }
}

impl Subcommand for Command {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        Own::augment_subcommands(command.subcommands(face::commands()))
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        face::commands().iter().any(|own| own.get_name() == name) || Own::has_subcommand(name)
    }
}

impl FromArgMatches for Command {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        match face::verb_of(matches) {
            Some((verb, given)) => face::job(verb, given).map(Self::Job),
            None => Own::from_arg_matches(matches).map(|own| Self::Own(Box::new(own))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Prints a job as a recipe, which writes below its output directory.
fn print_recipe(job: &dyn AnyJob, shared: &Shared) -> Result<(), Failure> {
    let fields = Verb::named(job.verb()).map(|verb| (verb.fields)()).unwrap_or_default();
    let mut options = job.options();
    for field in fields.iter().filter(|field| field.is_place()) {
        let path = options.get(&field.key).and_then(Value::as_str);
        if let Some(Err(error)) = path.map(place::below) {
            Console::new(shared).note(&format!("note: {} is left out: {error}", field.key));
            options.shift_remove(&field.key);
        }
    }
    let mut recipe = Map::from_iter([("version".to_owned(), RECIPE_VERSION.into())]);
    recipe.insert(job.verb().replace('-', "_"), options.into());
    print(to_yaml(&recipe.into())?.trim_end())
}

/// Runs a job and prints its outcome.
pub(crate) fn run(job: &dyn AnyJob, shared: &Shared) -> Result<(), Failure> {
    run_with(job, shared, &Alone)
}

/// Runs a job together with other processes; the first one prints its outcome.
pub(crate) fn run_with(job: &dyn AnyJob, shared: &Shared, team: &dyn Team) -> Result<(), Failure> {
    let outcome = outcome(job, shared, team)?;
    if team.rank() > 0 {
        return Ok(());
    }
    if shared.json {
        print_report(outcome.result.as_ref())?;
    } else {
        let report = &outcome.report;
        let text = match report.title.is_empty() {
            true => terminal::blocks(&report.blocks),
            false => terminal::render(report),
        };
        let text = text + &terminal::blocks(&outcome.measured);
        print(text.trim_matches('\n'))?;
    }
    outcome.failure.map_or(Ok(()), Err)
}

/// Runs a job together with other processes, and prints nothing.
pub(crate) fn outcome(
    job: &dyn AnyJob,
    shared: &Shared,
    team: &dyn Team,
) -> Result<Outcome, Failure> {
    let mut console = Console::new(shared);
    let shard = shared.shard.unwrap_or_default();
    let session = console.session().with_shard(shard).with_team(team);
    let mut session = if shared.json { session.without_report() } else { session };
    let outcome = job.run(&mut session);
    drop(session);
    console.finish();
    outcome
}

/// Prints a result to stdout, which scripts read.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut pieces = Pieces::default();
    pieces.write(&format!("{text}\n"));
    pieces.finish()
}

/// Writes text to stdout piece by piece, unbuffered. Nothing else writes to stdout.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The error that ended the output.
    ended: Option<io::Error>,
}

impl Pieces {
    /// Writes a piece; returns whether more can be written.
    pub(crate) fn write(&mut self, piece: &str) -> bool {
        if self.ended.is_none() {
            let mut out = io::stdout().lock();
            self.ended = out.write_all(piece.as_bytes()).and_then(|()| out.flush()).err();
        }
        self.ended.is_none()
    }

    /// Ends the output; a reader that closed the pipe is not an error.
    ///
    /// # Errors
    /// If text could not be written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.ended {
            // The reader closed the pipe, like `head`: not an error.
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::io("standard output", &error))
            }
            _ => Ok(()),
        }
    }
}

/// Prints a value as JSON to stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print_written(|out| serde_json::to_writer_pretty(out, value))
}

/// Prints a result with its kind as JSON to stdout.
pub(crate) fn print_report(result: &dyn AnyReport) -> Result<(), Failure> {
    print_written(|out| result.write(out))
}

/// Prints JSON to stdout, piece by piece: it may be much longer than the data behind it.
fn print_written(
    write: impl FnOnce(&mut dyn Write) -> serde_json::Result<()>,
) -> Result<(), Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = write(&mut out).map_err(std::io::Error::from);
    match written.and_then(|()| writeln!(out)).and_then(|()| out.flush()) {
        // The reader closed the pipe, like `head`: not an error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::io("standard output", &error)),
    }
}

/// A table with aligned columns: text left, numbers right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    plain(&Table::of_cells(header, rows.to_vec()))
}

/// A table of a report.
pub(crate) fn plain(table: &Table) -> String {
    terminal::blocks(&[Block::Table(table.clone())]).trim_matches('\n').to_owned()
}
