//! Evaluation of many edits of one model on the same batches.

use linwright_compress::CompressError;
use linwright_compress::intervention::put;
use linwright_evaluate::{
    ClozeBatch, Generated, Generation, Infilled, LanguageModel, LanguageModels, LastOutput,
    MaskedInput, ModelFailure, Packed, Pairs, Scored, Sequence, Subject, TopLogprobsRequest,
    last_stages,
};
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, Stream, Transformer};
use linwright_ops::{Network, NoProbe, Op, SiteId, Sites};
use linwright_tensor::Mat;
use std::cell::RefCell;

/// One edit of a model: replacement operators and biases of some slots.
#[derive(Clone, Debug, Default)]
pub struct Variant {
    /// Replacement operators by slot; empty for the unedited model.
    pub ops: Vec<(SiteId, Op<f32>)>,
    /// Replacement biases by slot, where the edit changes them.
    pub biases: Vec<(SiteId, Vec<f32>)>,
}

impl Variant {
    /// The operators and biases of some slots of an edited model.
    ///
    /// # Panics
    /// If the model has no such slot.
    #[must_use]
    #[track_caller]
    pub fn of<'s>(edited: &Transformer, sites: impl Iterator<Item = &'s SiteId>) -> Self {
        let mut variant = Self::default();
        for site in sites {
            let slot = edited.slot(site).expect("the slot was edited");
            variant.ops.push((site.clone(), slot.op().clone()));
            variant.biases.extend(slot.bias().map(|bias| (site.clone(), bias.to_vec())));
        }
        variant
    }
}

/// A model and edits of it as [`LanguageModels`]. A batch runs through the original model once;
/// each edit starts from the residual stream before the first stage that it changes. One copy of
/// the model serves all edits: operators are swapped in and out.
pub struct Variants<'a> {
    /// The original model.
    model: &'a Transformer,
    /// A copy that shares its weights, to which edits are applied.
    edited: RefCell<Transformer>,
    /// The model and its tokenizer.
    subject: Subject<'a>,
    tokenizer: &'a Tokenizer,
    variants: &'a [Variant],
    /// First stage that each variant changes.
    stages: Vec<usize>,
    /// Whether the stages before an edit are shared; if not, each edit computes all stages, which
    /// is slower and gives the same result.
    shares: bool,
    max_length: Option<usize>,
    /// Pooling for text embeddings, if the checkpoint defines one.
    sentence: Option<&'a Sentence>,
    /// Called before each edit of a batch with the number of edits done; `false` cancels.
    go_on: &'a dyn Fn(usize) -> bool,
}

impl<'a> Variants<'a> {
    /// Edits of a model; an edit without operators is the original model.
    ///
    /// # Panics
    /// If an edit names a slot that no layer of the model has.
    #[must_use]
    #[track_caller]
    pub fn new(
        model: &'a Transformer,
        tokenizer: &'a Tokenizer,
        variants: &'a [Variant],
        max_length: Option<usize>,
    ) -> Self {
        let stage = |site: &SiteId| {
            let slot = model.slot(site).expect("a slot of the model");
            slot.stage().expect("a slot of a layer")
        };
        let first = |variant: &Variant| {
            variant.ops.iter().map(|(site, _)| stage(site)).min().unwrap_or(model.stages())
        };
        let stages = variants.iter().map(first).collect();
        let edited = RefCell::new(model.clone());
        let subject = Subject::new(model, tokenizer).with_max_length(max_length);
        Self {
            model,
            edited,
            subject,
            tokenizer,
            variants,
            stages,
            shares: true,
            max_length,
            sentence: None,
            go_on: &|_| true,
        }
    }

    /// Computes each edit from the first layer on, without sharing work between edits.
    #[must_use]
    pub fn without_sharing(self) -> Self {
        Self { shares: false, ..self }
    }

    /// Sets the pooling from token vectors to text embeddings, for tasks that compare texts.
    #[must_use]
    pub fn with_sentence(self, sentence: Option<&'a Sentence>) -> Self {
        Self { subject: self.subject.with_sentence(sentence), sentence, ..self }
    }

    /// Calls `go_on` before each edit of a batch with the number of edits done; `false` cancels. A
    /// batch of hundreds of edits takes minutes.
    #[must_use]
    pub fn with_cancellation(self, go_on: &'a dyn Fn(usize) -> bool) -> Self {
        Self { go_on, ..self }
    }

