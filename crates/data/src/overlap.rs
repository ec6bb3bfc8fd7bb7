//! Overlap of evaluation documents with calibration text.
//!
//! A document overlaps if 13 consecutive words of it occur in the calibration text, a criterion for
//! contamination since GPT-3 (Brown et al. 2020, arXiv:2005.14165, appendix C); words are lower
//! case, without punctuation, separated by white space. A document of 8 to 12 words overlaps if all
//! of them occur there consecutively; a shorter one only if it equals a whole calibration document.
//!
//! N-grams are compared by 64-bit hashes; reported examples are confirmed word by word.

use super::Corpus;
use linwright_run::sha256_hex;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

/// Length of the n-grams, in words.
const WORDS: usize = 13;
/// Smallest number of words of a document that is compared as a whole.
const MIN_WORDS: usize = 8;
/// Largest number of examples.
const MAX_EXAMPLES: usize = 5;

/// Overlap of a task's documents with calibration text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlap {
    /// The task.
    pub task: String,
    /// Length of the n-grams, in words.
    pub words: usize,
    /// Number of documents.
    pub documents: usize,
    /// Number of overlapping documents.
    pub overlapping: usize,
    /// The first overlapping documents.
    pub first: Vec<OverlapExample>,
}

/// An overlapping document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlapExample {
    /// Source of the document.
    pub document: String,
    /// Source of the calibration text.
    pub calibration: String,
    /// The common words.
    pub text: String,
}

/// Calibration text, indexed for overlap.
#[derive(Clone, Debug, Default)]
pub struct CalibrationText {
    /// Path and SHA-256 of each file.
    sources: Vec<(String, String)>,
    /// Source of each document, and the hashes of its words.
    documents: Vec<(String, Vec<u64>)>,
}

impl CalibrationText {
    /// Indexes the documents of some files.
    #[must_use]
    pub fn new(corpora: &[Corpus]) -> Self {
        let mut text = Self::default();
        for corpus in corpora {
            let path = corpus.path.display().to_string();
            for document in &corpus.documents {
                text.add(format!("{path}, line {}", document.line), &document.text);
            }
            text.sources.push((path, corpus.sha256.clone()));
        }
        text
    }

    /// Adds a document that is not from a file; `place` names it in examples.
    pub fn add(&mut self, place: String, text: &str) {
        self.documents.push((place, words(text).map(|word| hash(&word)).collect()));
    }

    /// Path and SHA-256 of each file.
    #[must_use]
    pub fn sources(&self) -> &[(String, String)] {
        &self.sources
    }

    /// One SHA-256 over all files.
    #[must_use]
    pub fn sha256(&self) -> String {
        let all: Vec<&str> = self.sources.iter().map(|(_, sha256)| sha256.as_str()).collect();
        sha256_hex(all.concat().as_bytes())
    }

