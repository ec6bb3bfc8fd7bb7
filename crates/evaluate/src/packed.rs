//! Packing of sequences into one batch, with shared prefixes stored once.

use super::language_model::{ModelFailure, Scored, TopLogprobsRequest};
use super::top_tokens::TopTokens;
use super::{Sequence, TokenScore};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, ModelError, ShowLogits, Stream, Transformer};
use linwright_ops::{Network, NoProbe};
use linwright_tensor::Mat;
use linwright_tensor::kernels::divergence::{Divergence, divergence};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of hidden states to score, each with its target token.
pub type Wanted = Vec<(usize, u32)>;

/// A batch of sequences in which a prefix shared by a group is stored once.
#[derive(Debug)]
pub struct Packed {
    batch: Batch,
    /// Rows to score with their target tokens, by sequence.
    wanted: Wanted,
    /// Number of scores of each sequence.
    counts: Vec<usize>,
    /// For indices into `wanted`: the sequence and its request for top log-probabilities.
    top_requests: BTreeMap<usize, (usize, TopLogprobsRequest)>,
}

/// Output of the last layer of a model for a batch.
#[derive(Debug)]
pub struct LastOutput<'m> {
    /// The model, whose head reads it.
    pub model: &'m Transformer,
    /// The output (rows, width).
    pub hidden: Mat<f32>,
    /// Rows of it to score, in the order of [`Packed::wanted`].
    pub wanted: Wanted,
}

/// Scores and logits (wanted, vocab) of some rows.
pub(super) fn logits_of(
    output: &LastOutput<'_>,
    wanted: &[(usize, u32)],
) -> Result<(Vec<TokenScore>, Mat<f32>), ModelError> {
    let mut logits = Mat::zeros(wanted.len(), output.model.config().vocab);
    let mut keep = |row: usize, found: &[f32], _: &TokenScore| {
        logits.row_mut(row).copy_from_slice(found);
    };
    let scores = output.model.score_rows_seen(&output.hidden, wanted, &mut keep)?;
    Ok((scores, logits))
}

/// Rows of one sequence in the batch: those of the shared prefix, then its own.
struct Rows {
    shared: usize,
    start: usize,
    own: usize,
}

impl Rows {
    /// Row of a token.
    fn of(&self, token: usize) -> usize {
        if token < self.shared { self.start + token } else { self.own + token - self.shared }
    }
}

/// Inputs with a common prefix.
struct Group<'a> {
    inputs: Vec<&'a [u32]>,
    /// Length of the common prefix in tokens.
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

/// Shortest prefix in tokens that is worth sharing between groups.
const MIN_SHARED_PREFIX: usize = 4;

/// Runs of neighbouring groups with a common prefix, such as the same instructions before each
/// question, with the length of that prefix in tokens. Only groups of equal inputs are joined;
/// others form a run of one.
fn prefix_groups<'g, 'a>(groups: &'g [Group<'a>]) -> Vec<(&'g [Group<'a>], usize)> {
    let (mut found, mut start) = (Vec::new(), 0);
    while start < groups.len() {
        let first = &groups[start];
        let (mut end, mut shared) = (start + 1, first.shared);
        while first.is_single() && end < groups.len() && groups[end].is_single() {
            let pairs = first.inputs[0].iter().zip(groups[end].inputs[0]);
            let common = pairs.take_while(|(a, b)| a == b).count().min(shared);
            // One more member must not shorten the shared prefix by more than half.
            let is_worth =
                common >= MIN_SHARED_PREFIX && (end == start + 1 || 2 * common >= shared);
            if !is_worth {
                break;
            }
            (end, shared) = (end + 1, common);
        }
        found.push((&groups[start..end], shared));
        start = end;
    }
    found
}

/// Number of scored tokens of a sequence.
fn counted(sequence: &Sequence<'_>) -> usize {
    sequence.tokens.len().saturating_sub(sequence.first_counted.max(1))
}

