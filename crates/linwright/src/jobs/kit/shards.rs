//! Shards: several processes that each do a part of one job, and the merge of their results.
//!
//! A process with `--shard i/N` computes the pieces that it owns and keeps them in its output
//! directory, beside a record of the job. `linwright merge` runs the job over these pieces:
//! what a shard did is read, what no shard did is computed. The result has the same bytes as that
//! of a single process, since every piece is a function of the job alone.

use super::Outcome;
use super::inputs::InputHash;
use super::outcome::{page, text};
use super::{Failure, FailureKind, Session, outputs};
use linwright_report::{Document, Report, ReportKind};
use linwright_run::{Shard, input, shown_reason, state};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// File of a shard's directory that names its job.
pub(crate) const RECORD: &str = "shard.json";

/// What a shard's directory belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardRecord {
    /// Version of the program.
    pub(crate) linwright: String,
    /// The share.
    pub(crate) shard: Shard,
    /// The job as a recipe, without its output.
    pub(crate) job: Map<String, Value>,
    /// Files that it reads.
    pub(crate) data: Vec<InputHash>,
    /// Where it puts results beside its output, by the key of the option: the merge does.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) places: Map<String, Value>,
}

impl ShardRecord {
    /// Reads the record of a shard's directory.
    pub(crate) fn read(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(RECORD);
        let text = state::read_text(&path, input::MAX_SETTINGS_BYTES).map_err(|error| {
            Failure::io(&path.display().to_string(), &error)
                .hint("give directories that commands with --shard wrote")
        })?;
        serde_json::from_str(&text).map_err(|error| {
            let reason = shown_reason(&error.to_string());
            Failure::general(format!("{} is no record of a shard: {reason}", path.display()))
        })
    }

    /// Whether two records are of the same job, in whatever share.
    pub(crate) fn is_of_job(&self, other: &Self) -> bool {
        let count = |record: &Self| record.shard.count();
        (&self.linwright, &self.job, &self.data, count(self))
            == (&other.linwright, &other.job, &other.data, count(other))
    }
}

/// The output of a sharded job, which must be named: other processes would choose the same one.
pub(crate) fn output_of(session: &Session<'_>, output: Option<&Path>) -> Result<(), Failure> {
    if session.shard().is_whole() || output.is_some() {
        return Ok(());
    }
    Err(Failure::usage(format!("--shard {} needs an output directory", session.shard()))
        .hint("give --output DIR, another one to each shard"))
}

/// Checks, before any work, that a directory can become that of a shard: it does not exist, or is
/// empty, or is one already; never an input.
pub(crate) fn check_directory(
    path: &Path,
    inputs: &[PathBuf],
    session: &Session<'_>,
) -> Result<(), Failure> {
    outputs::check_place(path, inputs, session)?;
    let shown = path.display();
    let Ok(mut entries) = std::fs::read_dir(path) else {
        return match path.symlink_metadata() {
            Ok(_) => Err(Failure::usage(format!("output {shown} is no directory"))
                .hint("a shard keeps what it computed in a directory")),
            Err(_) => Ok(()),
        };
    };
    match path.join(RECORD).is_file() || entries.next().is_none() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "output {shown} is not empty and does not belong to a shard"
        ))
        .hint("choose another directory")),
    }
}

/// Makes a directory that of the session's shard, if the job is divided.
pub(crate) fn mark(session: &Session<'_>, directory: &Path) -> Result<(), Failure> {
    if session.shard().is_whole() {
        return Ok(());
    }
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::io(&directory.display().to_string(), &error))?;
    let own = ShardRecord {
        linwright: session.build().version.to_owned(),
        shard: session.shard(),
        job: session.job().clone(),
        data: session.data().to_vec(),
        places: session.places().clone(),
    };
    let path = directory.join(RECORD);
    if state::exists(&path) {
        let known = ShardRecord::read(directory)?;
        if known != own {
            let message = format!(
                "{} belongs to shard {} of {} job",
                directory.display(),
                known.shard,
                if known.is_of_job(&own) { "this" } else { "another" }
            );
            return Err(Failure::new(FailureKind::Fingerprint, message)
                .hint("choose another directory, or remove it"));
        }
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&own)
        .map_err(|error| Failure::general(format!("cannot write the shard: {error}")))?;
    Ok(state::write(&path, format!("{text}\n").as_bytes())?)
}

/// The outcome of a shard that is done: how much of the job is known in its directory.
pub(crate) fn part(
    session: &Session<'_>,
    directory: &Path,
    known: usize,
    total: usize,
) -> Result<Outcome, Failure> {
    let work = ShardWork::Pieces { known, total, directory: directory.to_owned() };
    Ok(Outcome::of(ShardPart { shard: session.shard(), work }))
}

/// What a shard did of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShardPart {
    /// The share.
    pub(crate) shard: Shard,
    /// Its work.
    #[serde(flatten)]
    pub(crate) work: ShardWork,
}

/// Where the work of a shard is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ShardWork {
    /// In its directory, for a merge.
    Pieces {
        /// Pieces of the job that the directory has.
        known: usize,
        /// All pieces of the job.
        total: usize,
        /// The directory.
        directory: PathBuf,
    },
    /// In an output that the first shard writes.
    Shared {
        /// The output.
        output: String,
    },
}

/// Kinds of the results of shards.
pub(crate) const RESULTS: &[ReportKind] = &[ReportKind::of::<ShardPart>()];

impl Report for ShardPart {
    const KIND: &'static str = "shard-part";

    fn document(&self) -> Document {
        let (shard, count) = (self.shard, self.shard.count());
        let lines = match &self.work {
            ShardWork::Pieces { known, total, directory } => vec![
                format!("shard {shard}: {known} of {total} pieces are in {}", directory.display()),
                "when all shards are done: linwright merge DIR... --output OUT".to_owned(),
            ],
            ShardWork::Shared { output } => {
                vec![format!("shard {shard} has done its part; shard 0/{count} writes {output}")]
            }
        };
        page(vec![text(lines)])
    }
}

/// Directories of shards from which a merge reads, with the same relative path in each.
///
/// # Errors
/// [`Failure`] if a folder on the way there is a link.
pub(crate) fn sources(session: &Session<'_>, below: &Path) -> Result<Vec<PathBuf>, Failure> {
    let inside = |source: &PathBuf| {
        let failed = |error| Failure::io(&source.display().to_string(), &error);
        state::inside(source, below).map_err(failed)
    };
    let all = session.sources().iter().map(inside).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().filter(|path| state::exists(path)).collect())
}
