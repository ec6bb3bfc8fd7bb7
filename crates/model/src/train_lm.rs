//! Language-model training on documents: batches of whole documents, loss and gradients.
//!
//! A batch is packed with whole documents until the next one would not fit; attention stays within
//! a document. Documents are neither truncated nor padded; long ones can be split into windows.
//! Every epoch has a different order, derived from a key, so the batch of a step depends only on
//! the step number.
//!
//! The training loop, the optimiser and checkpoints are in `linwright-train`; this module computes
//! the step.

use crate::batch::Batch;
use crate::error::ModelError;
use crate::transformer::{TrainingMemory, Transformer, TransformerGrads};
use linwright_ops::NoProbe;
use linwright_tensor::RngKey;
use std::collections::BTreeSet;
use std::ops::Range;

/// Tokenised documents in contiguous memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    tokens: Vec<u32>,
    ends: Vec<usize>,
}

impl Documents {
    /// Adds a document with all its special tokens.
    pub fn push(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        self.ends.push(self.tokens.len());
    }

    /// Adds a document with all its special tokens, split into windows of at most `context` tokens.
    /// A window begins with the last token of the one before, so every token but the first of the
    /// document is predicted once.
    ///
    /// # Panics
    /// If `context` is less than two.
    pub fn push_windows(&mut self, tokens: &[u32], context: usize) {
        assert!(context > 1, "a window of {context} tokens predicts nothing");
        let mut start = 0;
        loop {
            let end = tokens.len().min(start + context);
            self.push(&tokens[start..end]);
            if end == tokens.len() {
                return;
            }
            start = end - 1;
        }
    }

    /// Number of tokens that are predicted: all but the first of each document or window.
    #[must_use]
    pub fn predicted_count(&self) -> usize {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| (end - start).saturating_sub(1)).sum()
    }

    /// The tokens of one document.
    ///
    /// # Panics
    /// If there is no such document.
    #[must_use]
    pub fn get(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.tokens[start..self.ends[index]]
    }

    /// Number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of tokens of all documents.
    #[must_use]
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// Batch boundaries over documents in the given order: as many documents as fit in `limit`
    /// tokens, at least one.
    fn batches(&self, order: &[u32], limit: usize) -> Vec<Range<usize>> {
        let (mut batches, mut start, mut held) = (Vec::new(), 0, 0);
        for (at, &index) in order.iter().enumerate() {
            let len = self.get(index as usize).len();
            if held > 0 && held + len > limit {
                batches.push(start..at);
                (start, held) = (at, 0);
            }
            held += len;
        }
        if held > 0 {
            batches.push(start..order.len());
        }
        batches
    }
}

/// Batching of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Largest number of tokens in a batch.
    pub tokens: usize,
    /// Key of the document order of each epoch.
    pub key: RngKey,
}

impl Batching {
    /// Number of steps of the first `epochs` epochs over `train`.
    #[must_use]
    pub fn steps(&self, train: &Documents, epochs: u64) -> u64 {
        (0..epochs).map(|epoch| self.arrange(train, epoch, 0).batches.len() as u64).sum()
    }

    fn arrange(&self, train: &Documents, index: u64, first_step: u64) -> Epoch {
        let order = self.key.fold_index(index).stream().permutation(train.len());
        let batches = train.batches(&order, self.tokens);
        Epoch { index, first_step, order, batches }
    }
}

/// A parameter, its gradient, and whether weight decay applies to it.
#[derive(Debug)]
pub struct Trained<'a> {
    /// Name in checkpoints.
    pub name: String,
    /// Values.
    pub values: &'a mut [f32],
    /// Gradient.
    pub gradient: &'a mut [f32],
    /// Whether weight decay applies: to matrices, not to norms and biases.
    pub decay: bool,
}

/// A model in training.
#[derive(Debug)]
pub struct LanguageModeling<'a> {
    decoder: &'a mut Transformer,
    train: &'a Documents,
    validation: &'a Documents,
    batching: Batching,
    grads: TransformerGrads,
    memory: TrainingMemory,
    epoch: Option<Epoch>,
}

