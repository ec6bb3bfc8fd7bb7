//! The documents of a text that a model is trained on, and those that are held out.

use super::{DocumentOptions, TrainLm};
use crate::jobs::kit::source::{POCKET, text_file};
use crate::jobs::kit::{Failure, JobError, Session};
use linwright_data::{Corpus, DataError, Document, Format};
use linwright_run::{input, shown};
use linwright_tensor::RngKey;
use std::collections::BTreeSet;
use std::path::Path;

/// Longest file of indices, in bytes.
const MAX_LIST_BYTES: u64 = 1 << 28;

/// A text with the documents that are trained on and held out.
pub(super) struct Texts {
    /// The text, as the job names it.
    pub(super) name: String,
    pub(super) corpus: Corpus,
    /// Indices of the documents that are trained on.
    pub(super) training: BTreeSet<usize>,
    /// Indices of the documents that are held out; none if another text is.
    pub(super) held_out: BTreeSet<usize>,
    /// The other text that is held out, with its name.
    pub(super) other: Option<(String, Corpus)>,
}

impl DocumentOptions {
    /// Checks what needs no text.
    pub(super) fn check(&self, text: &str) -> Result<(), JobError> {
        let share = self.held_out_share;
        if !(share > 0.0 && share < 1.0) {
            let message = format!("--held-out-share {share}: expected a share above 0 and below 1");
            return Err(JobError::new(message));
        }
        if self.separator.as_ref().is_some_and(String::is_empty) {
            return Err(JobError::new("--separator is empty"));
        }
        let other = self.held_out.as_ref().map(|path| path.to_string_lossy().into_owned());
        let texts = [Some(text), other.as_deref()];
        let is_plain = |name: &str| is_plain(name, Path::new(name));
        if self.separator.is_some() && !texts.into_iter().flatten().any(is_plain) {
            return Err(JobError::new("--separator: each row of the text is a document")
                .hint("it cuts plain files, such as .txt"));
        }
        if self.text_field.is_some() && texts.into_iter().flatten().all(is_plain) {
            return Err(JobError::new("--text-field: a plain text has no fields"));
        }
        Ok(())
    }
}

/// Whether a text is plain, so that it must be cut. An unsupported format is told when it is read.
fn is_plain(name: &str, path: &Path) -> bool {
    name != POCKET && Format::of(path) == Format::Text
}

impl Texts {
    /// Reads the texts of a job and chooses documents.
    ///
    /// # Errors
    /// [`Failure`] if a text or a list cannot be read, or nothing is left to train on.
    pub(super) fn read(
        job: &TrainLm,
        name: &str,
        key: RngKey,
        session: &mut Session<'_>,
    ) -> Result<Self, Failure> {
        let options = &job.documents;
        let corpus = read(name, options, session)?;
        let count = corpus.documents.len();
        let other = match &options.held_out {
            Some(path) => {
                let corpus = read(&path.to_string_lossy(), options, session)?;
                Some((session.portable(path), corpus))
            }
            None => None,
        };
        let held_out = match other {
            Some(_) => BTreeSet::new(),
            None => held_out(count, options.held_out_share, key)?,
        };
        let asked = |option, given: &Option<String>| {
            given.as_ref().map(|given| indices(option, given, count)).transpose()
        };
        let wanted = asked("documents", &options.documents)?;
        let mut training = wanted.unwrap_or_else(|| (0..count).collect());
        for index in asked("without", &options.without)?.unwrap_or_default() {
            training.remove(&index);
        }
        if options.documents.is_some() {
            let held = training.intersection(&held_out).count();
            if held > 0 {
                session.note(&format!("note: {held} of the chosen documents are held out"));
            }
        }
        training.retain(|index| !held_out.contains(index));
        if training.is_empty() {
            let message = format!(
                "no document is left to train on: of {count}, {} are held out",
                held_out.len()
            );
            return Err(Failure::usage(message));
        }
        let name = session.portable(name);
        Ok(Self { name, corpus, training, held_out, other })
    }

    /// The documents that are trained on.
    pub(super) fn training(&self) -> Vec<&str> {
        self.training.iter().map(|&index| self.corpus.documents[index].text.as_str()).collect()
    }

    /// The documents that are held out, of this text or of the other.
    pub(super) fn held_out(&self) -> Vec<&str> {
        let own = self.held_out.iter().map(|&index| &self.corpus.documents[index]);
        let other = self.other.iter().flat_map(|(_, corpus)| &corpus.documents);
        own.chain(other).map(|document: &Document| document.text.as_str()).collect()
    }
}

