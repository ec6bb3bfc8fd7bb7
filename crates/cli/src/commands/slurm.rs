//! `linwright slurm`: a script that divides a job over the tasks of a Slurm array.

use super::{Command, print, print_json};
use crate::args::Shared;
use crate::command_line::Cli;
use crate::failure::Failure;
use clap::{Args, Parser};
use linwright::jobs::{AnyJob, Division, Verb, arguments, quoted};
use serde_json::json;

/// Largest number of shards: the default limit of Slurm on the tasks of an array.
const MAX_SHARDS: u64 = 1001;

/// Print a script that submits a job in shards to Slurm, and their merge after them
///
/// linwright slurm --shards 16 eval MODEL --text TEXT -o result.json | bash
///
/// Shards work in result.json.shards, or in the store of the job: folders that all nodes must
/// share. After a failure, run the script again: finished shards do nothing, others resume where
/// they stopped. Shards of compress, search and compose exchange results, so they are tasks of one
/// job, which srun starts at the same time.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SlurmArgs {
    /// Number of shards.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_SHARDS))]
    shards: Option<u64>,
    /// Largest number of shards that run at once [default: as many as Slurm starts].
    #[arg(long, alias = "at_once", value_parser = clap::value_parser!(u64).range(1..=MAX_SHARDS))]
    at_once: Option<u64>,
    /// An option of sbatch for all submitted jobs, such as --sbatch=--partition=long; may be given
    /// more than once.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch: Vec<String>,
    /// The job: a command that takes --shard, with its options and --output.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "JOB"
    )]
    job: Vec<String>,
}

/// A sharded job.
struct Divided {
    verb: &'static Verb,
    /// Its arguments for a shell, without its output.
    arguments: Vec<String>,
    /// Its output; if shards share one directory, that directory.
    output: String,
    shards: u64,
    /// Options of all commands, which may occur among the job's options.
    shared: Shared,
}

pub(crate) fn run(args: &SlurmArgs, shared: &Shared) -> Result<(), Failure> {
    let divided = args.divided()?;
    let folder = std::env::current_dir().map_err(|e| Failure::io("the current folder", &e))?;
    let Some(folder) = folder.to_str() else {
        let failure = Failure::usage(format!("{}: its name is not text", folder.display()));
        return Err(failure.hint("run the command in a folder with a name in UTF-8"));
    };
    let script = script(&divided, args, folder);
    if shared.json || divided.shared.json {
        let Divided { verb, output, shards, .. } = &divided;
        return print_json(&json!({
            "job": verb.name,
            "shards": shards,
            "folder": folder_of(output),
            "output": output,
            "script": script,
        }));
    }
    print(script.trim_end())
}

impl SlurmArgs {
    fn divided(&self) -> Result<Divided, Failure> {
        let (shards, words) = self.shards_and_job()?;
        let words = std::iter::once("linwright").chain(words.iter().map(String::as_str));
        let cli = Cli::try_parse_from(words).map_err(|error| {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim();
            let (message, hint) = text.split_once("\n\n").unwrap_or((text, "see --help"));
            Failure::usage(format!("the job: {message}")).hint(hint)
        })?;
        let Some(Command::Job(job)) = cli.command else {
            return Err(undivided("this command"));
        };
        let verb = Verb::named(job.verb()).filter(|verb| verb.division.has_shards());
        let verb = verb.ok_or_else(|| undivided(job.verb()))?;
        if verb.division != Division::Shared && job.options().contains_key("force") {
            return Err(Failure::usage("--force: shards do not replace outputs")
                .hint("remove the output first"));
        }
        if verb.division.waits() && self.at_once.is_some() {
            return Err(Failure::usage(format!(
                "--at-once: shards of {} wait for each other",
                verb.words()
            ))
            .hint("all must run at the same time: leave it out"));
        }
        if cli.shared.shard.is_some() {
            return Err(Failure::usage("--shard: the script sets the shard of each task"));
        }
        let output = output_of(verb.division, job.as_ref())?;
        let is_output = |argument: &String| {
            verb.division == Division::Merged && argument.starts_with("--output=")
        };
        let given = arguments(job.as_ref());
        let arguments = given.iter().filter(|a| !is_output(a)).map(|a| quoted(a)).collect();
        Ok(Divided { verb, arguments, output, shards, shared: cli.shared })
    }

    /// The text after the options of sbatch.
    fn own_options(&self) -> String {
        self.sbatch.iter().map(|option| format!(" {}", quoted(option))).collect()
    }

    /// The number of shards, also if it is given among the job's options, and the job.
    fn shards_and_job(&self) -> Result<(u64, Vec<String>), Failure> {
        let mut job = self.job.clone();
        // The job may be a whole command line.
        let start = usize::from(job.first().is_some_and(|word| word == "--"));
        if job.get(start).is_some_and(|word| word == "linwright") {
            job.drain(..=start);
        }
        let mut shards = self.shards;
        let mut options = job.iter().take_while(|word| *word != "--");
        let place = options.position(|word| word == "--shards" || word.starts_with("--shards="));
        if let Some(at) = place {
            let word = job.remove(at);
            let value = match word.split_once('=') {
                Some((_, value)) => value.to_owned(),
                None if at < job.len() => job.remove(at),
                None => String::new(),
            };
            let number = value.parse().ok().filter(|number| (1..=MAX_SHARDS).contains(number));
            if shards.is_some() {
                return Err(Failure::usage("--shards is given twice"));
            }
            shards = Some(number.ok_or_else(|| {
                let expected = format!("a whole number from 1 to {MAX_SHARDS}");
                Failure::usage(format!("--shards is {value:?}, expected {expected}"))
            })?);
        }
        let missing = || {
            let message = "--shards is missing, the number of tasks of the array";
            Failure::usage(message).hint("linwright slurm --shards 4 eval MODEL --text TEXT -o OUT")
        };
        Ok((shards.ok_or_else(missing)?, job))
    }
}

