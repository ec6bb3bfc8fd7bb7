//! Windows of text in a training and a validation part, for capturing a language model.

use crate::batch::Batch;
use crate::tokenizer::{Bos, Tokenizer, TokenizerError};
use linwright_ops::Examples;
use linwright_run::Fingerprint;
use linwright_tensor::RngKey;
use serde::{Deserialize, Serialize};

/// Division of windows into a training and a validation part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Disjoint windows; the last ones are for validation.
    #[default]
    Contiguous,
    /// As in the code of arXiv:2507.11688, for comparison only: windows overlap by half and are
    /// divided at random, so most validation tokens are also training tokens.
    #[serde(alias = "paper")]
    RotorPaper,
}

/// Share of the windows for validation.
const VALIDATION: f64 = 0.2;

/// Tokens of a batch.
const BATCH_TOKENS: usize = 2048;

/// Unusable text.
#[derive(Debug, thiserror::Error)]
pub enum WindowsError {
    /// Too little text.
    #[error(
        "calibration text gives {found} tokens in {windows} windows; both a training and a validation part need at least one window"
    )]
    TooShort {
        /// Number of tokens.
        found: usize,
        /// Number of windows.
        windows: usize,
    },
    /// A window longer than the model's positions.
    #[error(
        "a calibration window of {window} tokens is longer than the model's {positions} positions; use a seq_len of {positions} or less"
    )]
    TooLong {
        /// Window in tokens.
        window: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// A tokenizer without the token that is to begin each window.
    #[error("calibration text: {source}")]
    First {
        /// The error of the tokenizer.
        source: TokenizerError,
    },
    /// Text that the tokenizer rejects.
    #[error("calibration text, line {line}: {source}")]
    Text {
        /// Line of the file.
        line: usize,
        /// The error of the tokenizer.
        source: TokenizerError,
    },
}

/// Token windows, training windows first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    windows: Vec<Vec<u32>>,
    train: usize,
    split: Split,
}

impl Windows {
    /// Splits documents into windows of at most `window` tokens, up to `max_tokens` in all. Each
    /// begins with `first`, if given, in place of its own first token, as in llama.cpp; those of
    /// [`Split::RotorPaper`] do not.
    ///
    /// # Errors
    /// [`WindowsError::TooShort`] if a part would be empty.
    pub fn new(
        documents: &[Vec<u32>],
        first: Option<u32>,
        window: usize,
        max_tokens: usize,
        split: Split,
    ) -> Result<Self, WindowsError> {
        let mut windows: Vec<Vec<u32>> = Vec::new();
        let mut left = max_tokens;
        match split {
            Split::Contiguous => {
                for piece in documents.iter().flat_map(|document| document.chunks(window.max(1))) {
                    let piece = &piece[..piece.len().min(left)];
                    left -= piece.len();
                    if piece.len() > 1 {
                        let mut piece = piece.to_vec();
                        piece[0] = first.unwrap_or(piece[0]);
                        windows.push(piece);
                    }
                }
            }
            Split::RotorPaper => {
                let text: Vec<u32> = documents.iter().flatten().copied().take(max_tokens).collect();
                let starts = (0..text.len()).step_by((window / 2).max(1));
                let whole = starts.filter(|start| start + window <= text.len());
                windows = whole.map(|start| text[start..start + window].to_vec()).collect();
                RngKey::new(0).fold("rotor_paper split").stream().shuffle(&mut windows);
            }
        }
        let found: usize = windows.iter().map(Vec::len).sum();
        let wanted = (1.0 - VALIDATION) * found as f64;
        let mut tokens = 0;
        let mut train = 0;
        while train < windows.len() && (tokens as f64) < wanted {
            tokens += windows[train].len();
            train += 1;
        }
        if train == windows.len() && train > 0 {
            train -= 1;
        }
        if train == 0 {
            return Err(WindowsError::TooShort { found, windows: windows.len() });
        }
        Ok(Self { windows, train, split })
    }

    /// Encodes texts, given with their line numbers, up to `max_tokens` tokens, and splits them as
    /// [`Self::new`] does.
    ///
    /// # Errors
    /// [`WindowsError::Text`] if a text cannot be encoded, and the errors of [`Self::new`].
    pub fn encode<'t>(
        texts: impl IntoIterator<Item = (usize, &'t str)>,
        tokenizer: &Tokenizer,
        bos: Bos,
        window: usize,
        max_tokens: usize,
        split: Split,
    ) -> Result<Self, WindowsError> {
        let documents = Self::documents(texts, tokenizer, bos, max_tokens, None)?;
        let first = tokenizer.first(bos).map_err(|source| WindowsError::First { source })?;
        Self::new(&documents, first, window, max_tokens, split)
    }

    /// Tokens of texts, given with their line numbers, up to `max_tokens` in all; each is truncated
    /// after `longest`, if given.
    ///
    /// # Errors
    /// [`WindowsError::Text`] if a text cannot be encoded.
    pub fn documents<'t>(
        texts: impl IntoIterator<Item = (usize, &'t str)>,
        tokenizer: &Tokenizer,
        bos: Bos,
        max_tokens: usize,
        longest: Option<usize>,
    ) -> Result<Vec<Vec<u32>>, WindowsError> {
        let mut documents = Vec::new();
        let mut tokens = 0;
        for (line, text) in texts {
            let mut encoded = tokenizer
                .encode_document(text, bos)
                .map_err(|source| WindowsError::Text { line, source })?;
            encoded.truncate(longest.unwrap_or(usize::MAX));
            tokens += encoded.len();
            documents.push(encoded);
            if tokens >= max_tokens {
                break;
            }
        }
        Ok(documents)
    }