/// Document order of one epoch.
#[derive(Debug)]
struct Epoch {
    index: u64,
    /// The step of its first batch.
    first_step: u64,
    order: Vec<u32>,
    batches: Vec<Range<usize>>,
}

impl<'a> LanguageModeling<'a> {
    /// Training of `decoder` on `train`, with the validation loss on `validation`.
    ///
    /// # Panics
    /// If there is no training document.
    #[must_use]
    pub fn new(
        decoder: &'a mut Transformer,
        train: &'a Documents,
        validation: &'a Documents,
        batching: Batching,
    ) -> Self {
        assert!(!train.is_empty(), "training without documents");
        let grads = TransformerGrads::zeros(decoder);
        let memory = TrainingMemory::default();
        Self { decoder, train, validation, batching, grads, memory, epoch: None }
    }

    /// Number of steps of the first `epochs` epochs.
    #[must_use]
    pub fn steps(&self, epochs: u64) -> u64 {
        self.batching.steps(self.train, epochs)
    }

    /// Every parameter with its gradient, in a fixed order.
    pub fn params(&mut self) -> Vec<Trained<'_>> {
        let vectors: BTreeSet<String> = self
            .decoder
            .config()
            .tensor_shapes()
            .into_iter()
            .filter_map(|(name, shape)| (shape.len() == 1).then_some(name))
            .collect();
        let values = self.decoder.params_mut().into_iter();
        let trained = values.zip(self.grads.slices_mut()).map(|((name, values), gradient)| {
            let decay = !vectors.contains(&name);
            Trained { name, values, gradient, decay }
        });
        trained.collect()
    }

    /// Mean negative log-likelihood in nats per token of the batch of this step, counted from zero;
    /// also computes the gradient.
    ///
    /// # Errors
    /// [`ModelError`] for tokens outside the vocabulary or numbers that are not finite.
    ///
    /// # Panics
    /// If the training documents have no token.
    pub fn step(&mut self, step: u64) -> Result<f64, ModelError> {
        let batch = self.batch(step);
        self.grads.clear();
        let targets = batch.next_tokens();
        self.decoder.loss_and_grads(&batch, &targets, &mut self.grads, &mut self.memory)
    }

    /// Mean negative log-likelihood in nats per token of the validation documents.
    ///
    /// # Errors
    /// As [`Self::step`].
    ///
    /// # Panics
    /// If no validation document has two tokens.
    pub fn validate(&mut self) -> Result<f64, ModelError> {
        let order: Vec<u32> = (0..self.validation.len() as u32).collect();
        let (mut sum, mut count) = (0.0, 0u32);
        for rows in self.validation.batches(&order, self.batching.tokens) {
            let batch = pack(self.validation, &order[rows]);
            let mut hidden = self.decoder.embed(&batch)?;
            let layers = 0..self.decoder.config().layers.len();
            self.decoder.run_layers(&mut hidden, &batch, layers, &mut NoProbe)?;
            let scores = self.decoder.token_nll(&hidden, &batch, &vec![0; batch.spans().len()])?;
            for score in scores.iter().flatten() {
                sum += score.nll;
                count += 1;
            }
        }
        assert!(count > 0, "validation documents have something to predict");
        Ok(sum / f64::from(count))
    }

    fn batch(&mut self, step: u64) -> Batch {
        assert!(self.train.token_count() > 0, "training documents hold tokens");
        let held = self.epoch.take().filter(|held| held.first_step <= step);
        let mut epoch = held.unwrap_or_else(|| self.batching.arrange(self.train, 0, 0));
        loop {
            let next = epoch.first_step + epoch.batches.len() as u64;
            if step < next {
                let rows = epoch.batches[(step - epoch.first_step) as usize].clone();
                let batch = pack(self.train, &epoch.order[rows]);
                self.epoch = Some(epoch);
                return batch;
            }
            epoch = self.batching.arrange(self.train, epoch.index + 1, next);
        }
    }
}

