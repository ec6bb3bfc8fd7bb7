//! Cosine similarity of the embeddings of text pairs.

use super::language_model::ModelFailure;
use super::packed::{Wanted, last_stages};
use super::{EvaluationError, LanguageModel, Reply};
use linwright_model::checkpoint::Sentence;
use linwright_model::{Batch, Stream, Transformer};
use linwright_tensor::Mat;

/// A pair of texts to compare.
pub(super) struct PendingSimilarity {
    pub(super) item: usize,
    pub(super) request: usize,
    pub(super) pair: [Vec<u32>; 2],
}

impl PendingSimilarity {
    /// The pair of a request, with a response without cosine.
    pub(super) fn plan(
        item: usize,
        request: usize,
        texts: &[std::borrow::Cow<'_, str>; 2],
        model: &dyn LanguageModel,
        place: &str,
    ) -> Result<(Self, Reply), EvaluationError> {
        let pooling = model.pooling();
        let pooling = pooling.ok_or_else(|| EvaluationError::NoVectors { place: place.into() })?;
        let failed = |source| EvaluationError::Tokenizer { place: place.to_owned(), source };
        let (one, cut) = model.encode_whole(&texts[0]).map_err(failed)?;
        let (other, also_cut) = model.encode_whole(&texts[1]).map_err(failed)?;
        let reply = Reply::Similarity {
            cosine: 0.0,
            tokens: one.len() + other.len(),
            truncated: cut + also_cut,
            pooling,
        };
        Ok((Self { item, request, pair: [one, other] }, reply))
    }

    /// Number of tokens of both texts.
    pub(super) fn cost(&self) -> usize {
        self.pair.iter().map(Vec::len).sum()
    }

    /// Rejects a cosine that is not finite.
    pub(super) fn check(&self, found: f64, place: &str) -> Result<(), EvaluationError> {
        if found.is_finite() {
            return Ok(());
        }
        Err(EvaluationError::NonFinite { place: place.to_owned(), token: 0, found })
    }

    /// Adds the cosine to the response.
    pub(super) fn add(&self, found: f64, reply: &mut Reply) {
        if let Reply::Similarity { cosine, .. } = reply {
            *cosine = found;
        }
    }
}

/// Text pairs as one batch.
#[derive(Debug)]
pub struct Pairs<'a> {
    batch: Batch,
    /// All rows: the embedding of a text is pooled from all of its tokens.
    wanted: Wanted,
    sentence: &'a Sentence,
}

impl<'a> Pairs<'a> {
    /// Packs texts, those of a pair one after the other.
    #[must_use]
    pub fn new(sentence: &'a Sentence, pairs: &[[Vec<u32>; 2]]) -> Self {
        let rows: Vec<&[u32]> = pairs.iter().flatten().map(Vec::as_slice).collect();
        let batch = Batch::new(&rows);
        let wanted = batch.tokens().iter().copied().enumerate().collect();
        Self { batch, wanted, sentence }
    }

    /// The input batch.
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Rows to read.
    #[must_use]
    pub fn wanted(&self) -> &[(usize, u32)] {
        &self.wanted
    }

    /// Cosines of the pairs, from `hidden` (rows, width), the output of the last layer.
    #[must_use]
    pub fn cosines(&self, hidden: &Mat<f32>) -> Vec<f64> {
        let vectors = self.sentence.vectors(hidden.view(), &self.batch);
        let product = |i: usize, j: usize| -> f64 {
            let pairs = vectors.row(i).iter().zip(vectors.row(j));
            pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let cosine = |pair: usize| {
            let (i, j) = (2 * pair, 2 * pair + 1);
            product(i, j) / (product(i, i) * product(j, j)).sqrt()
        };
        (0..vectors.rows() / 2).map(cosine).collect()
    }
}

/// Cosines of pairs by one model.
pub(super) fn cosines(
    model: &Transformer,
    sentence: &Sentence,
    pairs: &[[Vec<u32>; 2]],
) -> Result<Vec<f64>, ModelFailure> {
    let pairs = Pairs::new(sentence, pairs);
    let stream = Stream::new(model.embed(pairs.batch())?);
    let (hidden, _) = last_stages(model, stream, pairs.batch(), 0, pairs.wanted())?;
    Ok(pairs.cosines(&hidden))
}