impl Packed {
    /// Packs sequences. The last token of each is not an input.
    #[must_use]
    pub fn new(sequences: &[Sequence<'_>], top_requests: &[Option<TopLogprobsRequest>]) -> Self {
        let groups: Vec<Group<'_>> =
            sequences.chunk_by(|_, later| later.shared > 0).map(Group::of).collect();
        Self::of_runs(sequences, top_requests, &prefix_groups(&groups))
    }

    /// Packs sequences without sharing their prefixes: more tokens, the same scores up to rounding.
    #[must_use]
    pub fn apart(sequences: &[Sequence<'_>], top_requests: &[Option<TopLogprobsRequest>]) -> Self {
        let groups: Vec<Group<'_>> =
            sequences.iter().map(|one| Group::of(std::slice::from_ref(one))).collect();
        let runs: Vec<_> =
            groups.iter().map(|group| (std::slice::from_ref(group), group.shared)).collect();
        Self::of_runs(sequences, top_requests, &runs)
    }

    /// Packs runs of groups, each with the length of the common prefix.
    fn of_runs(
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
        runs: &[(&[Group<'_>], usize)],
    ) -> Self {
        let (mut branching, mut rows) = (Vec::new(), Vec::with_capacity(sequences.len()));
        let mut next = 0;
        for &(members, shared) in runs {
            let first = members[0].inputs.first().map_or(&[][..], |input| &input[..shared]);
            let (start, mut branches) = (next, Vec::new());
            next += shared;
            for group in members {
                // Groups joined by a common prefix have equal inputs, which are stored once.
                let (mut own_row, is_alone) = (next, members.len() == 1);
                for (index, input) in group.inputs.iter().enumerate() {
                    if is_alone || index == 0 {
                        own_row = next;
                        let branch = &input[shared..];
                        // An input without own tokens is predicted by the shared prefix.
                        if !branch.is_empty() {
                            branches.push(branch);
                            next += branch.len();
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
        let (mut requests, mut first) = (BTreeMap::new(), 0);
        for (index, (sequence, top_request)) in sequences.iter().zip(top_requests).enumerate() {
            if let Some(top_request) = top_request {
                requests.insert(
                    first + top_request.token - sequence.first_counted.max(1),
                    (index, *top_request),
                );
            }
            first += counted(sequence);
        }
        let counts = sequences.iter().map(counted).collect();
        Self { batch: Batch::branching(&branching), wanted, counts, top_requests: requests }
    }

    /// The input batch.
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Rows to score, each with its target token.
    #[must_use]
    pub fn wanted(&self) -> &[(usize, u32)] {
        &self.wanted
    }

    /// Scores from rows of `hidden`, the output of the last layer; `wanted` are the rows to read in
    /// it, in the order of [`Self::wanted`].
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
        Ok(self.by_sequence(model.score_rows_seen(hidden, wanted, show)?))
    }

    /// As [`Self::scores`], with the requested top log-probabilities.
    ///
    /// # Errors
    /// Any error of the model or the tokenizer.
    pub fn read(
        &self,
        model: &Transformer,
        tokenizer: &Tokenizer,
        hidden: &Mat<f32>,
        wanted: &[(usize, u32)],
    ) -> Result<Scored, ModelFailure> {
        let mut found = vec![None; self.counts.len()];
        let mut show = |row: usize, logits: &[f32], score: &TokenScore| {
            if let Some(&(index, top_request)) = self.top_requests.get(&row) {
                let (_, target) = wanted[row];
                found[index] = Some(TopTokens::of(logits, target, score, top_request.count));
            }
        };
        let scores = self.scores_seen(model, hidden, wanted, &mut show)?;
        let decoded = |top: Option<TopTokens>| top.map(|top| top.decode(tokenizer)).transpose();
        let top_logprobs = found.into_iter().map(decoded).collect::<Result<_, _>>()?;
        Ok(Scored { scores, top_logprobs, ..Scored::default() })
    }

    /// Scores of several models for the same batch, and for each but the first the divergence of
    /// every scored token from the first. Logits of a block of rows are computed by one model after
    /// the other, so memory does not grow with the batch.
    ///
    /// # Errors
    /// [`ModelError::NonFinite`] if a logit is not finite.
    ///
    /// # Panics
    /// If there is no model, or the vocabularies differ.
    pub fn read_against_first(
        &self,
        outputs: &[LastOutput<'_>],
    ) -> Result<Vec<Scored>, ModelError> {
        let rows = outputs[0].model.rows_of_logits();
        let mut scores: Vec<Vec<TokenScore>> = vec![Vec::new(); outputs.len()];
        let mut divergences: Vec<Vec<Divergence>> = vec![Vec::new(); outputs.len()];
        for start in (0..self.wanted.len()).step_by(rows) {
            let end = self.wanted.len().min(start + rows);
            let mut reference: Option<Mat<f32>> = None;
            for (index, output) in outputs.iter().enumerate() {
                let wanted = &output.wanted[start..end];
                let (found, logits) = logits_of(output, wanted)?;
                scores[index].extend(found);
                let Some(reference) = &reference else {
                    reference = Some(logits);
                    continue;
                };
                let targets: Vec<u32> = wanted.iter().map(|&(_, token)| token).collect();
                divergences[index].extend(divergence(logits.view(), reference.view(), &targets));
            }
        }
        let of_model = |(scores, divergences): (Vec<TokenScore>, Vec<Divergence>)| Scored {
            scores: self.by_sequence(scores),
            top_logprobs: vec![None; self.counts.len()],
            divergences: match divergences.is_empty() {
                true => Vec::new(),
                false => self.by_sequence(divergences),
            },
        };
        Ok(scores.into_iter().zip(divergences).map(of_model).collect())
    }

    /// Values of scored tokens, by sequence.
    fn by_sequence<T>(&self, values: Vec<T>) -> Vec<Vec<T>> {
        let mut values = values.into_iter();
        self.counts.iter().map(|&count| values.by_ref().take(count).collect()).collect()
    }
}

/// Runs a model from a stage to the last layer. If fewer than half of the rows are read, the last
/// MLP is computed only for those: it does not mix rows. Returns the output of the last layer,
/// (rows, width), and the indices of the wanted rows in it.
///
/// # Errors
/// Any error of the model.
///
/// # Panics
/// If a row or the stage does not exist.
pub fn last_stages(
    model: &Transformer,
    mut stream: Stream,
    batch: &Batch,
    stage: usize,
    wanted: &[(usize, u32)],
) -> Result<(Mat<f32>, Wanted), ModelError> {
    let stages = model.stages();
    let read: BTreeSet<usize> = wanted.iter().map(|(row, _)| *row).collect();
    if stage == stages || 2 * read.len() >= batch.len() {
        model.run_stages(&mut stream, batch, stage..stages, &mut NoProbe)?;
        return Ok((stream.into_rows(), wanted.to_vec()));
    }
    model.run_stages(&mut stream, batch, stage..stages - 1, &mut NoProbe)?;
    let rows: Vec<usize> = read.into_iter().collect();
    let tokens: Vec<[u32; 1]> = rows.iter().map(|row| [batch.tokens()[*row]]).collect();
    let alone = Batch::new(&tokens.iter().map(|token| &token[..]).collect::<Vec<_>>());
    let mut chosen = stream.chosen(&rows);
    model.run_stages(&mut chosen, &alone, stages - 1..stages, &mut NoProbe)?;
    let index = |row: usize| rows.binary_search(&row).expect("a row that is read");
    let wanted = wanted.iter().map(|(row, token)| (index(*row), *token)).collect();
    Ok((chosen.into_rows(), wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(tokens: &[u32], shared: usize) -> Sequence<'_> {
        Sequence { tokens, first_counted: tokens.len() - 1, shared }
    }

    /// Input token and target token of each scored row, in order.
    fn read(packed: &Packed) -> Vec<(u32, u32)> {
        packed.wanted().iter().map(|(row, token)| (packed.batch().tokens()[*row], *token)).collect()
    }

    #[test]
    fn a_prefix_of_several_questions_is_stored_once() {
        // Two choices of each of three questions with the common prefix 1 2 3 4.
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
    fn sequences_apart_share_nothing() {
        let texts = [vec![1, 2, 3, 4, 5, 90], vec![1, 2, 3, 4, 5, 91]];
        let sequences = [whole(&texts[0], 0), whole(&texts[1], 5)];
        let packed = Packed::apart(&sequences, &[None; 2]);
        assert_eq!(packed.batch().tokens(), [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
        assert_eq!(packed.wanted(), [(4, 90), (9, 91)]);
        assert_eq!(Packed::new(&sequences, &[None; 2]).batch().tokens(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_question_that_is_a_prefix_of_another_ends_in_the_shared_rows() {
        let texts = [vec![1, 2, 3, 4, 90], vec![1, 2, 3, 4, 5, 90]];
        let sequences: Vec<Sequence<'_>> = texts.iter().map(|text| whole(text, 0)).collect();
        let packed = Packed::new(&sequences, &[None, None]);
        assert_eq!(packed.batch().tokens(), [1, 2, 3, 4, 5]);
        assert_eq!(packed.wanted(), [(3, 90), (4, 90)]);
    }

    #[test]
    fn choices_with_own_tokens_and_short_prefixes_are_not_joined() {
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
    fn a_prefix_group_keeps_most_of_its_prefix() {
        let text = |common: u32, own: u32| -> Vec<u32> {
            (0..12).map(|i| if i < common { i } else { 100 * own + i }).collect()
        };
        let texts = [text(10, 1), text(10, 2), text(4, 3), text(4, 4)];
        let sequences: Vec<Sequence<'_>> = texts.iter().map(|text| whole(text, 0)).collect();
        let groups: Vec<Group<'_>> = sequences.iter().map(|one| Group::of(&[*one])).collect();
        let found: Vec<(usize, usize)> = prefix_groups(&groups)
            .into_iter()
            .map(|(members, shared)| (members.len(), shared))
            .collect();
        assert_eq!(found, [(2, 10), (2, 4)]);
    }
}
