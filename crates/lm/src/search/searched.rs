//! The model during a search: the original, and a copy with the accepted layers and the one in
//! question.

use super::states::States;
use crate::LmError;
use linwright_compress::intervention::put;
use linwright_evaluate::{
    ClozeBatch, Generated, Generation, Infilled, LanguageModel, LanguageModels, MaskedInput,
    ModelFailure, Packed, Pairs, Scored, Sequence, Subject, TopLogprobsRequest, last_stages,
};
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, Stream, Transformer};
use linwright_ops::{Network, Op, SiteId, Sites};
use linwright_tensor::Mat;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What a slot gets instead of its weight.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The operator.
    pub op: Op<f32>,
    /// The bias, if it changes.
    pub bias: Option<Vec<f32>>,
}

/// How models of a search are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// Whether hidden states and contexts are computed once for many models and choices.
    pub shares: bool,
    /// Number of tokens of all search documents.
    pub rows: usize,
    /// Largest size of the hidden states that are kept.
    pub bytes: usize,
}

/// The model of a search as one of [`LanguageModels`].
pub struct Searched<'a> {
    original: &'a Transformer,
    edited: Transformer,
    subject: Subject<'a>,
    tokenizer: &'a Tokenizer,
    sentence: Option<&'a Sentence>,
    max_length: Option<usize>,
    /// Stages of the replaced slots.
    replaced: BTreeMap<SiteId, usize>,
    shares: bool,
    states: RefCell<States>,
    /// Number of stages of single tokens that were computed.
    passes: Cell<u64>,
}

impl<'a> Searched<'a> {
    /// The unedited model.
    #[must_use]
    pub fn new(
        original: &'a Transformer,
        tokenizer: &'a Tokenizer,
        max_length: Option<usize>,
        sentence: Option<&'a Sentence>,
        reuse: Reuse,
    ) -> Self {
        let subject = Subject::new(original, tokenizer).with_max_length(max_length);
        let bytes = if reuse.shares { reuse.bytes } else { 0 };
        Self {
            original,
            edited: original.clone(),
            subject: subject.with_sentence(sentence),
            tokenizer,
            sentence,
            max_length,
            replaced: BTreeMap::new(),
            shares: reuse.shares,
            states: RefCell::new(States::new(original, reuse.rows, bytes)),
            passes: Cell::new(0),
        }
    }

    /// Replaces a slot, or gives it back its weight and bias.
    ///
    /// # Errors
    /// [`linwright_compress::CompressError::Fit`] for an operator of another shape.
    ///
    /// # Panics
    /// If the model has no such slot in a layer.
    #[track_caller]
    pub fn set(&mut self, site: &SiteId, to: Option<&Replacement>) -> Result<(), LmError> {
        let slot = self.original.slot(site).expect("a slot of the model");
        let op = to.map_or_else(|| slot.op().clone(), |to| to.op.clone());
        put(&mut self.edited, site, op)?;
        let bias = to.and_then(|to| to.bias.as_deref()).or(slot.bias());
        let own = self.edited.slot_mut(site).and_then(|slot| slot.bias_mut());
        if let (Some(own), Some(bias)) = (own, bias) {
            own.copy_from_slice(bias);
        }
        match to {
            None => self.replaced.remove(site),
            Some(_) => {
                let stage = slot.stage().expect("a slot of a layer");
                self.replaced.insert(site.clone(), stage)
            }
        };
        Ok(())
    }

    /// The model with its replacements.
    #[must_use]
    pub fn edited(&self) -> &Transformer {
        &self.edited
    }

    /// The model with its replacements, alone.
    #[must_use]
    pub fn into_edited(self) -> Transformer {
        self.edited
    }

    /// Number of stages of single tokens that were computed so far.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.passes.get()
    }

    /// Runs a batch: calls `read` with the model, the output of its last layer and the indices of
    /// the wanted rows in it.
    fn run<R>(
        &self,
        batch: &Batch,
        wanted: &[(usize, u32)],
        read: impl Fn(&Transformer, &Mat<f32>, &[(usize, u32)]) -> Result<R, ModelFailure>,
    ) -> Result<Vec<R>, ModelFailure> {
        let stages = self.original.stages();
        let first = self.replaced.values().copied().min().unwrap_or(stages);
        let (first, stream, computed) = if self.shares {
            let (stream, computed) =
                self.states.borrow_mut().before(first, batch, self.original)?;
            (first, stream, computed)
        } else {
            (0, Stream::new(self.original.embed(batch)?), 0)
        };
        let passes = batch.len() * (computed + stages - first);
        self.passes.set(self.passes.get() + passes as u64);
        let (hidden, wanted) = last_stages(&self.edited, stream, batch, first, wanted)?;
        Ok(vec![read(&self.edited, &hidden, &wanted)?])
    }
}

impl LanguageModels for Searched<'_> {
    fn first(&self) -> &dyn LanguageModel {
        &self.subject
    }

    fn count(&self) -> usize {
        1
    }

    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Vec<Scored>, ModelFailure> {
        let packed = match self.shares {
            true => Packed::new(sequences, top_requests),
            false => Packed::apart(sequences, top_requests),
        };
        self.run(packed.batch(), packed.wanted(), |model, hidden, wanted| {
            packed.read(model, self.tokenizer, hidden, wanted)
        })
    }

    fn infill_each(&self, texts: &[MaskedInput]) -> Result<Vec<Vec<Infilled>>, ModelFailure> {
        let cloze = ClozeBatch::new(self.original, texts)?;
        self.run(cloze.batch(), cloze.wanted(), |model, hidden, wanted| {
            cloze.read(model, self.tokenizer, hidden, wanted)
        })
    }

    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure> {
        let sentence =
            self.sentence.ok_or("the checkpoint defines no pooling for text embeddings")?;
        let pairs = Pairs::new(sentence, pairs);
        self.run(pairs.batch(), pairs.wanted(), |_, hidden, _| Ok(pairs.cosines(hidden)))
    }

    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Generated>>, ModelFailure> {
        let edited = Subject::new(&self.edited, self.tokenizer).with_max_length(self.max_length);
        let found = edited.generate(prompts, generation)?;
        let written: usize = found.iter().map(|one| one.tokens).sum();
        let rows = prompts.iter().map(Vec::len).sum::<usize>() + written;
        let passes = rows * self.original.stages();
        self.passes.set(self.passes.get() + passes as u64);
        Ok(vec![found])
    }
}
