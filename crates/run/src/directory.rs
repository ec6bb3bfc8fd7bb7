//! Run directories, which store finished work.

use crate::atomic::OutputError;
use crate::lock::{self, LockError, in_words, lock_directory};
use crate::store::{PieceKey, Store, StoreError};
use crate::{Fingerprint, input, shown, state};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Files of a run other than its pieces, before it has a result.
const OWN_FILES: [&str; 6] =
    [lock::NAME, MARKER, BASIS, "recipe.yaml", "shard.json", "measured.json"];
/// File with the fingerprint of the run.
const MARKER: &str = "fingerprint";
/// File with the inputs of the fingerprint, so that the differences to another run can be reported.
const BASIS: &str = "basis.json";
/// Largest number of reported differences between two runs.
const TOLD: usize = 4;
/// Depth of the folders of pieces.
const FOLDERS: usize = 2;

/// An unusable run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The directory belongs to another run, with another fingerprint.
    #[error("{} belongs to another run (fingerprint {found}, this one is {expected}){}; choose another directory or remove it", path.display(), in_sentence(differences), found = shown(found))]
    Fingerprint {
        /// The directory.
        path: PathBuf,
        /// Fingerprint of this run.
        expected: String,
        /// Fingerprint in the directory.
        found: String,
        /// Differences between the runs, as far as the directory records them.
        differences: Vec<String>,
    },
    /// Another process uses the run directory.
    #[error(
        "{} is in use by {}; wait for it to end, or choose another directory",
        path.display(),
        in_words(*process)
    )]
    Busy {
        /// The directory.
        path: PathBuf,
        /// Number of the process, if known.
        process: Option<u32>,
    },
    /// A write failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A finished piece cannot be read or stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An unusable file of the run directory.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file of the run directory cannot be read or created.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// The directory of a run, locked for this process.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    is_new: bool,
    pieces: Store,
    /// Holds the lock while it is open.
    _lock: File,
}

impl RunDirectory {
    /// Opens the directory of the run with this fingerprint, or creates it.
    ///
    /// # Errors
    /// [`RunError::Fingerprint`] if it belongs to another run, [`RunError::Busy`] if another
    /// process uses it.
    pub fn open(path: &Path, fingerprint: &Fingerprint) -> Result<Self, RunError> {
        Self::open_of(path, fingerprint, &Value::Null)
    }

