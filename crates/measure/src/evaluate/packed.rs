//! Sequences as one batch, and where their scores are read.

use super::decoder::Top;
use super::language_model::{ModelFailure, Peek, Peeked};
use super::{Sequence, TokenScore};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, ModelError, ShowLogits, Stream, Transformer};
use linwright_tensor::Mat;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that are read, each with the token looked for there.
pub type Wanted = Vec<(usize, u32)>;

/// Sequences side by side; what a group of them shares is there once.
#[derive(Debug)]
pub struct Packed {
    batch: Batch,
    /// Rows that are read, with the tokens they predict: for each sequence those counted.
    wanted: Wanted,
    /// Scores of each sequence.
    counts: Vec<usize>,
    /// Indices among `wanted` that are peeked at, with the sequence.
    peeks: BTreeMap<usize, (usize, Peek)>,
}

/// What a sequence is an input by: rows of what its group shares, and rows of its own.
struct Rows {
    shared: usize,
    start: usize,
    own: usize,
}

impl Rows {
    /// The row of a token.
    fn of(&self, token: usize) -> usize {
        if token < self.shared { self.start + token } else { self.own + token - self.shared }
    }
}

/// Tokens of a sequence whose scores are wanted.
fn counted(sequence: &Sequence<'_>) -> usize {
    sequence.tokens.len().saturating_sub(sequence.first_counted.max(1))
}

impl Packed {
    /// Puts sequences side by side. The last token of each is no input.
    #[must_use]
    pub fn new(sequences: &[Sequence<'_>], peeks: &[Option<Peek>]) -> Self {
        let (mut groups, mut rows) = (Vec::new(), Vec::with_capacity(sequences.len()));
        let mut next = 0;
        for group in sequences.chunk_by(|_, later| later.shared > 0) {
            let inputs = group.iter().map(|s| &s.tokens[..s.tokens.len().saturating_sub(1)]);
            let inputs: Vec<&[u32]> = inputs.collect();
            let shortest = inputs.iter().map(|input| input.len()).min().unwrap_or(0);
            let shared = match group {
                [_] => shortest,
                _ => group[1..].iter().map(|s| s.shared).fold(shortest, usize::min),
            };
            let mut branches = Vec::new();
            let start = next;
            next += shared;
            for input in &inputs {
                rows.push(Rows { shared, start, own: next });
                let own = &input[shared..];
                // What has no input of its own is predicted by what is shared.
                if !own.is_empty() {
                    branches.push(own);
                    next += own.len();
                }
            }
            groups.push((inputs.first().map_or(&[][..], |input| &input[..shared]), branches));
        }
        let wanted = sequences.iter().zip(&rows).flat_map(|(sequence, rows)| {
            let tokens = sequence.first_counted.max(1)..sequence.tokens.len();
            tokens.map(|token| (rows.of(token - 1), sequence.tokens[token]))
        });
        let wanted = wanted.collect();
        let (mut places, mut first) = (BTreeMap::new(), 0);
        for (index, (sequence, peek)) in sequences.iter().zip(peeks).enumerate() {
            if let Some(peek) = peek {
                places.insert(first + peek.token - sequence.first_counted.max(1), (index, *peek));
            }
            first += counted(sequence);
        }
        let counts = sequences.iter().map(counted).collect();
        Self { batch: Batch::branching(&groups), wanted, counts, peeks: places }
    }

    /// What a model is given.
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Rows that are read, with the tokens they predict.
    #[must_use]
    pub fn wanted(&self) -> &[(usize, u32)] {
        &self.wanted
    }

    /// Scores from rows of `hidden` that left the last layer; `wanted` are the rows to read in it, in
    /// the order of [`Self::wanted`].
    ///
    /// # Errors
    /// [`ModelError::NonFinite`] if a logit is not finite.
    pub fn scores(
        &self,
        model: &Transformer,
        hidden: &Mat<f32>,
        wanted: &[(usize, u32)],
    ) -> Result<Vec<Vec<TokenScore>>, ModelError> {
        self.scores_seen(model, hidden, wanted, &mut |_, _, _| {})
    }

    fn scores_seen(
        &self,
        model: &Transformer,
        hidden: &Mat<f32>,
        wanted: &[(usize, u32)],
        show: &mut ShowLogits<'_>,
    ) -> Result<Vec<Vec<TokenScore>>, ModelError> {
        let mut scores = model.score_rows_seen(hidden, wanted, show)?.into_iter();
        Ok(self.counts.iter().map(|&count| scores.by_ref().take(count).collect()).collect())
    }

    /// As [`Self::scores`], with what was peeked at.
    ///
    /// # Errors
    /// What the model or the tokenizer says.
    pub fn read(
        &self,
        (model, tokenizer): (&Transformer, &Tokenizer),
        hidden: &Mat<f32>,
        wanted: &[(usize, u32)],
    ) -> Result<Peeked, ModelFailure> {
        let mut found = vec![None; self.counts.len()];
        let mut show = |row: usize, logits: &[f32], score: &TokenScore| {
            if let Some(&(index, peek)) = self.peeks.get(&row) {
                found[index] = Some(Top::of(logits, (wanted[row].1, score), peek.likeliest));
            }
        };
        let scores = self.scores_seen(model, hidden, wanted, &mut show)?;
        let told = |top: Option<Top>| top.map(|top| top.told(tokenizer)).transpose();
        Ok((scores, found.into_iter().map(told).collect::<Result<_, _>>()?))
    }
}

/// Takes rows through a model from a stage on. The last MLP is computed only for the rows that are read,
/// where that is less than half of them: it looks at no other row. Gives what left the last layer, and where
/// in it the wanted rows are.
///
/// # Errors
/// What the model says.
///
/// # Panics
/// If there is no such row or stage.
pub fn last_stages(
    model: &Transformer,
    mut stream: Stream,
    batch: &Batch,
    (stage, wanted): (usize, &[(usize, u32)]),
) -> Result<(Mat<f32>, Wanted), ModelError> {
    let stages = model.stages();
    let read: BTreeSet<usize> = wanted.iter().map(|(row, _)| *row).collect();
    if stage == stages || 2 * read.len() >= batch.len() {
        model.run_stages(&mut stream, batch, stage..stages)?;
        return Ok((stream.into_rows(), wanted.to_vec()));
    }
    model.run_stages(&mut stream, batch, stage..stages - 1)?;
    let rows: Vec<usize> = read.into_iter().collect();
    let tokens: Vec<[u32; 1]> = rows.iter().map(|row| [batch.tokens()[*row]]).collect();
    let alone = Batch::new(&tokens.iter().map(|token| &token[..]).collect::<Vec<_>>());
    let mut chosen = stream.chosen(&rows);
    model.run_stages(&mut chosen, &alone, stages - 1..stages)?;
    let place = |row: usize| rows.binary_search(&row).expect("a row that is read");
    let wanted = wanted.iter().map(|(row, token)| (place(*row), *token)).collect();
    Ok((chosen.into_rows(), wanted))
}
