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

/// Inputs that begin alike.
struct Group<'a> {
    inputs: Vec<&'a [u32]>,
    /// Tokens that all begin with.
    shared: usize,
}

impl<'a> Group<'a> {
    fn of(sequences: &[Sequence<'a>]) -> Self {
        let inputs = sequences.iter().map(|s| &s.tokens[..s.tokens.len().saturating_sub(1)]);
        let inputs: Vec<&[u32]> = inputs.collect();
        let shortest = inputs.iter().map(|input| input.len()).min().unwrap_or(0);
        let shared = match sequences {
            [_] => shortest,
            _ => sequences[1..].iter().map(|s| s.shared).fold(shortest, usize::min),
        };
        Self { inputs, shared }
    }

    /// Whether all inputs are equal.
    fn is_single(&self) -> bool {
        self.inputs.iter().all(|input| input.len() == self.shared)
    }
}

/// Fewest tokens at the start of several groups that are worth to be shared.
const LEAST_COMMON: usize = 4;

/// Groups side by side that begin alike, such as the same words before each question, with the
/// number of tokens they share. Only groups whose inputs are all equal are put together; others
/// stay by themselves.
fn families<'g, 'a>(groups: &'g [Group<'a>]) -> Vec<(&'g [Group<'a>], usize)> {
    let (mut families, mut start) = (Vec::new(), 0);
    while start < groups.len() {
        let first = &groups[start];
        let (mut end, mut shared) = (start + 1, first.shared);
        while first.is_single() && end < groups.len() && groups[end].is_single() {
            let pairs = first.inputs[0].iter().zip(groups[end].inputs[0]);
            let common = pairs.take_while(|(a, b)| a == b).count().min(shared);
            // A family does not give up most of what it shares for one more member.
            let is_worth = common >= LEAST_COMMON && (end == start + 1 || 2 * common >= shared);
            if !is_worth {
                break;
            }
            (end, shared) = (end + 1, common);
        }
        families.push((&groups[start..end], shared));
        start = end;
    }
    families
}

/// Tokens of a sequence whose scores are wanted.
fn counted(sequence: &Sequence<'_>) -> usize {
    sequence.tokens.len().saturating_sub(sequence.first_counted.max(1))
}

impl Packed {
    /// Puts sequences side by side. The last token of each is no input.
    #[must_use]
    pub fn new(sequences: &[Sequence<'_>], peeks: &[Option<Peek>]) -> Self {
        let groups: Vec<Group<'_>> =
            sequences.chunk_by(|_, later| later.shared > 0).map(Group::of).collect();
        let (mut branching, mut rows) = (Vec::new(), Vec::with_capacity(sequences.len()));
        let mut next = 0;
        for family in families(&groups) {
            let (of_family, shared) = family;
            let first = of_family[0].inputs.first().map_or(&[][..], |input| &input[..shared]);
            let (start, mut branches) = (next, Vec::new());
            next += shared;
            for group in of_family {
                // Where several groups begin alike, all inputs of each are equal, and are there
                // once.
                let (mut own_row, is_alone) = (next, of_family.len() == 1);
                for (place, input) in group.inputs.iter().enumerate() {
                    if is_alone || place == 0 {
                        own_row = next;
                        let own = &input[shared..];
                        // What has no input of its own is predicted by what is shared.
                        if !own.is_empty() {
                            branches.push(own);
                            next += own.len();
                        }
                    }
                    rows.push(Rows { shared, start, own: own_row });
                }
            }
            branching.push((first, branches));
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
        Self { batch: Batch::branching(&branching), wanted, counts, peeks: places }
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

    /// Scores from rows of `hidden` that left the last layer; `wanted` are the rows to read in it,
    /// in the order of [`Self::wanted`].
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

/// Takes rows through a model from a stage on. The last MLP is computed only for the rows that are
/// read, where that is less than half of them: it looks at no other row. Gives what left the last
/// layer, and where in it the wanted rows are.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(tokens: &[u32], shared: usize) -> Sequence<'_> {
        Sequence { tokens, first_counted: tokens.len() - 1, shared }
    }

    /// Tokens of the batch that stand before a wanted one, in order, by the batch's own structure.
    fn read(packed: &Packed) -> Vec<(u32, u32)> {
        packed.wanted().iter().map(|(row, token)| (packed.batch().tokens()[*row], *token)).collect()
    }

    #[test]
    fn what_several_questions_begin_with_is_there_once() {
        // Two choices of each of three questions, which begin with 1 2 3 4.
        let texts: Vec<Vec<u32>> = [5, 6, 7]
            .into_iter()
            .flat_map(|own| [90, 91].map(|choice| vec![1, 2, 3, 4, own, 8, choice]))
            .collect();
        let sequences: Vec<Sequence<'_>> =
            texts.iter().enumerate().map(|(i, text)| whole(text, 6 * (i % 2))).collect();
        let packed = Packed::new(&sequences, &[None; 6]);
        assert_eq!(packed.batch().tokens(), [1, 2, 3, 4, 5, 8, 6, 8, 7, 8]);
        assert_eq!(read(&packed), [(8, 90), (8, 91), (8, 90), (8, 91), (8, 90), (8, 91)]);
        let rows: Vec<usize> = packed.wanted().iter().map(|(row, _)| *row).collect();
        assert_eq!(rows, [5, 5, 7, 7, 9, 9]);
    }

    #[test]
    fn a_question_that_is_the_beginning_of_another_one_ends_in_what_is_shared() {
        let texts = [vec![1, 2, 3, 4, 90], vec![1, 2, 3, 4, 5, 90]];
        let sequences: Vec<Sequence<'_>> = texts.iter().map(|text| whole(text, 0)).collect();
        let packed = Packed::new(&sequences, &[None, None]);
        assert_eq!(packed.batch().tokens(), [1, 2, 3, 4, 5]);
        assert_eq!(packed.wanted(), [(3, 90), (4, 90)]);
    }

    #[test]
    fn choices_with_tokens_of_their_own_and_short_beginnings_stay_as_they_are() {
        let texts = [vec![1, 2, 3, 4, 5, 90], vec![1, 2, 3, 4, 6, 91], vec![1, 2, 3, 7, 92]];
        let sequences = [
            whole(&texts[0], 0),
            Sequence { first_counted: 4, ..whole(&texts[1], 4) },
            whole(&texts[2], 0),
        ];
        let packed = Packed::new(&sequences, &[None; 3]);
        assert_eq!(packed.batch().tokens(), [1, 2, 3, 4, 5, 6, 1, 2, 3, 7]);
        assert_eq!(read(&packed), [(5, 90), (4, 6), (6, 91), (7, 92)]);
    }

    #[test]
    fn a_family_keeps_most_of_what_it_shares() {
        let text = |common: u32, own: u32| -> Vec<u32> {
            (0..12).map(|i| if i < common { i } else { 100 * own + i }).collect()
        };
        let texts = [text(10, 1), text(10, 2), text(4, 3), text(4, 4)];
        let sequences: Vec<Sequence<'_>> = texts.iter().map(|text| whole(text, 0)).collect();
        let groups: Vec<Group<'_>> = sequences.iter().map(|one| Group::of(&[*one])).collect();
        let found: Vec<(usize, usize)> =
            families(&groups).into_iter().map(|(family, shared)| (family.len(), shared)).collect();
        assert_eq!(found, [(2, 10), (2, 4)]);
    }
}
