//! Plain text as documents.

use super::{Corpus, DataError, Document};

/// A document of plain text ends at the first blank line after this many bytes.
const ENOUGH_BYTES: usize = 1024;

/// Without a blank line, it ends at the first end of a line after this many bytes.
const MOST_BYTES: usize = 4 * ENOUGH_BYTES;

impl Corpus {
    /// Splits each document at every `separator`, which is dropped; without one, at the first blank
    /// line after each 1024 bytes, or at the first end of a line after 4096. Blank lines around a
    /// document are dropped, and so are documents of white space alone. The indices of the
    /// documents thus depend on the text and the separator only. An empty separator means none.
    ///
    /// # Errors
    /// [`DataError::NoSeparator`] if the separator does not occur, [`DataError::NoRecords`] if
    /// nothing is left.
    pub fn cut(mut self, separator: Option<&str>) -> Result<Self, DataError> {
        let separator = separator.filter(|separator| !separator.is_empty());
        if let Some(separator) = separator
            && !self.documents.iter().any(|document| document.text.contains(separator))
        {
            return Err(DataError::NoSeparator { path: self.path, separator: separator.into() });
        }
        let mut cut = Vec::new();
        for Document { text, mut line, .. } in std::mem::take(&mut self.documents) {
            let pieces = match separator {
                Some(separator) => text.split(separator).collect(),
                None => at_blank_lines(&text),
            };
            for piece in pieces {
                let kept = without_blank_lines_before(piece);
                let first = line + line_ends(&piece[..piece.len() - kept.len()]);
                if !kept.trim().is_empty() {
                    cut.push(Document::new(kept.trim_end(), first));
                }
                line += line_ends(piece) + separator.map_or(0, line_ends);
            }
        }
        self.documents = cut;
        if self.documents.is_empty() {
            return Err(DataError::NoRecords { path: self.path, what: "documents" });
        }
        Ok(self)
    }
}

/// Pieces whose concatenation is the text.
fn at_blank_lines(text: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        end += line.len();
        let held = end - start;
        if held >= MOST_BYTES || (held >= ENOUGH_BYTES && line.trim().is_empty()) {
            pieces.push(&text[start..end]);
            start = end;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// The text without leading blank lines.
fn without_blank_lines_before(text: &str) -> &str {
    let blank = text.len() - text.trim_start().len();
    let start = text[..blank].rfind('\n').map_or(0, |end| end + 1);
    &text[start..]
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use std::path::Path;

    fn cut(text: &str, separator: Option<&str>) -> Result<Vec<(String, usize)>, DataError> {
        let corpus = Corpus::from_bytes(Path::new("t.txt"), text.as_bytes(), Format::Text, None)?;
        let documents = corpus.cut(separator)?.documents;
        Ok(documents.into_iter().map(|document| (document.text, document.line)).collect())
    }

    #[test]
    fn a_separator_stands_between_documents_and_in_none() {
        let text = "one\ntwo\n<|end|>\n\n  three\n<|end|>\n<|end|>four\n<|end|>\n";
        let found = cut(text, Some("<|end|>")).unwrap();
        let found: Vec<(&str, usize)> = found.iter().map(|(t, line)| (t.as_str(), *line)).collect();
        assert_eq!(found, [("one\ntwo", 1), ("  three", 5), ("four", 7)]);
        let error = cut(text, Some("<|stop|>")).unwrap_err().to_string();
        assert!(error.contains("t.txt") && error.contains("<|stop|>"), "{error}");
    }

    #[test]
    fn paragraphs_are_gathered_and_nothing_is_lost() {
        let paragraph = |n: usize| format!("{}\n\n", format!("paragraph {n} ").repeat(30));
        let text: String = (0..20).map(paragraph).collect();
        let found = cut(&text, None).unwrap();
        assert_eq!(found.len(), 7, "three paragraphs of 380 bytes and one of the rest");
        assert!(found[..6].iter().all(|(text, _)| text.len() > ENOUGH_BYTES));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let all: Vec<String> = found.iter().flat_map(|(text, _)| words(text)).collect();
        assert_eq!(all, words(&text));
        assert_eq!(found[1].1, 7, "two lines a paragraph");
    }

    #[test]
    fn text_without_blank_lines_is_cut_at_line_ends_and_one_line_is_whole() {
        let lines = "a line of twenty by\n".repeat(1000);
        let found = cut(&lines, None).unwrap();
        assert_eq!(found.len(), 5);
        assert_eq!((found[0].0.len(), found[1].1), (205 * 20 - 1, 206));
        assert_eq!(cut(&"word ".repeat(5000), None).unwrap().len(), 1);
    }
}
