//! `linwright merge`: reads what shards computed, and finishes their job.

use super::Merge;
use crate::jobs::kit::inputs::check_unchanged;
use crate::jobs::kit::shards::{RECORD, ShardRecord};
use crate::jobs::kit::{AnyJob, Failure, FailureKind, Field, Outcome, Session, Verb, Written};
use linwright_run::{place, shown};
use std::path::{Path, PathBuf};

pub(super) fn run(job: &Merge, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let directories = shard_directories(&job.directories, session)?;
    let mut records = Vec::new();
    for directory in &directories {
        records.push((directory, ShardRecord::read(directory)?));
    }
    let Some((first_directory, first)) = records.first() else {
        return Err(Failure::usage("no directories to merge: expected one of each shard")
            .hint("give the output directories of the shards"));
    };
    for (directory, record) in &records {
        if !record.is_of_job(first) {
            let message = format!(
                "{} and {} are shards of different jobs",
                first_directory.display(),
                directory.display()
            );
            return Err(Failure::new(FailureKind::Fingerprint, message)
                .hint("merge shards of one command, version and data"));
        }
    }
    check_version(first, session)?;
    check_unchanged(&first.data)?;
    let held: Vec<usize> = records.iter().map(|(_, record)| record.shard.index()).collect();
    let count = first.shard.count();
    let missing = (0..count).filter(|index| !held.contains(index));
    let missing: Vec<String> = missing.map(|index| format!("{index}/{count}")).collect();
    if !missing.is_empty() && !job.fill {
        let message = format!("shards {} are missing", missing.join(", "));
        return Err(Failure::general(message)
            .hint("give their directories, or --fill to compute what they would have done"));
    }
    let again = read(first, job, session)?;
    session.read_from(directories.clone());
    session.record(first.job.clone(), None);
    again.run(session)
}

/// The directories of shards among the given ones and directly in them. Files are left out: a shell
/// that expands `DIR/*` names the logs of a script, too.
fn shard_directories(given: &[PathBuf], session: &Session<'_>) -> Result<Vec<PathBuf>, Failure> {
    let mut directories = Vec::new();
    for path in given {
        if path.is_file() {
            session.note(&format!("note: {} is not a directory and is left out", shown_path(path)));
            continue;
        }
        if is_shard(path) || !path.is_dir() {
            directories.push(path.clone());
            continue;
        }
        let entries =
            std::fs::read_dir(path).map_err(|error| Failure::io(&shown_path(path), &error))?;
        let mut inside: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_shard(path))
            .collect();
        inside.sort();
        match inside.is_empty() {
            true => directories.push(path.clone()),
            false => directories.append(&mut inside),
        }
    }
    Ok(directories)
}

fn is_shard(path: &Path) -> bool {
    path.join(RECORD).is_file()
}

fn shown_path(path: &Path) -> String {
    shown(&path.display().to_string())
}

fn check_version(record: &ShardRecord, session: &Session<'_>) -> Result<(), Failure> {
    let version = session.build().version;
    if record.linwright == version {
        return Ok(());
    }
    let message = format!(
        "the shards were computed by version {}, this is {version}",
        shown(&record.linwright)
    );
    Err(Failure::new(FailureKind::Fingerprint, message)
        .hint("merge them with that version, or compute them again"))
}

/// The job of the shards, with the output of the merge. Other results stand beside it, where the
/// shards name a place below their folder.
fn read(
    record: &ShardRecord,
    job: &Merge,
    session: &Session<'_>,
) -> Result<Box<dyn AnyJob>, Failure> {
    let mut named = record.job.iter();
    // A merge among them would merge itself without end.
    let shared = |key: &str| Verb::named(key).filter(|verb| verb.division.has_shards());
    let found = named.find_map(|(key, value)| Some((shared(key)?, value.as_object()?)));
    let Some((verb, options)) = found else {
        return Err(Failure::general("the shards name no job that is divided by shards"));
    };
    let mut options = options.clone();
    verb.take_places(&mut options);
    let fields = (verb.fields)();
    let beside = job.output.parent().unwrap_or_else(|| Path::new(""));
    for (key, value) in &record.places {
        let is_result = |field: &Field| field.key == *key && field.written == Some(Written::Result);
        let below = value.as_str().map(place::below);
        match below {
            Some(Ok(below)) if fields.iter().any(is_result) => {
                options.insert(key.clone(), beside.join(below).display().to_string().into());
            }
            _ => session.note(&format!(
                "note: {} of the shards is {}, not below their folder, and not written",
                shown(key),
                shown(&value.to_string())
            )),
        }
    }
    options.insert("output".into(), job.output.display().to_string().into());
    Ok((verb.read)(&options)?)
}