    /// Runs `work` on the model with an edit applied.
    fn with<R>(
        &self,
        index: usize,
        work: impl FnOnce(&Transformer) -> Result<R, ModelFailure>,
    ) -> Result<R, ModelFailure> {
        let mut model = self.edited.borrow_mut();
        let mut before = Vec::new();
        let mut applied: Result<(), CompressError> = Ok(());
        for (site, op) in &self.variants[index].ops {
            match put(&mut *model, site, op.clone()) {
                Ok(old) => before.push((site, old)),
                Err(error) => {
                    applied = Err(error);
                    break;
                }
            }
        }
        let mut biases = self.variants[index].biases.clone();
        biases.iter_mut().for_each(|(site, bias)| swap_bias(&mut model, site, bias));
        let done = match applied {
            Ok(()) => work(&model),
            Err(error) => Err(error.into()),
        };
        biases.iter_mut().for_each(|(site, bias)| swap_bias(&mut model, site, bias));
        for (site, op) in before.into_iter().rev() {
            put(&mut *model, site, op)?;
        }
        done
    }

    fn check(&self, done: usize) -> Result<(), ModelFailure> {
        if (self.go_on)(done) { Ok(()) } else { Err("stopped between two edits".into()) }
    }

    /// Runs a batch through each edit: calls `read` with the model, the output of its last layer
    /// and the indices of the wanted rows in it.
    fn each<R>(
        &self,
        batch: &Batch,
        wanted: &[(usize, u32)],
        read: impl Fn(&Transformer, &Mat<f32>, &[(usize, u32)]) -> Result<R, ModelFailure>,
    ) -> Result<Vec<R>, ModelFailure> {
        let mut order: Vec<usize> = (0..self.variants.len()).collect();
        order.sort_by_key(|index| self.stages[*index]);
        let mut found: Vec<Option<R>> = (0..order.len()).map(|_| None).collect();
        let mut stream = Stream::new(self.model.embed(batch)?);
        let mut stage = 0;
        for (done, index) in order.into_iter().enumerate() {
            self.check(done)?;
            let first = if self.shares { self.stages[index] } else { 0 };
            if stage < first {
                self.model.run_stages(&mut stream, batch, stage..first, &mut NoProbe)?;
                stage = first;
            }
            let result = self.with(index, |model| {
                let (hidden, wanted) = last_stages(model, stream.clone(), batch, first, wanted)?;
                read(model, &hidden, &wanted)
            })?;
            found[index] = Some(result);
        }
        Ok(found.into_iter().flatten().collect())
    }
}

/// Swaps a bias with that of a slot, if the slot has one.
fn swap_bias(model: &mut Transformer, site: &SiteId, bias: &mut [f32]) {
    let slot = model.slot_mut(site).expect("the slot was found in the model");
    if let Some(own) = slot.bias_mut() {
        own.swap_with_slice(bias);
    }
}

impl LanguageModels for Variants<'_> {
    fn first(&self) -> &dyn LanguageModel {
        &self.subject
    }

    fn count(&self) -> usize {
        self.variants.len()
    }

    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Vec<Scored>, ModelFailure> {
        let packed = Packed::new(sequences, top_requests);
        self.each(packed.batch(), packed.wanted(), |model, hidden, wanted| {
            packed.read(model, self.tokenizer, hidden, wanted)
        })
    }

    /// The head is no slot, so that of the original model reads every output.
    fn score_against_first(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Scored>, ModelFailure> {
        let packed = Packed::new(sequences, &vec![None; sequences.len()]);
        let output = |_: &Transformer, hidden: &Mat<f32>, wanted: &[(usize, u32)]| {
            Ok((hidden.clone(), wanted.to_vec()))
        };
        let outputs = self.each(packed.batch(), packed.wanted(), output)?.into_iter();
        let output = |(hidden, wanted)| LastOutput { model: self.model, hidden, wanted };
        Ok(packed.read_against_first(&outputs.map(output).collect::<Vec<_>>())?)
    }

    fn infill_each(&self, texts: &[MaskedInput]) -> Result<Vec<Vec<Infilled>>, ModelFailure> {
        let cloze = ClozeBatch::new(self.model, texts)?;
        self.each(cloze.batch(), cloze.wanted(), |model, hidden, wanted| {
            cloze.read(model, self.tokenizer, hidden, wanted)
        })
    }

    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure> {
        let sentence =
            self.sentence.ok_or("the checkpoint defines no pooling for text embeddings")?;
        let pairs = Pairs::new(sentence, pairs);
        // Every row is wanted, so the whole output of the last layer is returned.
        self.each(pairs.batch(), pairs.wanted(), |_, hidden, _| Ok(pairs.cosines(hidden)))
    }

    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Generated>>, ModelFailure> {
        let write = |index| {
            self.check(index)?;
            self.with(index, |model| {
                let subject = Subject::new(model, self.tokenizer).with_max_length(self.max_length);
                subject.generate(prompts, generation)
            })
        };
        (0..self.variants.len()).map(write).collect()
    }
}
