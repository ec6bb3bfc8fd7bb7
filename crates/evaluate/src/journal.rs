//! Journal of answers, from which an interrupted evaluation resumes and in which the shards of an
//! evaluation come together.

use super::{BatchAnswers, EvaluationError, Item, LanguageModel, RunOptions, Task};
use linwright_run::{Damage, Fingerprint, JournalError, JournalFile};
use linwright_tensor::parallel;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Subject in the first line of a journal.
const SUBJECT: &str = "evaluation";

/// Storage of the answers to batches.
pub trait Journal {
    /// The stored answers to a batch.
    fn find(&self, batch: usize) -> Option<&BatchAnswers>;

    /// Stores the answers to a batch.
    ///
    /// # Errors
    /// [`EvaluationError::Journal`].
    fn keep(&mut self, batch: usize, answers: &BatchAnswers) -> Result<(), EvaluationError>;
}

/// A line of the journal.
#[derive(Deserialize)]
struct Entry {
    batch: usize,
    answers: BatchAnswers,
}

/// A line of the journal to be written.
#[derive(Serialize)]
struct EntryRef<'a> {
    batch: usize,
    answers: &'a BatchAnswers,
}

/// A journal in a file, one line per batch.
#[derive(Debug)]
pub struct FileJournal {
    file: JournalFile,
    fingerprint: Value,
    known: BTreeMap<usize, BatchAnswers>,
    damages: Vec<Damage>,
}

impl FileJournal {
    /// Opens or creates the journal of the evaluation with this fingerprint.
    ///
    /// # Errors
    /// [`EvaluationError::Journal`] as [`JournalFile::open`], [`EvaluationError::Contradiction`].
    pub fn open(path: &Path, fingerprint: &Value) -> Result<Self, EvaluationError> {
        let (file, entries, damage) = JournalFile::open::<Entry>(path, SUBJECT, fingerprint)?;
        Ok(Self {
            file,
            fingerprint: fingerprint.clone(),
            known: collected(path, entries)?,
            damages: damage.into_iter().collect(),
        })
    }

    /// Adds the entries of the journal of another shard, or of an earlier run, of the same
    /// evaluation, and returns the number of new ones. On an error this journal is unchanged.
    ///
    /// # Errors
    /// [`EvaluationError::Journal`] as [`JournalFile::read`]: the journal of another evaluation, or
    /// one that is being written; [`EvaluationError::Contradiction`] if a batch has other answers
    /// there.
    pub fn merge(&mut self, other: &Path) -> Result<usize, EvaluationError> {
        let (entries, damage) = JournalFile::read::<Entry>(other, SUBJECT, &self.fingerprint)?;
        let mut batches = collected(other, entries)?;
        for (batch, answers) in &batches {
            if self.known.get(batch).is_some_and(|known| !same(known, answers)) {
                return Err(EvaluationError::Contradiction { path: other.into(), batch: *batch });
            }
        }
        batches.retain(|batch, _| !self.known.contains_key(batch));
        for (batch, answers) in &batches {
            self.keep(*batch, answers)?;
        }
        let new = batches.len();
        self.known.append(&mut batches);
        self.damages.extend(damage);
        Ok(new)
    }

    /// Largest number of tokens in a batch of the evaluation that wrote a journal. An evaluation
    /// that chooses the batch size from free memory takes it from here, since other batches would
    /// not resume.
    #[must_use]
    pub fn batch_tokens_of(path: &Path) -> Option<usize> {
        let fingerprint = JournalFile::fingerprint_of(path, SUBJECT)?;
        usize::try_from(fingerprint.get("max_batch_tokens")?.as_u64()?).ok()
    }

    /// Number of batches that were known when it was opened or merged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether it had no answers when it was opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Unusable lines of the files, to be reported: their batches are recomputed.
    #[must_use]
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }
}

/// Entries by batch. An entry may occur twice.
fn collected(
    path: &Path,
    entries: Vec<Entry>,
) -> Result<BTreeMap<usize, BatchAnswers>, EvaluationError> {
    let mut known: BTreeMap<usize, BatchAnswers> = BTreeMap::new();
    for Entry { batch, answers } in entries {
        if known.get(&batch).is_some_and(|first| !same(first, &answers)) {
            return Err(EvaluationError::Contradiction { path: path.to_owned(), batch });
        }
        known.insert(batch, answers);
    }
    Ok(known)
}

/// Whether answers are bit-identical: their JSON distinguishes -0 from 0.
fn same(one: &BatchAnswers, other: &BatchAnswers) -> bool {
    let text = |answers: &BatchAnswers| json!(answers).to_string();
    text(one) == text(other)
}

/// A merged journal.
#[derive(Debug)]
pub struct Merged {
    /// Number of known batches.
    pub batches: usize,
    /// Unusable lines of the journals.
    pub damages: Vec<Damage>,
}

