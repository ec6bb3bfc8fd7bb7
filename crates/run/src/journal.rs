//! Journals of finished work, from which an interrupted run resumes.

use crate::lock::lock_file;
use crate::{Checked, input};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// An unusable journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written, or was changed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: Error,
    },
    /// Another process writes to it.
    #[error(
        "{} is in use by another process; wait until that one has ended, or name another output",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It belongs to another run.
    #[error("{} is of another {subject}: {difference}; remove it, or name another", path.display())]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// Subject of the journal: `evaluation`.
        subject: &'static str,
        /// The first field in which the fingerprints differ.
        difference: String,
    },
}

/// A file with the fingerprint of its run in the first line, then one entry with checksum per line.
/// An incomplete last line is ignored. One process at a time writes to it.
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    file: File,
}

impl JournalFile {
    /// Opens or creates the journal of a `subject` with this fingerprint; also returns its entries.
    ///
    /// # Errors
    /// [`JournalError::OtherRun`] if the fingerprints differ, [`JournalError::InUse`] if another
    /// process holds the file, [`JournalError::Io`] if it cannot be read or written, or an entry
    /// was changed.
    pub fn open<E: DeserializeOwned>(
        path: &Path,
        subject: &'static str,
        fingerprint: &Value,
    ) -> Result<(Self, Vec<E>), JournalError> {
        let failed = |source| JournalError::Io { path: path.to_owned(), source };
        match input::open(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            // A regular file, or none yet.
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.create(true).read(true).append(true).open(path).map_err(failed)?;
        // Locked before anything is read or cut; the system releases the lock when the process
        // ends.
        if !lock_file(&file).map_err(failed)? {
            return Err(JournalError::InUse { path: path.to_owned() });
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        // Text after the last newline is an incomplete entry.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        let first = Value::Object(Map::from_iter([(subject.to_owned(), fingerprint.clone())]));
        let first = first.to_string();
        let is_new = match lines.next() {
            None => true,
            Some(line) if line == first => false,
            Some(line) => {
                let found: Value = serde_json::from_str(line).unwrap_or_default();
                let difference = difference(subject, &found[subject], fingerprint);
                return Err(JournalError::OtherRun { path: path.to_owned(), subject, difference });
            }
        };
        let entry = |(index, line): (usize, &str)| {
            Checked::read(line.as_bytes()).map_err(|reason| {
                let reason = format!("line {}: {reason}; remove the file", index + 2);
                failed(Error::new(ErrorKind::InvalidData, reason))
            })
        };
        let entries = lines.enumerate().map(entry).collect::<Result<_, _>>()?;
        file.set_len(whole.len() as u64).map_err(failed)?;
        if is_new {
            writeln!(file, "{first}").map_err(failed)?;
        }
        Ok((Self { path: path.to_owned(), file }, entries))
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn append(&mut self, entry: &impl Serialize) -> Result<(), JournalError> {
        let failed = |source| JournalError::Io { path: self.path.clone(), source };
        let checked = Checked::of(entry).map_err(|error| failed(error.into()))?;
        let mut line = serde_json::to_string(&checked).map_err(|error| failed(error.into()))?;
        line.push('\n');
        // A single write, so that another reader sees whole lines.
        self.file.write_all(line.as_bytes()).map_err(failed)
    }

    /// Whether a file is a journal of a `subject`, by its first line, or is empty.
    #[must_use]
    pub fn is_of(path: &Path, subject: &str) -> bool {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct First(Map<String, Value>);
        let is_file = path.symlink_metadata().is_ok_and(|data| data.is_file());
        let mut line = Vec::new();
        is_file
            && File::open(path)
                .and_then(|file| BufReader::new(file.take(1 << 20)).read_until(b'\n', &mut line))
                .is_ok()
            && (line.is_empty()
                || serde_json::from_slice(&line)
                    .is_ok_and(|First(fields)| fields.contains_key(subject)))
    }
}

/// The first field in which two fingerprints differ.
fn difference(subject: &str, found: &Value, expected: &Value) -> String {
    let fields = expected.as_object().into_iter().flatten();
    let mut differing = fields.filter(|(name, value)| found.get(name.as_str()) != Some(value));
    match differing.next() {
        Some((name, value)) => {
            let found = found.get(name.as_str()).map_or("nothing".into(), Value::to_string);
            format!("{name} is {found} there and {value} here")
        }
        None => format!("it is not a journal of an {subject}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_read_back_and_a_cut_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let fingerprint = json!({"model": "m"});
        let open = || JournalFile::open::<(usize, f64)>(&path, "evaluation", &fingerprint).unwrap();
        let (mut journal, entries) = open();
        assert_eq!(entries, []);
        journal.append(&(3, -1.0 / 3.0)).unwrap();
        drop(journal);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"item\":4,\"rep").unwrap();
        assert_eq!(open().1, [(3, -1.0 / 3.0)]);
        assert!(JournalFile::is_of(&path, "evaluation") && !JournalFile::is_of(&path, "sweep"));
        let other = JournalFile::open::<f64>(&path, "sweep", &fingerprint).unwrap_err();
        assert!(matches!(&other, JournalError::OtherRun { subject: "sweep", .. }), "{other}");
    }
}
