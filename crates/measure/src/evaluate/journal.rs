//! What an evaluation has come to so far, so that it goes on where it was stopped.

use super::{EvaluationError, Reply};
use crate::data::Checked;
use linwright_tensor::input;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// Keeps the replies of items.
pub trait Journal {
    /// The replies to an item that an earlier run kept.
    fn find(&self, item: usize) -> Option<&[Reply]>;

    /// Keeps replies.
    ///
    /// # Errors
    /// [`EvaluationError::Journal`].
    fn keep(&mut self, item: usize, replies: &[Reply]) -> Result<(), EvaluationError>;
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Entry {
    item: usize,
    replies: Vec<Reply>,
}

/// A journal in a file: a line that says what is evaluated, then a line for each item, with its
/// checksum. A line that was not written to its end is left out. One process at a time holds it.
#[derive(Debug)]
pub struct FileJournal {
    path: PathBuf,
    file: File,
    known: BTreeMap<usize, Vec<Reply>>,
}

impl FileJournal {
    /// Opens or begins a journal of what `fingerprint` tells: model, task, data, options.
    ///
    /// # Errors
    /// [`EvaluationError::OtherRun`] if the file is about something else;
    /// [`EvaluationError::InUse`] if another process holds it; [`EvaluationError::Journal`] if it
    /// cannot be read or written, or holds what was changed since.
    pub fn open(path: &Path, fingerprint: &Value) -> Result<Self, EvaluationError> {
        let failed = |source| EvaluationError::Journal { path: path.to_owned(), source };
        match input::open(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            // A regular file, or none yet.
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.create(true).read(true).append(true).open(path).map_err(failed)?;
        // Before anything is read or cut; the system ends the lock with the process, however that
        // ends.
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => EvaluationError::InUse { path: path.to_owned() },
            TryLockError::Error(source) => failed(source),
        })?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        // What stands behind the last end of a line was cut.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        let mut known = BTreeMap::new();
        let first = json!({"evaluation": fingerprint}).to_string();
        let is_new = match lines.next() {
            None => true,
            Some(line) if line == first => false,
            Some(line) => {
                let found: Value = serde_json::from_str(line).unwrap_or_default();
                return Err(EvaluationError::OtherRun {
                    path: path.to_owned(),
                    difference: difference(&found["evaluation"], fingerprint),
                });
            }
        };
        for (index, line) in lines.enumerate() {
            let entry: Entry = Checked::read(line.as_bytes()).map_err(|reason| {
                let reason = format!("line {}: {reason}; remove the file", index + 2);
                failed(std::io::Error::new(std::io::ErrorKind::InvalidData, reason))
            })?;
            known.insert(entry.item, entry.replies);
        }
        file.set_len(whole.len() as u64).map_err(failed)?;
        if is_new {
            writeln!(file, "{first}").map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), file, known })
    }

    /// Whether a file is a journal: its first line says of which evaluation.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        #[derive(Deserialize)]
        struct First {
            #[serde(rename = "evaluation")]
            _fingerprint: Value,
        }
        let is_file = path.symlink_metadata().is_ok_and(|data| data.is_file());
        let mut line = Vec::new();
        is_file
            && File::open(path)
                .and_then(|file| BufReader::new(file.take(1 << 20)).read_until(b'\n', &mut line))
                .is_ok()
            && (line.is_empty() || serde_json::from_slice::<First>(&line).is_ok())
    }

    /// Items of which the replies are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no replies are known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// The first field in which two fingerprints differ.
fn difference(found: &Value, expected: &Value) -> String {
    let fields = expected.as_object().into_iter().flatten();
    let mut differing = fields.filter(|(name, value)| found.get(name.as_str()) != Some(value));
    match differing.next() {
        Some((name, value)) => {
            let found = found.get(name.as_str()).map_or("nothing".into(), Value::to_string);
            format!("{name} is {found} there and {value} here")
        }
        None => "it is no journal of an evaluation".into(),
    }
}

impl Journal for FileJournal {
    fn find(&self, item: usize) -> Option<&[Reply]> {
        self.known.get(&item).map(Vec::as_slice)
    }

    fn keep(&mut self, item: usize, replies: &[Reply]) -> Result<(), EvaluationError> {
        let failed = |source| EvaluationError::Journal { path: self.path.clone(), source };
        let entry = Entry { item, replies: replies.to_vec() };
        let checked = Checked::of(&entry).map_err(|error| failed(error.into()))?;
        let mut line = serde_json::to_string(&checked).map_err(|error| failed(error.into()))?;
        line.push('\n');
        // One call, so that another reader sees whole lines.
        self.file.write_all(line.as_bytes()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(value: f64) -> Vec<Reply> {
        vec![Reply::LogLikelihood {
            log_likelihood: value,
            is_greedy: true,
            tokens: 2,
            truncated: 0,
            seen: None,
        }]
    }

    #[test]
    fn what_was_kept_is_found_again_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let fingerprint = json!({"model": "m", "task": "t"});
        let value = -1.0 / 3.0;
        let mut journal = FileJournal::open(&path, &fingerprint).unwrap();
        journal.keep(3, &reply(value)).unwrap();
        drop(journal);
        // A killed process leaves half a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"item\":4,\"rep").unwrap();
        let mut journal = FileJournal::open(&path, &fingerprint).unwrap();
        assert_eq!((journal.len(), journal.find(4)), (1, None));
        assert_eq!(journal.find(3), Some(&reply(value)[..]));
        journal.keep(4, &reply(0.0)).unwrap();
        drop(journal);
        assert_eq!(FileJournal::open(&path, &fingerprint).unwrap().len(), 2);
    }

    #[test]
    fn a_changed_number_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let fingerprint = json!({"model": "m"});
        let mut journal = FileJournal::open(&path, &fingerprint).unwrap();
        journal.keep(0, &reply(-1.5)).unwrap();
        journal.keep(1, &reply(-2.5)).unwrap();
        drop(journal);
        let text = std::fs::read_to_string(&path).unwrap();
        let changed = text.replace("-2.5", "-0.5");
        assert_ne!(changed, text);
        std::fs::write(&path, changed).unwrap();
        let error = FileJournal::open(&path, &fingerprint).unwrap_err().to_string();
        assert!(error.contains("line 3: its checksum differs"), "{error}");
        std::fs::write(&path, text).unwrap();
        assert_eq!(FileJournal::open(&path, &fingerprint).unwrap().len(), 2);
    }

    #[test]
    fn one_evaluation_at_a_time_holds_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut first = FileJournal::open(&path, &json!({"model": "m"})).unwrap();
        let second = FileJournal::open(&path, &json!({"model": "m"})).unwrap_err();
        assert!(matches!(second, EvaluationError::InUse { .. }), "{second}");
        assert!(second.to_string().contains("a.jsonl is in use"), "{second}");
        // Nothing was cut or written by the second one.
        first.keep(0, &reply(0.0)).unwrap();
        drop(first);
        assert_eq!(FileJournal::open(&path, &json!({"model": "m"})).unwrap().len(), 1);
    }

    #[test]
    fn another_evaluation_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        FileJournal::open(&path, &json!({"model": "m", "limit": 3})).unwrap();
        let other = FileJournal::open(&path, &json!({"model": "m", "limit": 4})).unwrap_err();
        assert!(other.to_string().contains("limit is 3 there and 4 here"), "{other}");
        std::fs::write(&path, "what\n").unwrap();
        let none = FileJournal::open(&path, &json!({})).unwrap_err();
        assert!(none.to_string().contains("no journal"), "{none}");
    }
}
