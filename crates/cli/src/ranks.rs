//! `--mpi`: one job on all ranks that `mpirun` or `srun` started.

use crate::args::Shared;
use crate::command_line::Cli;
use crate::commands::{Command, outcome, run, run_with};
use crate::failure::{Failure, report};
use crate::interrupt;
use crate::stderr::write_stderr;
use linwright::jobs::{AnyJob, Division, Merge, VERBS, Verb};
use linwright::run::Shard;
use linwright::run::team::{Alone, Members, Team};
use linwright_mpi::Ranks;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

/// If all ranks fail with the same error, only the first one reports it: the others wait this long.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run_all(cli: Cli) -> ExitCode {
    let json = cli.shared.json;
    let ranks = match Ranks::join() {
        Ok(ranks) => ranks,
        Err(error) => return report(&Failure::general(format!("--mpi: {error}")), json),
    };
    let installed = interrupt::install(true, json)
        .map_err(|error| Failure::general(format!("cannot listen to signals: {error}")));
    let Err(failure) = installed.and_then(|()| work(cli, &ranks)) else {
        return ExitCode::SUCCESS;
    };
    if ranks.rank() > 0 {
        sleep(PATIENCE);
        let host = ranks.host().unwrap_or_else(|_| "a machine without a name".to_owned());
        write_stderr(&format!("rank {} on {host}:", ranks.rank()));
    }
    let code = report(&failure, json);
    if ranks.size() > 1 {
        // Others may wait for this one.
        ranks.abort(failure.kind() as u8);
    }
    code
}

fn work(cli: Cli, ranks: &Ranks) -> Result<(), Failure> {
    let Cli { command, mut shared } = cli;
    shared.check()?;
    if ranks.rank() > 0 {
        (shared.quiet, shared.verbose) = (true, 0);
    }
    shared.set_threads()?;
    let Some(Command::Job(job)) = command else {
        return Err(refused("this command"));
    };
    let Some(verb) = Verb::named(job.verb()) else { return Err(refused(job.verb())) };
    if ranks.size() == 1 && !shared.quiet {
        write_stderr(
            "note: there is one rank; a different MPI than that of this program starts each rank separately",
        );
    }
    let is_dry = job.options().get("dry_run").is_some();
    if ranks.size() == 1 || is_dry {
        // The output of a dry run does not depend on ranks.
        return at_last(ranks, || run(job.as_ref(), &shared));
    }
    let own = Shared { shard: Shard::new(ranks.rank(), ranks.size()).ok(), ..shared.clone() };
    match verb.division {
        Division::Whole => Err(refused(&verb.words())),
        Division::Exchanged => run_with(job.as_ref(), &shared, ranks),
        Division::Together => match ranks.rank() {
            0 => run(job.as_ref(), &own),
            _ => outcome(job.as_ref(), &own, &Alone).map(drop),
        },
        Division::Shared => {
            outcome(job.as_ref(), &own, &Alone)?;
            at_last(ranks, || run(job.as_ref(), &shared))
        }
        Division::Merged => {
            let (shard, merge) = parts(verb, job.as_ref(), ranks)?;
            outcome(shard.as_ref(), &own, &Alone)?;
            at_last(ranks, || run(&merge, &shared))
        }
    }
}

/// The shard of this rank, whose output is next to that of the job, and the merge of all.
fn parts(
    verb: &Verb,
    job: &dyn AnyJob,
    ranks: &Ranks,
) -> Result<(Box<dyn AnyJob>, Merge), Failure> {
    let mut options = job.options();
    if options.shift_remove("force").is_some() {
        return Err(
            Failure::usage("--force: a merge does not replace outputs").hint("remove the output")
        );
    }
    let output = options.get("output").and_then(serde_json::Value::as_str);
    let Some(output) = output.map(|output| output.trim_end_matches('/').to_owned()) else {
        return Err(Failure::usage(format!("--mpi: {} has no --output", verb.words()))
            .hint("ranks keep their work next to the output"));
    };
    if !verb.output_ending.is_empty() && Path::new(&output).exists() {
        return Err(Failure::usage(format!("output {output} exists already"))
            .hint("a merge does not replace outputs: remove it, or name another one"));
    }
    let folder = PathBuf::from(format!("{output}.shards"));
    if folder.is_symlink() {
        return Err(Failure::usage(format!("{} is a link", folder.display()))
            .hint("remove it: ranks keep their work there"));
    }
    let place = |rank: usize| folder.join(rank.to_string());
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::io(&folder.display().to_string(), &error))?;
    let directories = (0..ranks.size()).map(place).collect();
    let merge = Merge { directories, output: (&output).into(), ..Merge::default() };
    options.insert("output".into(), place(ranks.rank()).display().to_string().into());
    Ok(((verb.read)(&options)?, merge))
}

/// Work of the first rank after all are done.
fn at_last(ranks: &Ranks, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    ranks.barrier()?;
    match ranks.rank() {
        0 => work(),
        _ => Ok(()),
    }
}

fn refused(what: &str) -> Failure {
    let able = VERBS.iter().filter(|verb| verb.division != Division::Whole).map(Verb::words);
    let able = able.collect::<Vec<_>>().join(", ");
    Failure::usage(format!("--mpi: {what} cannot be sharded"))
        .hint(format!("these commands are: {able}"))
}
