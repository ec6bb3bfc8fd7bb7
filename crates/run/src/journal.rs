//! Journals of finished work, from which an interrupted run resumes.

use crate::{Checked, state};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Error, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Largest length of a first line in bytes.
const MOST_OF_FIRST: u64 = 1 << 20;

/// An unusable journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written, or was changed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
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
    #[error("{} belongs to another {subject}: {difference}; remove it, or name another", path.display())]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// Subject of the journal: `evaluation`.
        subject: &'static str,
        /// The first field in which the fingerprints differ.
        difference: String,
    },
}

/// The first unusable line of a journal. Neither it nor the lines after it are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, reason } = self;
        write!(
            f,
            "{}, line {line}: {reason}; it and the lines after it are computed again",
            path.display()
        )
    }
}

/// A file with the fingerprint of its run in the first line, then one entry with checksum per line.
/// An incomplete last line is ignored. One process at a time writes to it.
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    file: File,
}

impl JournalFile {
    /// Opens or creates the journal of a `subject` with this fingerprint; also returns its entries,
    /// and the damage if a line was changed: the file is cut before that line.
    ///
    /// # Errors
    /// [`JournalError::OtherRun`] if the fingerprints differ, [`JournalError::InUse`] if another
    /// process holds the file, [`JournalError::Io`] if it cannot be read or written.
    pub fn open<E: DeserializeOwned>(
        path: &Path,
        subject: &'static str,
        fingerprint: &Value,
    ) -> Result<(Self, Vec<E>, Option<Damage>), JournalError> {
        let failed = |source| JournalError::Io { path: path.to_owned(), source };
        let mut file = state::edit(path).map_err(failed)?;
        // Locked before anything is read or cut; the system releases the lock when the process
        // ends.
        locked(path, file.try_lock())?;
        let read = read(path, &file, subject)?;
        match &read.fingerprint {
            None => {
                let first = first_line(subject, fingerprint);
                check_begun(path, &mut file, subject, &first)?;
                file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
                writeln!(file, "{first}").map_err(failed)?;
            }
            Some(found) => {
                check(path, subject, found, fingerprint)?;
                file.set_len(read.usable_bytes).map_err(failed)?;
                file.seek(SeekFrom::End(0)).map_err(failed)?;
            }
        }
        Ok((Self { path: path.to_owned(), file }, read.entries, read.damage))
    }

    /// The entries of an existing journal, which is not changed, and its damage.
    ///
    /// # Errors
    /// As [`Self::open`]; also [`JournalError::InUse`] while another process writes to it.
    pub fn read<E: DeserializeOwned>(
        path: &Path,
        subject: &'static str,
        fingerprint: &Value,
    ) -> Result<(Vec<E>, Option<Damage>), JournalError> {
        let file =
            state::open(path).map_err(|source| JournalError::Io { path: path.into(), source })?;
        locked(path, file.try_lock_shared())?;
        let read = read(path, &file, subject)?;
        check(path, subject, &read.fingerprint.unwrap_or_default(), fingerprint)?;
        Ok((read.entries, read.damage))
    }

    /// The fingerprint in the first line of a journal of a `subject`; none if the file is not such
    /// a journal, empty or missing.
    #[must_use]
    pub fn fingerprint_of(path: &Path, subject: &str) -> Option<Value> {
        let mut first = Map::from_iter(first_of(path)?);
        first.remove(subject)
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
        // A single write, so that concurrent readers see whole lines.
        self.file.write_all(line.as_bytes()).map_err(failed)
    }
}

/// The fields of the first line of a regular file; none for an empty file.
fn first_of(path: &Path) -> Option<Map<String, Value>> {
    let mut line = Vec::new();
    let file = state::open(path).ok()?;
    BufReader::new(file.take(MOST_OF_FIRST)).read_until(b'\n', &mut line).ok()?;
    if line.is_empty() { Some(Map::new()) } else { serde_json::from_slice(&line).ok() }
}

fn first_line(subject: &str, fingerprint: &Value) -> String {
    Value::Object(Map::from_iter([(subject.to_owned(), fingerprint.clone())])).to_string()
}

/// Refuses a file without a whole line, unless it is the start of the first line of this journal.
fn check_begun(
    path: &Path,
    file: &mut File,
    subject: &'static str,
    first: &str,
) -> Result<(), JournalError> {
    let mut found = Vec::new();
    let read =
        file.rewind().and_then(|()| file.take(first.len() as u64 + 1).read_to_end(&mut found));
    read.map_err(|source| JournalError::Io { path: path.to_owned(), source })?;
    if first.as_bytes().starts_with(&found) {
        return Ok(());
    }
    let difference = format!("it is not a journal of an {subject}");
    Err(JournalError::OtherRun { path: path.to_owned(), subject, difference })
}

fn locked(path: &Path, lock: Result<(), TryLockError>) -> Result<(), JournalError> {
    lock.map_err(|error| match error {
        TryLockError::WouldBlock => JournalError::InUse { path: path.to_owned() },
        TryLockError::Error(source) => JournalError::Io { path: path.to_owned(), source },
    })
}

/// Content of a journal.
struct Content<E> {
    /// Fingerprint in the first line, null if the journal has another subject; none if the file has
    /// no whole line.
    fingerprint: Option<Value>,
    entries: Vec<E>,
    /// Length of the usable lines.
    usable_bytes: u64,
    damage: Option<Damage>,
}

