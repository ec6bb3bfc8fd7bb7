//! A model that reads a text beside a file of log-probabilities: they are written to it, or
//! compared with those in it.

use super::logits_file::{LogitsFile, LogitsFileError, LogitsWriter};
use super::packed::{LastOutput, Packed, logits_of};
use super::{
    LanguageModel, LanguageModels, ModelFailure, Scored, Sequence, Subject, TokenScore,
    TopLogprobsRequest,
};
use linwright_tensor::Mat;
use linwright_tensor::kernels::divergence::divergence_from_stored;
use std::cell::RefCell;
use std::collections::HashMap;

/// Calls `read` for each sequence with its scores and logits (scored tokens, vocab), in order.
fn each_sequence(
    subject: &Subject<'_>,
    sequences: &[Sequence<'_>],
    mut read: impl FnMut(&Sequence<'_>, Vec<TokenScore>, Mat<f32>) -> Result<(), ModelFailure>,
) -> Result<(), ModelFailure> {
    let packed = Packed::new(sequences, &vec![None; sequences.len()]);
    let output: LastOutput<'_> = subject.last_output(&packed)?;
    let mut start = 0;
    for sequence in sequences {
        let end = start + sequence.tokens.len() - sequence.first_counted;
        let (scores, logits) = logits_of(&output, &output.wanted[start..end])?;
        read(sequence, scores, logits)?;
        start = end;
    }
    Ok(())
}

/// A model whose logits of the second halves of windows are written to a file, window by window.
pub struct Recorded<'a> {
    subject: Subject<'a>,
    writer: RefCell<LogitsWriter>,
}

impl<'a> Recorded<'a> {
    /// A model, and the file that was begun for the windows of the text that it is about to read.
    #[must_use]
    pub fn new(subject: Subject<'a>, writer: LogitsWriter) -> Self {
        Self { subject, writer: RefCell::new(writer) }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// As [`LogitsWriter::commit`].
    pub fn commit(self) -> Result<(), LogitsFileError> {
        self.writer.into_inner().commit()
    }
}

impl LanguageModels for Recorded<'_> {
    fn first(&self) -> &dyn LanguageModel {
        &self.subject
    }

    fn count(&self) -> usize {
        1
    }

    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        _: &[Option<TopLogprobsRequest>],
    ) -> Result<Vec<Scored>, ModelFailure> {
        let mut scored = Scored { top_logprobs: vec![None; sequences.len()], ..Scored::default() };
        each_sequence(&self.subject, sequences, |_, scores, logits| {
            scored.scores.push(scores);
            Ok(self.writer.borrow_mut().write(&logits)?)
        })?;
        Ok(vec![scored])
    }
}

/// The predictions of a file as the first of two models, and a model that is compared with them.
pub struct Compared<'a> {
    subject: Subject<'a>,
    file: &'a LogitsFile,
    /// Windows of the file by their tokens without the first; equal ones have equal predictions.
    windows: HashMap<&'a [u32], usize>,
}

impl<'a> Compared<'a> {
    /// A model that reads these windows of a text, which must be those of the file.
    ///
    /// # Errors
    /// [`LogitsFileError`] if the file has other windows, or another vocabulary.
    pub fn new(
        subject: Subject<'a>,
        file: &'a LogitsFile,
        windows: &'a [Vec<u32>],
    ) -> Result<Self, LogitsFileError> {
        file.check_vocab(subject.vocab())?;
        for (index, tokens) in windows.iter().enumerate() {
            file.check_tokens(index, tokens)?;
        }
        let windows = windows.iter().enumerate().map(|(index, tokens)| (&tokens[1..], index));
        Ok(Self { subject, file, windows: windows.collect() })
    }
}

impl LanguageModels for Compared<'_> {
    fn first(&self) -> &dyn LanguageModel {
        &self.subject
    }

    fn count(&self) -> usize {
        2
    }

    fn score_against_first(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Scored>, ModelFailure> {
        let mut both = [Scored::default(), Scored::default()];
        each_sequence(&self.subject, sequences, |sequence, scores, logits| {
            let window = self
                .windows
                .get(&sequence.tokens[1..])
                .ok_or("a window that the file does not have")?;
            let stored = self.file.log_probabilities(*window)?;
            let targets = &sequence.tokens[sequence.first_counted..];
            both[0].scores.push(scores_of(&stored, targets));
            both[1].scores.push(scores);
            both[1].divergences.push(divergence_from_stored(logits.view(), stored.view(), targets));
            Ok(())
        })?;
        both.iter_mut().for_each(|scored| scored.top_logprobs = vec![None; sequences.len()]);
        Ok(both.into())
    }
}

/// Scores of targets under log-probabilities (targets, vocab).
fn scores_of(log_probabilities: &Mat<f32>, targets: &[u32]) -> Vec<TokenScore> {
    let score = |(row, &target): (usize, &u32)| {
        let row = log_probabilities.row(row);
        let own = row[target as usize];
        let before = &row[..target as usize];
        let is_greedy = row.iter().all(|other| *other <= own) && !before.contains(&own);
        TokenScore { nll: -f64::from(own), is_greedy }
    };
    targets.iter().enumerate().map(score).collect()
}