fn pack(documents: &Documents, order: &[u32]) -> Batch {
    let sequences: Vec<&[u32]> = order.iter().map(|&index| documents.get(index as usize)).collect();
    Batch::new(&sequences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TransformerConfig;
    use serde_json::json;

    fn decoder() -> Transformer {
        let config = TransformerConfig::from_json(&json!({
            "model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
            "hidden_act": "silu", "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": true, "vocab_size": 12
        }));
        Transformer::random(config.unwrap(), RngKey::new(4))
    }

    fn documents() -> Documents {
        let mut documents = Documents::default();
        for i in 0..20u32 {
            let tokens: Vec<u32> = (0..4 + i % 5).map(|t| (i + t) % 12).collect();
            documents.push(&tokens);
        }
        documents
    }

    const BATCHING: fn() -> Batching = || Batching { tokens: 24, key: RngKey::new(9) };

    #[test]
    fn every_epoch_holds_every_document_once_in_its_own_order() {
        let (mut decoder, documents) = (decoder(), documents());
        let mut training = LanguageModeling::new(&mut decoder, &documents, &documents, BATCHING());
        let steps = training.steps(1);
        let epoch = |training: &mut LanguageModeling<'_>, steps: std::ops::Range<u64>| {
            let mut seen: Vec<Vec<u32>> = Vec::new();
            for step in steps {
                let batch = training.batch(step);
                assert!(batch.len() <= 24);
                seen.extend(batch.spans().iter().map(|span| batch.tokens()[span.clone()].to_vec()));
            }
            seen
        };
        let first = epoch(&mut training, 0..steps);
        let both = training.steps(2);
        let second = epoch(&mut training, steps..both);
        assert_ne!(first, second);
        let sorted = |mut seen: Vec<Vec<u32>>| {
            seen.sort();
            seen
        };
        let all = (0..documents.len()).map(|index| documents.get(index).to_vec()).collect();
        let all = sorted(all);
        assert_eq!(sorted(first.clone()), all);
        assert_eq!(sorted(second), all);
        assert_eq!(epoch(&mut training, 0..steps), first, "a step does not depend on those before");
    }

    #[test]
    fn windows_predict_every_token_of_a_document_once() {
        for len in 1..20u32 {
            let tokens: Vec<u32> = (0..len).collect();
            let mut documents = Documents::default();
            documents.push(&[7, 8]);
            documents.push_windows(&tokens, 5);
            let windows: Vec<&[u32]> = (1..documents.len()).map(|at| documents.get(at)).collect();
            let predicted: Vec<u32> =
                windows.iter().flat_map(|window| &window[1..]).copied().collect();
            assert_eq!(predicted, tokens[1..], "{len}");
            assert!(windows.iter().all(|window| window.len() <= 5), "{len}");
            assert_eq!(documents.predicted_count(), 1 + predicted.len(), "{len}");
        }
    }

    #[test]
    fn the_loss_falls_and_validation_agrees_with_the_step_before_it_moves() {
        let (mut decoder, documents) = (decoder(), documents());
        let whole = Batching { tokens: 1000, key: RngKey::new(9) };
        let mut training = LanguageModeling::new(&mut decoder, &documents, &documents, whole);
        let before = training.validate().unwrap();
        let first = training.step(0).unwrap();
        assert!((before - first).abs() < 1e-5, "{before} {first}");
        for step in 0..60 {
            training.step(step).unwrap();
            for param in training.params() {
                for (value, gradient) in param.values.iter_mut().zip(param.gradient.iter()) {
                    *value -= 0.5 * gradient;
                }
            }
        }
        let after = training.validate().unwrap();
        assert!(after < 0.8 * before, "{before} to {after}");
    }

    #[test]
    fn matrices_decay_and_norms_do_not() {
        let (mut decoder, documents) = (decoder(), documents());
        let mut training = LanguageModeling::new(&mut decoder, &documents, &documents, BATCHING());
        for param in training.params() {
            assert_eq!(param.decay, !param.name.contains("norm"), "{}", param.name);
            assert_eq!(param.values.len(), param.gradient.len(), "{}", param.name);
        }
    }
}