/// Reads the usable lines of a journal, one at a time.
fn read<E: DeserializeOwned>(
    path: &Path,
    file: &File,
    subject: &str,
) -> Result<Content<E>, JournalError> {
    let mut content =
        Content { fingerprint: None, entries: Vec::new(), usable_bytes: 0, damage: None };
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    for number in 1.. {
        line.clear();
        reader
            .read_until(b'\n', &mut line)
            .map_err(|source| JournalError::Io { path: path.to_owned(), source })?;
        // Text after the last newline is an incomplete entry.
        let Some(text) = line.strip_suffix(b"\n") else { break };
        if number == 1 {
            let mut found: Value = serde_json::from_slice(text).unwrap_or_default();
            content.fingerprint = Some(found.get_mut(subject).map(Value::take).unwrap_or_default());
        } else {
            match Checked::read(text) {
                Ok(entry) => content.entries.push(entry),
                Err(reason) => {
                    content.damage = Some(Damage { path: path.to_owned(), line: number, reason });
                    break;
                }
            }
        }
        content.usable_bytes += line.len() as u64;
    }
    Ok(content)
}

/// Refuses the journal of another run.
fn check(
    path: &Path,
    subject: &'static str,
    found: &Value,
    expected: &Value,
) -> Result<(), JournalError> {
    if found == expected {
        return Ok(());
    }
    let difference = difference(subject, found, expected);
    Err(JournalError::OtherRun { path: path.to_owned(), subject, difference })
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
        let (mut journal, entries, _) = open();
        assert_eq!(entries, []);
        journal.append(&(3, -1.0 / 3.0)).unwrap();
        drop(journal);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"item\":4,\"rep").unwrap();
        let (_, entries, damage) = open();
        assert_eq!((entries, damage), (vec![(3, -1.0 / 3.0)], None));
        let other = JournalFile::open::<f64>(&path, "sweep", &fingerprint).unwrap_err();
        assert!(matches!(&other, JournalError::OtherRun { subject: "sweep", .. }), "{other}");
    }

    #[test]
    fn entries_from_a_changed_line_on_are_left_out_and_the_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let fingerprint = json!({"model": "m"});
        let open = || JournalFile::open::<f64>(&path, "evaluation", &fingerprint).unwrap();
        let (mut journal, ..) = open();
        (0..4).for_each(|entry| journal.append(&(f64::from(entry) + 0.5)).unwrap());
        // Only the writer reads an open journal.
        let busy = JournalFile::read::<f64>(&path, "evaluation", &fingerprint).unwrap_err();
        assert!(matches!(busy, JournalError::InUse { .. }), "{busy}");
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let at = whole.windows(3).position(|bytes| bytes == b"2.5").unwrap();
        for byte in [b'7', 0xff, b'\n'] {
            let mut changed = whole.clone();
            changed[at] = byte;
            std::fs::write(&path, &changed).unwrap();
            let (entries, damage) =
                JournalFile::read::<f64>(&path, "evaluation", &fingerprint).unwrap();
            assert_eq!((entries, damage.map(|damage| damage.line)), (vec![0.5, 1.5], Some(4)));
            assert_eq!(std::fs::read(&path).unwrap(), changed, "reading changes nothing");
            let (mut journal, entries, damage) = open();
            let damage = damage.unwrap().to_string();
            assert!(damage.contains("a.jsonl, line 4: ") && damage.contains("again"), "{damage}");
            assert_eq!(entries, [0.5, 1.5]);
            journal.append(&2.5).unwrap();
            journal.append(&3.5).unwrap();
            drop(journal);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn what_is_no_journal_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let fingerprint = json!({"model": "m"});
        let open = || JournalFile::open::<f64>(&path, "evaluation", &fingerprint);
        for text in ["thesis", "thesis\nin two lines\n", "{\"evaluation\":{\"model\":\"other"] {
            std::fs::write(&path, text).unwrap();
            let error = open().unwrap_err();
            assert!(matches!(error, JournalError::OtherRun { .. }), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        // A process that was killed at the first line leaves a part of it.
        std::fs::write(&path, "{\"evaluation\":{\"mod").unwrap();
        open().unwrap();
        #[cfg(unix)]
        {
            let elsewhere = folder.path().join("elsewhere");
            std::fs::write(&elsewhere, "").unwrap();
            for link in [std::os::unix::fs::symlink, std::fs::hard_link::<&Path, &Path>] {
                std::fs::remove_file(&path).unwrap();
                link(&elsewhere, &path).unwrap();
                let error = open().unwrap_err();
                assert!(matches!(error, JournalError::Io { .. }), "{error}");
                assert_eq!(std::fs::read(&elsewhere).unwrap(), b"");
            }
        }
    }

    #[test]
    fn the_fingerprint_of_a_journal_is_in_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let found = |text: &str| {
            std::fs::write(&path, text).unwrap();
            JournalFile::fingerprint_of(&path, "evaluation")
        };
        assert_eq!(found("{\"evaluation\":{\"a\":1}}\n{}\n"), Some(json!({"a": 1})));
        for other in ["", "what\n", "[]\n", "{\"sweep\":{}}\n"] {
            assert_eq!(found(other), None, "{other}");
        }
        assert_eq!(JournalFile::fingerprint_of(folder.path(), "evaluation"), None);
        let missing = folder.path().join("b.jsonl");
        let error = JournalFile::read::<f64>(&missing, "evaluation", &json!({})).unwrap_err();
        assert!(error.to_string().contains("b.jsonl"), "{error}");
    }
}