    /// All windows, training windows first.
    #[must_use]
    pub fn windows(&self) -> &[Vec<u32>] {
        &self.windows
    }

    /// Number of training windows, which come first.
    #[must_use]
    pub fn training(&self) -> usize {
        self.train
    }

    /// Checks that no window is longer than `positions`.
    ///
    /// # Errors
    /// [`WindowsError::TooLong`].
    pub fn check_positions(&self, positions: usize) -> Result<(), WindowsError> {
        let window = self.windows.iter().map(Vec::len).max().unwrap_or(0);
        if window > positions {
            return Err(WindowsError::TooLong { window, positions });
        }
        Ok(())
    }

    /// Number of tokens in all windows.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.windows.iter().map(Vec::len).sum()
    }

    /// Number of tokens in the training windows.
    #[must_use]
    pub fn train_tokens(&self) -> usize {
        self.windows[..self.train].iter().map(Vec::len).sum()
    }

    /// Division of the windows.
    #[must_use]
    pub fn split(&self) -> Split {
        self.split
    }

    /// Batches of at most `tokens` tokens (or one window). No batch contains both training and
    /// validation windows.
    #[must_use]
    pub fn batches_of(&self, tokens: usize) -> Vec<&[Vec<u32>]> {
        let (train, validation) = self.windows.split_at(self.train);
        let mut batches = Vec::new();
        for mut part in [train, validation] {
            while !part.is_empty() {
                let mut sum = part[0].len();
                let fits = |window: &&Vec<u32>| {
                    sum += window.len();
                    sum <= tokens
                };
                let count = 1 + part[1..].iter().take_while(fits).count();
                let (head, tail) = part.split_at(count);
                batches.push(head);
                part = tail;
            }
        }
        batches
    }
}

impl Examples<Batch> for Windows {
    fn batches(&self) -> usize {
        self.batches_of(BATCH_TOKENS).len()
    }

    fn training_batches(&self) -> usize {
        let mut tokens = 0;
        let batches = self.batches_of(BATCH_TOKENS);
        let is_training = |batch: &&&[Vec<u32>]| {
            tokens += batch.iter().map(Vec::len).sum::<usize>();
            tokens <= self.train_tokens()
        };
        batches.iter().take_while(is_training).count()
    }

    fn batch(&self, index: usize) -> Batch {
        let windows = self.batches_of(BATCH_TOKENS)[index];
        Batch::new(&windows.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    fn rows(&self, index: usize) -> usize {
        self.batches_of(BATCH_TOKENS)[index].iter().map(Vec::len).sum()
    }

    fn small(&self) -> (Batch, usize) {
        (Batch::new(&[&self.windows[0]]), self.windows[0].len())
    }

    fn identity(&self) -> String {
        Fingerprint::of(&[("windows", &self.windows), ("training windows", &self.train)]).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents() -> Vec<Vec<u32>> {
        vec![(0..50).collect(), (50..53).collect(), (53..120).collect()]
    }

    #[test]
    fn contiguous_windows_are_disjoint_ordered_and_validation_is_the_end_of_the_text() {
        let calibration =
            Windows::new(&documents(), None, 10, 1000, Split::Contiguous).expect("splits");
        let all: Vec<u32> = calibration.windows().iter().flatten().copied().collect();
        assert_eq!(all, (0..120).collect::<Vec<u32>>());
        let share = calibration.train_tokens() as f64 / 120.0;
        assert!((0.75..0.9).contains(&share), "training share {share}");
    }

    #[test]
    fn batches_cover_all_windows_and_never_mix_the_parts() {
        let calibration =
            Windows::new(&documents(), None, 10, 1000, Split::Contiguous).expect("splits");
        let batches = calibration.batches_of(25);
        let all: Vec<u32> = batches.iter().flat_map(|b| b.iter()).flatten().copied().collect();
        assert_eq!(all, (0..120).collect::<Vec<u32>>());
        let mut seen = 0;
        for batch in batches {
            let tokens: usize = batch.iter().map(Vec::len).sum();
            assert!(tokens <= 25);
            assert!(
                seen + tokens <= calibration.train_tokens() || seen >= calibration.train_tokens()
            );
            seen += tokens;
        }
    }

    #[test]
    fn every_window_begins_with_the_first_token_but_those_of_the_paper() {
        let begun = Windows::new(&documents(), Some(999), 10, 1000, Split::Contiguous).unwrap();
        let plain = Windows::new(&documents(), None, 10, 1000, Split::Contiguous).unwrap();
        assert_eq!(begun.training(), plain.training());
        for (begun, plain) in begun.windows().iter().zip(plain.windows()) {
            assert_eq!((begun[0], &begun[1..]), (999, &plain[1..]));
        }
        let paper = Windows::new(&documents(), Some(999), 10, 1000, Split::RotorPaper).unwrap();
        assert!(!paper.windows().iter().flatten().any(|token| *token == 999));
    }

    #[test]
    fn the_papers_split_overlaps_and_is_marked() {
        let calibration =
            Windows::new(&documents(), None, 10, 1000, Split::RotorPaper).expect("splits");
        assert_eq!(calibration.tokens(), 230, "23 windows of 10 with stride 5");
        assert_eq!(calibration.split(), Split::RotorPaper);
    }

    #[test]
    fn text_too_short_for_two_parts_is_an_error() {
        for documents in [vec![], vec![vec![1, 2, 3]]] {
            let error =
                Windows::new(&documents, None, 10, 100, Split::Contiguous).expect_err("too short");
            assert!(matches!(error, WindowsError::TooShort { .. }));
        }
    }
}