    /// As [`Self::open`], for a run whose fingerprint is that of `basis`, an object: the error for
    /// a directory of another run lists the differences.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_of(
        path: &Path,
        fingerprint: &Fingerprint,
        basis: &Value,
    ) -> Result<Self, RunError> {
        fs::create_dir_all(path).map_err(|error| unusable(path, error))?;
        let marker = path.join(MARKER);
        let mut there = fs::read_dir(path).map_err(|error| unusable(path, error))?.flatten();
        // A run killed at its first step leaves only these files.
        let is_ours = |name: &[u8]| {
            let is_partial = |of: &[u8]| name.starts_with(of);
            let is_begun =
                is_partial(b".fingerprint.partial-") || is_partial(b".basis.json.partial-");
            name == b".lock" || name == BASIS.as_bytes() || is_begun
        };
        if !state::exists(&marker) && there.any(|e| !is_ours(e.file_name().as_encoded_bytes())) {
            return Err(RunError::Unusable {
                path: path.to_owned(),
                reason: "is not empty and is not a run directory; give a new one".into(),
            });
        }
        let lock = lock_directory(path, Path::new("")).map_err(|error| match error {
            LockError::Busy { process } => RunError::Busy { path: path.to_owned(), process },
            LockError::Io { path, source } => RunError::Io { path, source },
        })?;
        let is_new = !state::exists(&marker);
        match state::read_text(&marker, input::MAX_SETTINGS_BYTES) {
            Ok(found) if found.trim() == fingerprint.0 => {}
            Ok(found) => {
                let (expected, found) = (fingerprint.0.clone(), found.trim().to_owned());
                let differences = differences(path, basis);
                let path = path.to_owned();
                return Err(RunError::Fingerprint { path, expected, found, differences });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if !basis.is_null() {
                    state::write(&path.join(BASIS), format!("{basis:#}\n").as_bytes())?;
                }
                state::write(&marker, fingerprint.0.as_bytes())?;
            }
            Err(error) => return Err(unusable(&marker, error)),
        }
        Ok(Self { path: path.to_owned(), is_new, pieces: Store::at(path), _lock: lock })
    }

    /// Whether this process created it, so there is nothing to resume.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether nothing is in it yet but what every run begins with.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        holds_only(&self.path, &OWN_FILES)
    }

    /// Removes work of this process that can never be finished, as far as possible. Files of others
    /// stay.
    pub fn discard(&self) {
        if !self.is_new {
            return;
        }
        for entry in self.pieces.entries().unwrap_or_default() {
            drop(self.pieces.remove(&entry));
        }
        for name in OWN_FILES {
            drop(fs::remove_file(self.path.join(name)));
        }
        remove_empty(&self.path, FOLDERS);
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The finished pieces of the run, which are in the directory.
    #[must_use]
    pub fn pieces(&self) -> &Store {
        &self.pieces
    }

    /// The run, which also reads finished pieces from the directories of its shards.
    #[must_use]
    pub fn reading_also(mut self, directories: Vec<PathBuf>) -> Self {
        self.pieces = self.pieces.adopting(directories);
        self
    }

    /// Loads the piece of this kind and fingerprint, if it is there. A damaged one is moved aside.
    ///
    /// # Errors
    /// [`RunError`] if the file cannot be read.
    ///
    /// # Panics
    /// As [`PieceKey::new`].
    #[track_caller]
    pub fn stored<C: DeserializeOwned>(
        &self,
        kind: &'static str,
        fingerprint: &Fingerprint,
    ) -> Result<Option<C>, RunError> {
        let key = PieceKey::new(kind, fingerprint.clone());
        let read = |payload: Vec<u8>| {
            serde_json::from_slice(&payload)
                .map_err(|error| format!("its content has another form: {error}"))
        };
        Ok(self.pieces.decoded(&key, read)?)
    }

    /// Loads the piece of this kind and fingerprint, or computes and stores it. A damaged one is
    /// moved aside, reported by [`Store::take_notes`] of [`Self::pieces`] and recomputed.
    ///
    /// # Errors
    /// [`RunError`] if a file cannot be read or written, and errors of `compute`.
    ///
    /// # Panics
    /// As [`PieceKey::new`].
    #[track_caller]
    pub fn finished<C: Serialize + DeserializeOwned, E: From<RunError>>(
        &self,
        kind: &'static str,
        fingerprint: &Fingerprint,
        compute: impl FnOnce() -> Result<C, E>,
    ) -> Result<C, E> {
        /// An error of the store or of the computation.
        struct Either<E>(E);
        impl<E: From<RunError>> From<StoreError> for Either<E> {
            fn from(error: StoreError) -> Self {
                Self(RunError::from(error).into())
            }
        }
        let key = PieceKey::new(kind, fingerprint.clone());
        let found = self.pieces.finished(&key, || compute().map_err(Either));
        found.map_err(|Either(error)| error)
    }
}

/// Differences between a run and that of a directory: options and data by name. Nothing if the
/// directory does not record it.
fn differences(directory: &Path, basis: &Value) -> Vec<String> {
    let text = state::read_text(&directory.join(BASIS), input::MAX_SETTINGS_BYTES);
    let Some(there) = text.ok().and_then(|text| serde_json::from_str(&text).ok()) else {
        return Vec::new();
    };
    let (there, here) = (flat(&there), flat(basis));
    let mut names: Vec<&String> = there.keys().chain(here.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differs = names.into_iter().filter(|name| there.get(*name) != here.get(*name));
    let mut listed: Vec<String> = differs
        .map(|name| {
            let value = |run: &BTreeMap<String, Value>| {
                run.get(name).map_or_else(|| "not given".to_owned(), short)
            };
            format!("{} is {} there and {} here", shown(name), value(&there), value(&here))
        })
        .collect();
    let rest = listed.len().saturating_sub(TOLD);
    listed.truncate(TOLD);
    if rest > 0 {
        listed.push(format!("{rest} more"));
    }
    listed
}

/// The values of an object by name, with those of objects in it; those of a list by their `name`.
fn flat(value: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(String, &Value)> = vec![(String::new(), value)];
    while let Some((name, value)) = open.pop() {
        let inner = |key: &str| match &*name {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        };
        match value {
            Value::Object(fields) => {
                open.extend(fields.iter().map(|(key, value)| (inner(key), value)));
            }
            Value::Array(list) if list.iter().any(Value::is_object) => {
                open.extend(list.iter().enumerate().map(|(index, value)| {
                    let name = value.get("name").and_then(Value::as_str);
                    (inner(name.unwrap_or(&(index + 1).to_string())), value)
                }));
            }
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                drop(found.insert(name, value.clone()));
            }
        }
    }
    found
}