    /// Overlap of documents, each given with its source and its texts.
    #[must_use]
    pub fn overlap(&self, task: &str, documents: &[(&str, Vec<Cow<'_, str>>)]) -> Overlap {
        self.overlap_and_indices(task, documents).0
    }

    /// As [`Self::overlap`], with the indices of the overlapping documents.
    #[must_use]
    pub fn overlap_and_indices(
        &self,
        task: &str,
        documents: &[(&str, Vec<Cow<'_, str>>)],
    ) -> (Overlap, Vec<usize>) {
        let texts = documents.iter().flat_map(|(_, texts)| texts);
        let lengths: BTreeSet<usize> = texts.map(|text| looked_for(words(text).count())).collect();
        let indices: BTreeMap<usize, Index> =
            lengths.into_iter().map(|length| (length, Index::new(self, length))).collect();
        let mut overlap = Overlap {
            task: task.to_owned(),
            words: WORDS,
            documents: documents.len(),
            overlapping: 0,
            first: Vec::new(),
        };
        let mut places = Vec::new();
        for (index, (place, texts)) in documents.iter().enumerate() {
            let Some((text, at)) = texts.iter().find_map(|text| find(text, &indices)) else {
                continue;
            };
            overlap.overlapping += 1;
            places.push(index);
            if overlap.first.len() < MAX_EXAMPLES {
                overlap.first.push(OverlapExample {
                    document: (*place).to_owned(),
                    calibration: self.documents[at].0.clone(),
                    text,
                });
            }
        }
        (overlap, places)
    }
}

/// Length of the n-grams for a text of `words` words.
fn looked_for(words: usize) -> usize {
    words.min(WORDS)
}

/// All n-grams of one length, by hash, with the first document that contains them.
#[derive(Debug)]
struct Index {
    grams: Vec<(u64, u32)>,
}

impl Index {
    fn new(text: &CalibrationText, length: usize) -> Self {
        let mut grams = Vec::new();
        for (document, (_, words)) in text.documents.iter().enumerate() {
            let document = u32::try_from(document).unwrap_or(u32::MAX);
            // N-grams shorter than `MIN_WORDS` count only as whole documents.
            if length > 0 && (length >= MIN_WORDS || words.len() == length) {
                grams.extend(words.windows(length).map(|row| (combined(row), document)));
            }
        }
        grams.sort_unstable();
        grams.dedup_by_key(|(gram, _)| *gram);
        Self { grams }
    }

    fn get(&self, gram: u64) -> Option<usize> {
        let at = self.grams.binary_search_by_key(&gram, |(gram, _)| *gram).ok()?;
        Some(self.grams[at].1 as usize)
    }
}

/// The first n-gram of a text that occurs in the calibration text, and its document there.
fn find(text: &str, indices: &BTreeMap<usize, Index>) -> Option<(String, usize)> {
    let words: Vec<String> = words(text).collect();
    let length = looked_for(words.len());
    let index = indices.get(&length).filter(|_| length > 0)?;
    let hashes: Vec<u64> = words.iter().map(|word| hash(word)).collect();
    hashes.windows(length).enumerate().find_map(|(start, row)| {
        let document = index.get(combined(row))?;
        Some((words[start..start + length].join(" "), document))
    })
}

/// Words of a text: lower case, letters and digits only.
fn words(text: &str) -> impl Iterator<Item = String> {
    let plain = |word: &str| -> String {
        word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    text.split_whitespace().map(plain).filter(|word| !word.is_empty())
}

fn hash(word: &str) -> u64 {
    // The keys of this hasher are fixed; another version with other hashes would not change
    // results.
    let mut hasher = DefaultHasher::new();
    hasher.write(word.as_bytes());
    hasher.finish()
}

fn combined(row: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.iter().for_each(|&word| hasher.write_u64(word));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use std::path::Path;

    const CALIBRATION: &str = "{\"text\": \"Zero one two three four five six seven eight nine ten \
        eleven twelve, thirteen fourteen.\"}\n{\"text\": \"A lamp.\"}\n";

    fn overlap(documents: &[&str]) -> Overlap {
        let corpus =
            Corpus::from_bytes(Path::new("c.jsonl"), CALIBRATION.as_bytes(), Format::Jsonl, None);
        let places: Vec<String> = (0..documents.len()).map(|i| format!("d{i}")).collect();
        let documents: Vec<(&str, Vec<Cow<'_, str>>)> = places
            .iter()
            .zip(documents)
            .map(|(place, text)| (place.as_str(), text.split('|').map(Cow::Borrowed).collect()))
            .collect();
        CalibrationText::new(&[corpus.unwrap()]).overlap("t", &documents)
    }

    #[test]
    fn thirteen_words_in_a_row_are_a_copy() {
        let found = overlap(&[
            "Well: ONE, two - three four five six \"seven\" eight nine ten eleven twelve thirteen!",
            // Twelve of them, in a longer text.
            "one two three four five six seven eight nine ten eleven twelve and more",
            "a question|zero one two three four five six seven eight nine ten eleven twelve x",
        ]);
        assert_eq!((found.documents, found.overlapping, found.words), (3, 2, 13));
        let [first, second] = found.first.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (first.document.as_str(), first.calibration.as_str()),
            ("d0", "c.jsonl, line 1")
        );
        let words = "one two three four five six seven eight nine ten eleven twelve thirteen";
        assert_eq!((first.text.as_str(), second.document.as_str()), (words, "d2"));
    }

    #[test]
    fn shorter_documents_are_looked_for_whole() {
        let found = overlap(&[
            "two three four five six seven eight nine",
            "two three four five six seven eight ten",
            "two three four five six seven eight",
            "a LAMP",
            "lamp",
            "",
            "...",
        ]);
        let documents: Vec<&str> = found.first.iter().map(|one| one.document.as_str()).collect();
        assert_eq!((found.overlapping, documents), (2, vec!["d0", "d3"]));
        assert_eq!(found.first[1].calibration, "c.jsonl, line 2");
    }

    #[test]
    fn only_the_first_are_told() {
        let found = overlap(&["a lamp"; 9]);
        assert_eq!((found.overlapping, found.first.len()), (9, MAX_EXAMPLES));
    }
}
