//! Baselines without gradients: BM25 of words, and the similarity of features of the network.
//! Attribution methods should beat both.

use crate::{AttributeError, Examples};
use linwright_ops::{Differentiable, ExampleRows, OutputLoss, Probe, Seen, SiteId};
use linwright_run::Monitor;
use linwright_tensor::{Mat, MatMut};
use std::collections::BTreeMap;

/// Saturation of the frequency of a word, and weight of the length of a document: the usual values
/// of search engines.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// An index of words of documents for Okapi BM25.
///
/// `score(d, q) = Σ_w r_w f (k + 1) / (f + k (1 - b + b |d| / mean))` over the words w of the
/// query, with repetitions, with `r_w = ln(1 + (N - n_w + 1/2) / (n_w + 1/2))`: `n_w` documents
/// have w, `f` times in d. Words are runs of letters and digits in lower case. Source: Robertson
/// and Zaragoza 2009, with the logarithm of Lucene, which is never negative.
#[derive(Clone, Debug)]
pub struct Bm25 {
    /// For each word the documents that have it, and how often.
    places: BTreeMap<String, Vec<(u32, u32)>>,
    lengths: Vec<f64>,
    mean: f64,
}

impl Bm25 {
    /// The words of documents.
    #[must_use]
    pub fn new<S: AsRef<str>>(documents: &[S]) -> Self {
        let mut places: BTreeMap<String, Vec<(u32, u32)>> = BTreeMap::new();
        let mut lengths = Vec::with_capacity(documents.len());
        for (index, document) in documents.iter().enumerate() {
            let mut count = 0;
            for word in words(document.as_ref()) {
                count += 1;
                let places = places.entry(word).or_default();
                match places.last_mut() {
                    Some((last, often)) if *last == index as u32 => *often += 1,
                    _ => places.push((index as u32, 1)),
                }
            }
            lengths.push(f64::from(count));
        }
        let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        Self { places, lengths, mean: mean.max(1.0) }
    }

    /// The score of every document.
    #[must_use]
    pub fn scores(&self, query: &str) -> Vec<f64> {
        let mut scores = vec![0.0; self.lengths.len()];
        let all = self.lengths.len() as f64;
        for word in words(query) {
            let Some(places) = self.places.get(&word) else { continue };
            let have = places.len() as f64;
            let rarity = (1.0 + (all - have + 0.5) / (have + 0.5)).ln();
            for &(document, often) in places {
                let (often, length) =
                    (f64::from(often), self.lengths[document as usize] / self.mean);
                let room = SATURATION * (1.0 - LENGTH + LENGTH * length);
                scores[document as usize] += rarity * often * (SATURATION + 1.0) / (often + room);
            }
        }
        scores
    }
}

/// Runs of letters and digits in lower case.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// A vector for each example (examples, features): the mean over its rows of the input of the last
/// linear layer, normalised to length one. Their inner products are cosine similarities.
///
/// # Errors
/// [`AttributeError::Network`], [`AttributeError::NotFinite`], [`AttributeError::Layers`] for a
/// network without linear layers, [`AttributeError::Interrupted`].
pub fn embeddings<N: Differentiable>(
    network: &N,
    examples: &dyn Examples<N::Input>,
    batch: usize,
    monitor: &mut dyn Monitor,
) -> Result<Mat<f64>, AttributeError> {
    let slots = network.slots();
    let Some(last) = slots.last() else {
        return Err(AttributeError::Layers { reason: "the network has no linear layers".into() });
    };
    let (site, width) = (last.id().clone(), last.shape().inp);
    let mut all = Mat::zeros(examples.count(), width);
    monitor.step("vectors");
    for start in (0..examples.count()).step_by(batch.max(1)) {
        if monitor.interrupted() {
            return Err(AttributeError::Interrupted);
        }
        let end = examples.count().min(start + batch.max(1));
        let part = examples.batch(start..end);
        let mut means = Means { site: &site, sums: Mat::zeros(end - start, width) };
        let passed = network.loss_to_slots(&part.input, &mut Nothing, &mut means);
        passed.map_err(|error| AttributeError::Network(Box::new(error)))?;
        for row in 0..end - start {
            let sum = means.sums.row(row);
            let norm = sum.iter().map(|number| number * number).sum::<f64>().sqrt();
            if !norm.is_finite() {
                return Err(AttributeError::NotFinite { example: start + row, site: site.0 });
            }
            let into = all.row_mut(start + row).iter_mut();
            into.zip(sum).for_each(|(into, number)| *into = number / norm.max(f64::MIN_POSITIVE));
        }
        monitor.progress(end as u64, examples.count() as u64);
    }
    Ok(all)
}

