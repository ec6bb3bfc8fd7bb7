//! Training of a decoder on documents: batches of whole documents and their loss and gradients.
//!
//! A batch is packed with whole documents until the next one would not fit; each sees only itself.
//! No document is cut, and nothing is padded. Every epoch has its own order, which follows from a
//! key, so the batch of a step follows from the number of the step alone.
//!
//! The loop, the optimiser and checkpoints are those of `linwright-train`; this is the step.

use crate::batch::Batch;
use crate::decoder::{Decoder, DecoderGrads, TrainingMemory};
use crate::error::ModelError;
use linwright_ops::NoProbe;
use linwright_tensor::RngKey;
use std::ops::Range;

/// Documents as tokens, one after another in one piece of memory.
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

    /// Tokens of all documents.
    #[must_use]
    pub fn token_count(&self) -> usize {
        self.tokens.len()
    }

    /// Borders of batches over documents in the given order: as many as fit in `limit` tokens, at
    /// least one.
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

/// How documents become batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Most tokens in a batch.
    pub tokens: usize,
    /// Orders the documents of each epoch.
    pub key: RngKey,
}

/// A parameter, its gradient, and whether weight decay applies to it.
#[derive(Debug)]
pub struct Trained<'a> {
    /// Its name in checkpoints.
    pub name: String,
    /// The numbers.
    pub values: &'a mut [f32],
    /// Their gradient.
    pub gradient: &'a mut [f32],
    /// Matrices decay; norms and biases do not.
    pub decay: bool,
}

/// A decoder in training.
#[derive(Debug)]
pub struct LanguageModeling<'a> {
    decoder: &'a mut Decoder,
    train: &'a Documents,
    validation: &'a Documents,
    batching: Batching,
    grads: DecoderGrads,
    memory: TrainingMemory,
    epoch: Option<Epoch>,
}

/// The order of one epoch.
#[derive(Debug)]
struct Epoch {
    index: u64,
    order: Vec<u32>,
    batches: Vec<Range<usize>>,
}

impl<'a> LanguageModeling<'a> {
    /// Training of `decoder` on `train`, judged on `validation`.
    ///
    /// # Panics
    /// If there is no training document.
    #[must_use]
    pub fn new(
        decoder: &'a mut Decoder,
        train: &'a Documents,
        validation: &'a Documents,
        batching: Batching,
    ) -> Self {
        assert!(!train.is_empty(), "training without documents");
        let grads = DecoderGrads::zeros(decoder);
        let memory = TrainingMemory::default();
        Self { decoder, train, validation, batching, grads, memory, epoch: None }
    }

    /// Steps of the first `epochs` epochs.
    #[must_use]
    pub fn steps(&self, epochs: u64) -> u64 {
        (0..epochs).map(|epoch| self.arrange(epoch).batches.len() as u64).sum()
    }

    /// Every parameter with its gradient, in a fixed order.
    pub fn params(&mut self) -> Vec<Trained<'_>> {
        let values = self.decoder.params_mut().into_iter();
        let trained = values.zip(self.grads.slices_mut()).map(|((name, values), gradient)| {
            let decay = !name.ends_with("norm.weight") && !name.ends_with(".bias");
            Trained { name, values, gradient, decay }
        });
        trained.collect()
    }

    /// Mean negative log-likelihood in nats per token of the batch of this step, counted from zero;
    /// leaves its gradient.
    ///
    /// # Errors
    /// [`ModelError`] for tokens outside the vocabulary or numbers that are not finite.
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
    pub fn validate(&mut self) -> Result<f64, ModelError> {
        let order: Vec<u32> = (0..self.validation.len() as u32).collect();
        let (mut sum, mut count) = (0.0, 0u32);
        for rows in self.validation.batches(&order, self.batching.tokens) {
            let batch = pack(self.validation, &order[rows]);
            let mut hidden = self.decoder.embed(&batch)?;
            let layers = 0..self.decoder.config().layers;
            self.decoder.run_layers(&mut hidden, &batch, layers, &mut NoProbe)?;
            let scores = self.decoder.token_nll(&hidden, &batch, &vec![0; batch.spans().len()])?;
            for score in scores.iter().flatten() {
                sum += score.nll;
                count += 1;
            }
        }
        Ok(sum / f64::from(count.max(1)))
    }

    fn batch(&mut self, step: u64) -> Batch {
        let (mut epoch, mut left) = (0, step);
        loop {
            if self.epoch.as_ref().is_none_or(|held| held.index != epoch) {
                self.epoch = Some(self.arrange(epoch));
            }
            if let Some(Epoch { order, batches, .. }) = &self.epoch {
                if let Some(range) = batches.get(left as usize) {
                    return pack(self.train, &order[range.clone()]);
                }
                left -= batches.len() as u64;
            }
            epoch += 1;
        }
    }

    fn arrange(&self, index: u64) -> Epoch {
        let order = self.batching.key.fold_index(index).stream().permutation(self.train.len());
        let batches = self.train.batches(&order, self.batching.tokens);
        Epoch { index, order, batches }
    }
}

fn pack(documents: &Documents, order: &[u32]) -> Batch {
    let sequences: Vec<&[u32]> = order.iter().map(|&index| documents.get(index as usize)).collect();
    Batch::new(&sequences)
}
