//! Comparison of two directories, file by file.

use crate::jobs::kit::Failure;
use linwright_compare::SPEED;
use linwright_compress::TIME;
use linwright_files::MEASURED;
use linwright_run::{Fingerprint, state};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Files that belong to the running of a job, not to its result.
const OF_THE_RUN: [&str; 3] = [".lock", "basis.json", "fingerprint"];

/// Most files that are compared.
const MAX_FILES: usize = 1 << 20;

/// How a file of one directory compares with that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compared {
    /// The same bytes.
    Same,
    /// Other bytes.
    Different,
    /// Only in the first directory.
    Missing,
    /// Only in the second directory.
    New,
}

impl Compared {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Same => "same bytes",
            Self::Different => "different",
            Self::Missing => "not written again",
            Self::New => "only written now",
        }
    }
}

/// Compares all files of two directories but those with times.
pub(super) fn directories(
    first: &Path,
    second: &Path,
) -> Result<Vec<(PathBuf, Compared)>, Failure> {
    let (old, new) = (files(first)?, files(second)?);
    let mut found = Vec::new();
    for path in old.union(&new) {
        let compared = match (old.contains(path), new.contains(path)) {
            (true, false) => Compared::Missing,
            (false, _) => Compared::New,
            (true, true) if are_equal(&first.join(path), &second.join(path))? => Compared::Same,
            (true, true) => Compared::Different,
        };
        found.push((path.clone(), compared));
    }
    Ok(found)
}

fn files(root: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut found = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        let failed = |error: std::io::Error| Failure::io(&path.display().to_string(), &error);
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let below = folder.join(&name);
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(below);
            } else if is_of_result(&below) {
                found.insert(below);
            }
            if found.len() > MAX_FILES {
                let message = format!("{} holds more than {MAX_FILES} files", root.display());
                return Err(Failure::general(message));
            }
        }
    }
    Ok(found)
}

/// Whether a file of a directory belongs to the result of a job, which is the same again: no lock,
/// no times.
pub(crate) fn is_of_result(path: &Path) -> bool {
    let name = path.file_name();
    let is = |own: &str| name == Some(OsStr::new(own));
    !is(MEASURED) && !OF_THE_RUN.iter().any(|own| is(own)) && !is_time(path)
}

/// Whether a path is that of a finished piece with a time: kind, two digits, fingerprint. A job
/// may have the name of the kind.
fn is_time(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
    let [.., kind, digits, print] = parts[..] else { return false };
    let is_print = Fingerprint(print.to_owned()).is_valid() && print.starts_with(digits);
    [TIME, SPEED].contains(&kind) && digits.len() == 2 && is_print
}

fn are_equal(first: &Path, second: &Path) -> Result<bool, Failure> {
    let open = |path: &Path| {
        let file = state::open(path);
        file.map_err(|error| Failure::io(&path.display().to_string(), &error))
    };
    let (first_file, second_file) = (open(first)?, open(second)?);
    let length = |file: &File| file.metadata().map(|data| data.len()).ok();
    if length(&first_file) != length(&second_file) {
        return Ok(false);
    }
    let failed = |error: std::io::Error| Failure::io(&first.display().to_string(), &error);
    let (mut one, mut other) = (BufReader::new(first_file), BufReader::new(second_file));
    let (mut a, mut b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let count = one.read(&mut a).map_err(failed)?;
        if count == 0 {
            return Ok(true);
        }
        if other.read_exact(&mut b[..count]).is_err() || a[..count] != b[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_but_measurements_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        let piece = "time/0f/0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";
        for (root, files) in [
            (
                &first,
                [
                    ("same", "1"),
                    ("time/a", "12"),
                    ("gone", "3"),
                    ("measured.json", "4"),
                    (piece, "1"),
                ],
            ),
            (
                &second,
                [
                    ("same", "1"),
                    ("time/a", "13"),
                    ("new", "3"),
                    ("measured.json", "5"),
                    (piece, "2"),
                ],
            ),
        ] {
            std::fs::create_dir_all(root.join("time/0f")).unwrap();
            files.iter().for_each(|(name, text)| std::fs::write(root.join(name), text).unwrap());
        }
        let found = directories(&first, &second).unwrap();
        let expected = [
            ("gone", Compared::Missing),
            ("new", Compared::New),
            ("same", Compared::Same),
            ("time/a", Compared::Different),
        ];
        assert_eq!(found, expected.map(|(name, compared)| (PathBuf::from(name), compared)));
    }
}