/// A loss of zero: only the forward pass matters.
struct Nothing;

impl OutputLoss for Nothing {
    fn of_rows(&mut self, _first: usize, mut outputs: MatMut<'_, f32>) -> f64 {
        for row in 0..outputs.rows() {
            outputs.row_mut(row).fill(0.0);
        }
        0.0
    }
}

/// Adds up the inputs of a layer by example.
struct Means<'a> {
    site: &'a SiteId,
    sums: Mat<f64>,
}

impl Probe for Means<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        site == self.site
    }

    fn needs_inputs_alone(&self) -> bool {
        true
    }

    fn on_forward(&mut self, _site: &SiteId, seen: Seen<'_>) {
        for ExampleRows { example, rows } in seen.examples {
            for row in rows.clone() {
                let sums = self.sums.row_mut(*example).iter_mut();
                sums.zip(seen.x.row(row)).for_each(|(sum, number)| *sum += f64::from(*number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{classified, classifier, decoder, documents, points};
    use linwright_run::Silent;

    #[test]
    fn rare_words_count_more_and_long_documents_less() {
        let documents =
            ["The cat sat.", "the dog sat", "the cat, the cat and the dog ran far away", "A bird"];
        let found = Bm25::new(&documents);
        let cat = found.scores("CAT?");
        assert_eq!((cat[1], cat[3]), (0.0, 0.0));
        assert!(cat[0] > 0.0 && cat[2] > 0.0);
        let by_hand = {
            let (n, have, mean) = (4.0f64, 2.0, (3.0 + 3.0 + 10.0 + 2.0) / 4.0);
            let rarity = (1.0 + (n - have + 0.5) / (have + 0.5)).ln();
            rarity * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * 3.0 / mean))
        };
        assert!((cat[0] - by_hand).abs() < 1e-12, "{} {by_hand}", cat[0]);
        assert!(found.scores("bird")[3] > found.scores("the")[0], "a rare word says more");
        assert_eq!(found.scores("a fish")[0], 0.0);
        let twice = found.scores("cat cat");
        assert!((twice[0] - 2.0 * cat[0]).abs() < 1e-12);
        assert!(Bm25::new::<&str>(&[]).scores("cat").is_empty());
    }

    #[test]
    fn vectors_have_length_one_and_do_not_depend_on_the_batch() {
        let (model, texts) = (decoder(), documents(&[5, 9, 2, 5]));
        let all = embeddings(&model, &texts, 4, &mut Silent).unwrap();
        let each = embeddings(&model, &texts, 1, &mut Silent).unwrap();
        assert_eq!((all.rows(), all.cols()), (4, 24));
        for (a, b) in all.data().iter().zip(each.data()) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
        for row in 0..4 {
            let square: f64 = all.row(row).iter().map(|number| number * number).sum();
            assert!((square - 1.0).abs() < 1e-9);
        }
        let (net, labelled) = (classifier(1), points(3));
        let found = embeddings(&net, &classified(&labelled), 2, &mut Silent).unwrap();
        assert_eq!((found.rows(), found.cols()), (3, 8));
        let mut stopped = linwright_run::Stopped;
        let stopped = embeddings(&net, &classified(&labelled), 2, &mut stopped);
        assert!(matches!(stopped, Err(AttributeError::Interrupted)));
    }
}