fn undivided(what: &str) -> Failure {
    let able = linwright::jobs::VERBS.iter().filter(|verb| verb.division.has_shards());
    let able = able.map(Verb::words);
    let able = able.collect::<Vec<_>>().join(", ");
    Failure::usage(format!("{what} cannot be sharded")).hint(format!("these commands are: {able}"))
}

/// Output of the job.
fn output_of(division: Division, job: &dyn AnyJob) -> Result<String, Failure> {
    let options = job.options();
    let store = options.get("store").filter(|_| division == Division::Shared);
    let output = options.get("output").or(store).and_then(serde_json::Value::as_str);
    let missing = || {
        Failure::usage("the job has no --output").hint("shards keep their work next to the output")
    };
    Ok(output.ok_or_else(missing)?.trim_end_matches('/').to_owned())
}

/// The folder of the shards.
fn folder_of(output: &str) -> String {
    format!("{output}.shards")
}

/// The option of sbatch for a file of messages in a folder, where `%` starts a pattern.
fn log(folder: &str, name: &str) -> String {
    format!("--output={}/{name}", quoted(&folder.replace('%', "%%")))
}

/// A shell function that prints a text; no line of the text ends the function early.
fn function(name: &str, text: &str) -> String {
    let mut end = name.to_uppercase();
    while text.lines().any(|line| line.trim_end_matches('\r') == end) {
        end.push('_');
    }
    format!("{name}() {{\n    cat << '{end}'\n{text}\n{end}\n}}\n")
}

/// The script.
fn script(divided: &Divided, args: &SlurmArgs, folder: &str) -> String {
    if divided.verb.division.waits() {
        return script_at_once(divided, args, folder);
    }
    let Divided { verb, arguments, output, shards, shared } = divided;
    let (last, name, words) = (shards - 1, verb.name, verb.words());
    let threads = threads(shared);
    let at_once = args.at_once.map_or_else(String::new, |count| format!("%{count}"));
    let (own, shards_folder) = (args.own_options(), folder_of(output));
    let [log_of_shard, log_of_merge] = ["%a.log", "merge.log"].map(|of| log(&shards_folder, of));
    let (folder, shards_folder) = (quoted(folder), quoted(&shards_folder));
    let (job, output) = (arguments.join(" "), quoted(output));
    let (place, end) = match verb.division {
        Division::Shared => {
            (String::new(), format!("exec linwright {words} --threads={threads} {job}"))
        }
        _ => (
            format!(" --output={shards_folder}/\"$SLURM_ARRAY_TASK_ID\""),
            format!(
                "while [ \"$#\" -lt {shards} ]; do
    set -- \"$@\" {shards_folder}/\"$#\"
done
exec linwright merge --output={output} -- \"$@\""
            ),
        ),
    };
    let shard = format!(
        "#!/usr/bin/env bash
exec linwright {words} --threads={threads} \\
    --shard=\"$SLURM_ARRAY_TASK_ID/{shards}\"{place} \\
    {job}"
    );
    let (shard, merge) =
        (function("shard", &shard), function("merge", &format!("#!/usr/bin/env bash\n{end}")));
    format!(
        "#!/usr/bin/env bash
# {shards} shards of a job of linwright as an array of Slurm, and their merge after them.
# Run it again after a failure: shards that are done compute nothing, others resume.
set -eu
cd {folder}
mkdir -p -- {shards_folder}
{shard}{merge}array=\"$(shard | sbatch --parsable --job-name=linwright-{name} --requeue \\
    --array=0-{last}{at_once} {log_of_shard}{own})\"
merge=\"$(merge | sbatch --parsable --job-name=linwright-merge --kill-on-invalid-dep=yes \\
    --dependency=afterok:\"${{array%%;*}}\" {log_of_merge}{own})\"
echo \"array $array, then merge $merge\"
"
    )
}

/// Threads of a task.
fn threads(shared: &Shared) -> String {
    match shared.threads {
        0 => "\"${SLURM_CPUS_PER_TASK:-0}\"".to_owned(),
        threads => threads.to_string(),
    }
}

/// The script of shards that exchange results: the tasks of one job.
fn script_at_once(divided: &Divided, args: &SlurmArgs, folder: &str) -> String {
    let Divided { verb, arguments, output, shards, shared } = divided;
    let (name, threads, own) = (verb.name, threads(shared), args.own_options());
    let (words, arguments) = (verb.words(), arguments.join(" "));
    let shards_folder = folder_of(output);
    let log = log(&shards_folder, "%j.log");
    let (folder, shards_folder) = (quoted(folder), quoted(&shards_folder));
    let task = quoted(&format!(
        "exec linwright {words} --threads={threads} --shard=\"$SLURM_PROCID/{shards}\" {arguments}"
    ));
    let shards_of_job = function(
        "shards",
        &format!(
            "#!/usr/bin/env bash
export SRUN_CPUS_PER_TASK=\"${{SLURM_CPUS_PER_TASK:-1}}\"
exec srun --kill-on-bad-exit=1 bash -c \\
    {task}"
        ),
    );
    format!(
        "#!/usr/bin/env bash
# {shards} shards of a job of linwright, which wait for each other, as the tasks of a job of Slurm.
# Run it again after a failure: it resumes where it stopped.
set -eu
cd {folder}
mkdir -p -- {shards_folder}
{shards_of_job}job=\"$(shards | sbatch --parsable --job-name=linwright-{name} --ntasks={shards} --requeue \\
    {log}{own})\"
echo \"job $job\"
"
    )
}