/// Merges the journals of the shards of one evaluation, in any order, into the journal `into`,
/// which is created or extended. A run with it computes only the missing batches.
///
/// # Errors
/// [`EvaluationError::Journal`] if a file is not the journal of that evaluation or is being
/// written, [`EvaluationError::Contradiction`] if two journals have different answers to a batch.
///
/// # Panics
/// If there is no journal to merge.
pub fn merge_journals(into: &Path, journals: &[PathBuf]) -> Result<Merged, EvaluationError> {
    let first = journals.first().expect("a journal to merge");
    let fingerprint = JournalFile::fingerprint_of(first, SUBJECT).ok_or_else(|| {
        let difference = "it is not a journal of an evaluation".to_owned();
        JournalError::OtherRun { path: first.clone(), subject: SUBJECT, difference }
    })?;
    let mut merged = FileJournal::open(into, &fingerprint)?;
    for journal in journals {
        merged.merge(journal)?;
    }
    Ok(Merged { batches: merged.len(), damages: merged.damages })
}

/// Digest of the requests of a task, for decoders and masked language models.
#[must_use]
pub fn requests_digest(task: &dyn Task) -> String {
    let digest = |items: Vec<Item<'_>>| -> Vec<Fingerprint> {
        items.iter().map(|item| Fingerprint::of(&[("requests", &item.requests)])).collect()
    };
    let (items, cloze_items) = (digest(task.items()), task.cloze_items().map(digest));
    Fingerprint::of(&[("items", &items), ("cloze_items", &cloze_items)]).0
}

/// The data that determines the answers to the batches of a task: program, instruction set, model,
/// dtype, requests, options. `models` are the SHA-256 of the models that are evaluated together,
/// `subject` is one of them.
#[must_use]
pub fn journal_fingerprint(
    models: &[&str],
    dtype: &str,
    task: &dyn Task,
    subject: &dyn LanguageModel,
    options: &RunOptions,
) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "instruction_set": parallel::instruction_set(),
        "model_sha256": models.join(" "),
        "dtype": dtype,
        "task": task.id(),
        "requests": requests_digest(task),
        "bos": task.bos().name(),
        "pooling": subject.pooling(),
        "max_length": subject.max_positions(),
        "max_batch_tokens": options.max_batch_tokens,
    })
}

impl Journal for FileJournal {
    fn find(&self, batch: usize) -> Option<&BatchAnswers> {
        self.known.get(&batch)
    }

    fn keep(&mut self, batch: usize, answers: &BatchAnswers) -> Result<(), EvaluationError> {
        Ok(self.file.append(&EntryRef { batch, answers })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;
    use linwright_run::JournalError;
    use std::fs::OpenOptions;
    use std::io::Write;

    fn answers(nll: f64) -> BatchAnswers {
        vec![vec![Answer::Scored {
            nll,
            tokens: 2,
            is_greedy: true,
            context_nll: None,
            top_logprobs: None,
            divergence: None,
        }]]
    }

    #[test]
    fn what_was_kept_is_found_again_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let fingerprint = json!({"model": "m", "task": "t"});
        let value = -1.0 / 3.0;
        let mut journal = FileJournal::open(&path, &fingerprint).unwrap();
        journal.keep(3, &answers(value)).unwrap();
        drop(journal);
        // A killed process leaves an incomplete line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"batch\":4,\"ans").unwrap();
        let mut journal = FileJournal::open(&path, &fingerprint).unwrap();
        assert_eq!((journal.len(), journal.find(4)), (1, None));
        assert_eq!(journal.find(3), Some(&answers(value)));
        journal.keep(4, &answers(0.0)).unwrap();
        drop(journal);
        assert_eq!(FileJournal::open(&path, &fingerprint).unwrap().len(), 2);
    }

    #[test]
    fn a_batch_twice_is_the_same_or_refused_and_sizes_of_batches_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let fingerprint = json!({"max_batch_tokens": 7});
        assert_eq!(FileJournal::batch_tokens_of(&path), None);
        let mut journal = FileJournal::open(&path, &fingerprint).unwrap();
        (0..2).for_each(|_| journal.keep(0, &answers(0.0)).unwrap());
        drop(journal);
        assert_eq!(FileJournal::batch_tokens_of(&path), Some(7));
        let mut journal = FileJournal::open(&path, &fingerprint).unwrap();
        assert_eq!(journal.len(), 1);
        // The same number in other bits.
        journal.keep(0, &answers(-0.0)).unwrap();
        drop(journal);
        let error = FileJournal::open(&path, &fingerprint).unwrap_err();
        assert!(matches!(error, EvaluationError::Contradiction { batch: 0, .. }), "{error}");
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
        first.keep(0, &answers(0.0)).unwrap();
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
