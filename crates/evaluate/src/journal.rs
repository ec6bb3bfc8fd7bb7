//! Journal of responses, from which an interrupted evaluation resumes.

use super::{EvaluationError, Reply, Task, requests_sha256};
use linwright_model::checkpoint::LoadedModel;
use linwright_run::JournalFile;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Subject in the first line of a journal.
const SUBJECT: &str = "evaluation";

/// Storage of the responses to items.
pub trait Journal {
    /// The stored responses to an item.
    fn find(&self, item: usize) -> Option<&[Reply]>;

    /// Stores the responses to an item.
    ///
    /// # Errors
    /// [`EvaluationError::Journal`].
    fn keep(&mut self, item: usize, replies: &[Reply]) -> Result<(), EvaluationError>;
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
struct Entry {
    item: usize,
    replies: Vec<Reply>,
}

/// A journal in a file, one line per item.
#[derive(Debug)]
pub struct FileJournal {
    file: JournalFile,
    known: BTreeMap<usize, Vec<Reply>>,
}

impl FileJournal {
    /// Opens or creates the journal of the evaluation with this fingerprint.
    ///
    /// # Errors
    /// [`EvaluationError::Journal`] as [`JournalFile::open`].
    pub fn open(path: &Path, fingerprint: &Value) -> Result<Self, EvaluationError> {
        let (file, entries) = JournalFile::open::<Entry>(path, SUBJECT, fingerprint)?;
        let known = entries.into_iter().map(|entry| (entry.item, entry.replies)).collect();
        Ok(Self { file, known })
    }

    /// Whether a file is the journal of an evaluation, by its first line.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        JournalFile::is_of(path, SUBJECT)
    }

    /// Number of items with responses.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether it has no responses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// The data that determines the responses to a task: program, model, dtype, requests, options.
#[must_use]
pub fn journal_fingerprint(
    model: &LoadedModel,
    dtype: &str,
    task: &dyn Task,
    max_length: Option<usize>,
) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model_sha256": model.hash,
        "dtype": dtype,
        "task": task.id(),
        "requests_sha256": requests_sha256(&task.items()),
        "bos": task.bos().name(),
        "max_length": max_length,
    })
}

impl Journal for FileJournal {
    fn find(&self, item: usize) -> Option<&[Reply]> {
        self.known.get(&item).map(Vec::as_slice)
    }

    fn keep(&mut self, item: usize, replies: &[Reply]) -> Result<(), EvaluationError> {
        Ok(self.file.append(&Entry { item, replies: replies.to_vec() })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_run::JournalError;
    use std::fs::OpenOptions;
    use std::io::Write;

    fn reply(value: f64) -> Vec<Reply> {
        vec![Reply::LogLikelihood {
            log_likelihood: value,
            is_greedy: true,
            tokens: 2,
            truncated: 0,
            details: None,
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
        // A killed process leaves an incomplete line.
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
        assert!(matches!(second, EvaluationError::Journal(JournalError::InUse { .. })), "{second}");
        assert!(second.to_string().contains("a.jsonl is in use"), "{second}");
        // The second one cut and wrote nothing.
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
        assert!(none.to_string().contains("not a journal"), "{none}");
    }
}