/// A value in one line of a message.
fn short(value: &Value) -> String {
    value.as_str().map_or_else(|| shown(&value.to_string()), shown)
}

fn in_sentence(differences: &[String]) -> String {
    match differences {
        [] => String::new(),
        differences => format!(": {}", differences.join(", ")),
    }
}

/// Whether nothing is in a folder but files of these names, and folders without files.
fn holds_only(folder: &Path, names: &[&str]) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().all(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match is_folder {
            true => holds_only(&entry.path(), &[]),
            false => names.iter().any(|name| entry.file_name() == *name),
        }
    })
}

/// Removes a folder if nothing is in it but empty folders.
fn remove_empty(folder: &Path, depth: usize) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path(), depth - 1);
        }
    }
    drop(fs::remove_dir(folder));
}

fn unusable(path: &Path, source: std::io::Error) -> RunError {
    RunError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_discarded_takes_nothing_of_others_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let print = Fingerprint::of(&[("run", &1)]);
        let open = |name: &str| RunDirectory::open(&folder.path().join(name), &print).unwrap();
        let begun = |name: &str| {
            let run = open(name);
            let key = PieceKey::new("cell", print.clone());
            run.pieces().put(&key, &[b"cell"]).unwrap();
            drop(run.pieces().unfinished(&print, "work").unwrap());
            run
        };
        assert!(open("new").is_empty());
        let run = begun("own");
        assert!(!run.is_empty());
        run.discard();
        assert!(!run.path().exists());
        let run = begun("shared");
        fs::create_dir(run.path().join("thesis")).unwrap();
        fs::write(run.path().join("thesis/chapter"), "one").unwrap();
        fs::write(run.path().join("cell/note"), "two").unwrap();
        run.discard();
        assert_eq!(fs::read(run.path().join("thesis/chapter")).unwrap(), b"one");
        assert_eq!(fs::read(run.path().join("cell/note")).unwrap(), b"two");
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 2);
        // What was there before stays for the next attempt.
        drop(begun("kept"));
        open("kept").discard();
        assert!(folder.path().join("kept/fingerprint").exists());
    }

    #[test]
    fn another_run_is_told_in_what_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let open = |basis: Value| {
            let print = Fingerprint::of(&[("run", &basis)]);
            RunDirectory::open_of(&folder.path().join("run"), &print, &basis)
        };
        let of = |keep: f64, sha256: &str| serde_json::json!({"keep": [keep], "seed": 0, "data": {"a.txt": sha256}});
        drop(open(of(0.8, "aa")).unwrap());
        drop(open(of(0.8, "aa")).unwrap());
        let told = open(of(0.6, "aa")).unwrap_err().to_string();
        assert!(told.contains(": keep is [0.8] there and [0.6] here; choose"), "{told}");
        let told = open(of(0.8, "bb")).unwrap_err().to_string();
        assert!(told.contains(": data.a.txt is aa there and bb here;"), "{told}");
        let told = open(serde_json::json!({"data": {}, "recover": 3})).unwrap_err().to_string();
        assert!(told.contains("recover is not given there and 3 here"), "{told}");
        // A directory with a missing or invalid record is rejected as well.
        fs::write(folder.path().join("run/basis.json"), "[").unwrap();
        let told = open(of(0.6, "aa")).unwrap_err().to_string();
        assert!(!told.contains("there") && told.contains("another run"), "{told}");
    }
}