/// Reads a text; a plain one is cut.
fn read(
    name: &str,
    options: &DocumentOptions,
    session: &mut Session<'_>,
) -> Result<Corpus, Failure> {
    let field = options.text_field.as_deref();
    let (path, field) = text_file(name, "calibration.jsonl", field, session)?;
    let corpus = Corpus::open(&path, field)?;
    if !is_plain(name, &path) {
        return Ok(corpus);
    }
    let separator = options.separator.as_deref();
    corpus.cut(separator).map_err(|error| match error {
        DataError::NoSeparator { .. } => Failure::usage(error.to_string()),
        error => error.into(),
    })
}

/// The documents that are held out: they depend on their number, the share and the key only.
fn held_out(count: usize, share: f64, key: RngKey) -> Result<BTreeSet<usize>, Failure> {
    if count < 2 {
        return Err(Failure::usage("the text has one document, so none can be held out")
            .hint("give --separator if it has several, or another text with --held-out FILE"));
    }
    let held = ((count as f64 * share).round() as usize).clamp(1, count - 1);
    let order = key.fold("held out").stream().permutation(count);
    Ok(order[..held].iter().map(|&index| index as usize).collect())
}

/// Whether the value of an option lists indices, and is no file.
pub(super) fn is_list(given: &str) -> bool {
    !given.trim().is_empty() && given.chars().all(|c| c.is_ascii_digit() || ",- ".contains(c))
}

/// The indices that an option or its file lists, all below `count`.
fn indices(option: &str, given: &str, count: usize) -> Result<BTreeSet<usize>, Failure> {
    if is_list(given) {
        return parse(given, count)
            .map_err(|why| Failure::usage(format!("--{option} {}: {why}", shown(given))));
    }
    let text = input::read_text(Path::new(given), MAX_LIST_BYTES)
        .map_err(|error| Failure::io(&format!("--{option} {}", shown(given)), &error))?;
    parse(&text, count).map_err(|why| Failure::usage(format!("{}, {why}", shown(given))))
}

/// Reads indices and ranges of them, divided by commas or ends of lines.
fn parse(text: &str, count: usize) -> Result<BTreeSet<usize>, String> {
    let mut found = BTreeSet::new();
    for (line, content) in text.lines().enumerate() {
        let parts = content.split(',').map(str::trim).filter(|part| !part.is_empty());
        for part in parts {
            let (first, last) = range(part, count).map_err(|why| match text.lines().count() {
                1 => why,
                _ => format!("line {}: {why}", line + 1),
            })?;
            found.extend(first..=last);
        }
    }
    if found.is_empty() { Err("no index is listed".to_owned()) } else { Ok(found) }
}

/// First and last index of a part such as `7` or `0-99`.
fn range(part: &str, count: usize) -> Result<(usize, usize), String> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Err(format!("\"{}\": expected indices from zero such as 7 or 0-99", shown(part)));
    };
    if first > last {
        return Err(format!("{}: the range ends before it begins", shown(part)));
    }
    if last >= count {
        return Err(format!("there is no document {last}: the text has {count}, from zero"));
    }
    Ok((first, last))
}

/// Indices as the options take them: `0-99,120`.
pub(super) fn listed(indices: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &index in indices {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let text = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_are_written() {
        for (text, want) in [("7", "7"), ("0-2,5", "0-2,5"), ("5\n1,2\n\n0-1\n", "0-2,5")] {
            assert_eq!(listed(&parse(text, 10).unwrap()), want, "{text:?}");
        }
        for (text, want) in [
            ("", "no index"),
            ("a", "\"a\": expected indices"),
            ("-1", "expected indices"),
            ("3-1", "3-1: the range ends"),
            ("0-99999999999", "there is no document 99999999999: the text has 10"),
            ("1\n10", "line 2: there is no document 10"),
        ] {
            let error = parse(text, 10).unwrap_err();
            assert!(error.contains(want), "{text:?}: {error}");
        }
    }

    #[test]
    fn lists_and_files_are_told_apart() {
        for (given, expected) in [("0-99,120", true), ("7", true), ("list.txt", false), ("", false)]
        {
            assert_eq!(is_list(given), expected, "{given}");
        }
    }

    #[test]
    fn the_held_out_share_is_at_least_one_document_and_not_all() {
        let held = |count, share| held_out(count, share, RngKey::new(1)).unwrap().len();
        assert_eq!([held(2, 0.05), held(100, 0.05), held(3, 0.99)], [1, 5, 2]);
        let [first, again, other] =
            [1, 1, 2].map(|seed| held_out(1000, 0.05, RngKey::new(seed)).unwrap());
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert!(held_out(1, 0.5, RngKey::new(1)).is_err());
    }
}
