//! Shards of a job that exchange what they find, through a folder beside its output.

use super::outcome::{page, text};
use super::shards::{ShardPart, ShardWork};
use super::{AnyJob, Failure, FailureKind, Job, Outcome, Session, recipe_of};
use linwright_report::ReportKind;
use linwright_run::team::{FolderError, FolderTeam, Joined};
use linwright_run::{Fingerprint, Shard, input, shown_reason};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Files of the result in the output, beside a model and alone, and their largest size.
const RESULTS: [&str; 2] = ["results.json", "result.json"];
const RESULT_BYTES: u64 = 1 << 28;
/// File of the job in the output.
const RECIPE: &str = "recipe.yaml";

/// Runs a job as one of several shards, of which the first writes the output.
pub(crate) fn run<J: Job>(job: &J, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let shard = session.take_shard();
    let options = AnyJob::options(job);
    if options.contains_key("dry_run") {
        // What it tells does not depend on shards.
        return Job::run(job, session);
    }
    if options.contains_key("force") {
        return Err(Failure::usage("--force: shards replace nothing").hint("remove the output"));
    }
    let output = options.get("output").and_then(Value::as_str);
    let output = output.map(|output| output.trim_end_matches('/')).ok_or_else(|| {
        Failure::usage(format!("--shard: {} has no --output", J::VERB))
            .hint("shards exchange what they find in a folder beside it")
    })?;
    let (folder, output) = (PathBuf::from(format!("{output}.shards")), Path::new(output));
    let print = Fingerprint::of(&[
        ("version", &session.build().version),
        ("job", &recipe_of(job)),
        ("data", &session.data()),
    ]);
    let team = match FolderTeam::join(&folder, shard, &print, session.cancelled())? {
        Joined::Finished(found) => return finished(&found, J::RESULTS, &folder, output),
        Joined::Member(team) => Rc::new(team),
    };
    if shard.index() == 0
        && team.begins(output.exists())?
        && let Some(found) = written(output, session)?
    {
        // Killed after the output was written, and before that was told.
        team.finish(found.as_bytes())?;
        return finished(found.as_bytes(), J::RESULTS, &folder, output);
    }
    session.join(Rc::clone(&team) as _);
    match Job::run(job, session) {
        Ok(outcome) if shard.index() == 0 => {
            team.finish(outcome.value()?.to_string().as_bytes())?;
            team.leave();
            Ok(outcome)
        }
        Ok(_) => {
            team.leave();
            Ok(helped(shard, output))
        }
        Err(failure) => match team.found()? {
            Some(found) if shard.index() > 0 => finished(&found, J::RESULTS, &folder, output),
            _ if session.cancelled()() => Err(Failure::interrupted("interrupted".to_owned())),
            _ => {
                // Those that wait for this one end, too; the failure itself matters more.
                drop(team.fail(failure.message()));
                Err(failure)
            }
        },
    }
}

fn helped(shard: Shard, output: &Path) -> Outcome {
    let output = output.display().to_string();
    Outcome::of(ShardPart { shard, work: ShardWork::Shared { output } })
}

/// The result in an output, if it is written, and by this job.
fn written(output: &Path, session: &Session<'_>) -> Result<Option<String>, Failure> {
    let files = session.files_beside(&Value::Null)?;
    let recipe = files.iter().find(|(name, _)| name == RECIPE).map(|(_, recipe)| recipe.clone());
    if recipe != input::read(&output.join(RECIPE), RESULT_BYTES).ok() {
        return Ok(None);
    }
    let paths = RESULTS.map(|name| output.join(name));
    let Some(path) = paths.iter().find(|path| path.exists()) else { return Ok(None) };
    let found = input::read_text(path, RESULT_BYTES);
    found.map(Some).map_err(|error| Failure::io(&path.display().to_string(), &error))
}

/// Outcome of a shard that comes when all is done: the result of the first one.
fn finished(
    found: &[u8],
    kinds: &[ReportKind],
    folder: &Path,
    output: &Path,
) -> Result<Outcome, Failure> {
    if !output.exists() {
        let (folder, output) = (folder.display(), output.display());
        return Err(Failure::usage(format!(
            "{folder} tells that {output} is finished, and it is gone"
        ))
        .hint(format!("remove {folder} to do the job again")));
    }
    let result: Value = serde_json::from_slice(found).map_err(|error| {
        let reason = shown_reason(&error.to_string());
        Failure::general(format!("the result in {}: {reason}", folder.display()))
    })?;
    let blocks = vec![text([format!("{} is finished", output.display())])];
    let kind = kinds.iter().find(|kind| result["kind"] == kind.name);
    match (kind, result) {
        (Some(kind), Value::Object(result)) => {
            let (result, report) = (kind.read(result)?, page(blocks));
            Ok(Outcome { result, report, measured: Vec::new(), failure: None })
        }
        (_, result) => Ok(Outcome::new(result, blocks)),
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        let message = error.to_string();
        match error {
            FolderError::Other { path } => {
                Self::new(FailureKind::Fingerprint, message).hint(format!(
                    "give all shards the same command, or remove {} if its work is not wanted",
                    path.display()
                ))
            }
            FolderError::Busy { .. } => Self::general(message).hint("each shard runs once"),
            FolderError::Damaged { .. } => Self::general(message),
            FolderError::Foreign { .. } => Self::usage(message)
                .hint("shards exchange what they find there: name another output"),
            FolderError::Io { path, source } => Self::io(&path.display().to_string(), &source),
            FolderError::Output(error) => error.into(),
        }
    }
}
