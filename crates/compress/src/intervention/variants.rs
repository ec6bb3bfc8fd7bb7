//! Many edits of one model, asked the same at once.

use super::edit::put;
use crate::CompressError;
use linwright_evaluate::{
    Filled, Gaps, Generation, LanguageModel, LanguageModels, Masked, ModelFailure, Packed, Pairs,
    Peek, Peeked, Sequence, Subject, Written, last_stages,
};
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, Stream, Transformer};
use linwright_ops::{Op, SiteId, Sites};
use linwright_tensor::Mat;
use std::cell::RefCell;

/// One edit: operators and biases that replace those of some slots.
#[derive(Clone, Debug, Default)]
pub struct Variant {
    /// Slots and what stands in them; none is the model as it is.
    pub ops: Vec<(SiteId, Op<f32>)>,
    /// Biases of these slots, where they change, too.
    pub biases: Vec<(SiteId, Vec<f32>)>,
}

impl Variant {
    /// What stands in some slots of an edited model.
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

/// A model and edits of it, as models to ask. Batches go through the model once; each edit starts
/// from what stood before the first stage that it changes, and only one copy of the model is there,
/// in which operators change places.
pub struct Variants<'a> {
    /// The model as it is.
    model: &'a Transformer,
    /// A copy that shares its weights, in which edits are made.
    edited: RefCell<Transformer>,
    /// The model and its tokenizer.
    subject: Subject<'a>,
    tokenizer: &'a Tokenizer,
    variants: &'a [Variant],
    /// First stage that each variant changes.
    stages: Vec<usize>,
    /// Whether prefixes are shared; if not, each edit computes everything, which is slower and the
    /// same.
    shares: bool,
    max_length: Option<usize>,
    /// How a text becomes one vector, where that is known.
    sentence: Option<Sentence>,
    /// Called before each edit of a batch with its index; says whether to go on.
    go_on: &'a dyn Fn(usize) -> bool,
}

impl<'a> Variants<'a> {
    /// Edits of a model, which is asked as it is where an edit has no operators.
    ///
    /// # Panics
    /// If an edit names a slot that no layer of the model has.
    #[must_use]
    #[track_caller]
    pub fn new(
        (model, tokenizer): (&'a Transformer, &'a Tokenizer),
        variants: &'a [Variant],
        max_length: Option<usize>,
    ) -> Self {
        let stage = |site: &SiteId| {
            let slot = model.slot(site).expect("a slot of the model");
            model.stage_of(slot).expect("a slot of a layer")
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

    /// The same without sharing anything between the edits.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { shares: false, ..self }
    }

    /// The same with a way from the vectors of all tokens to that of a text, for tasks that compare
    /// texts.
    #[must_use]
    pub fn with_sentence(self, sentence: Option<Sentence>) -> Self {
        Self { subject: self.subject.with_sentence(sentence), sentence, ..self }
    }

    /// The same, asking before each edit of a batch, with how many are done, whether to go on: a
    /// batch of hundreds of edits takes minutes.
    #[must_use]
    pub fn asking(self, go_on: &'a dyn Fn(usize) -> bool) -> Self {
        Self { go_on, ..self }
    }

    /// Runs `work` on the model with an edit made.
    fn with<R>(
        &self,
        index: usize,
        work: impl FnOnce(&Transformer) -> Result<R, ModelFailure>,
    ) -> Result<R, ModelFailure> {
        let mut model = self.edited.borrow_mut();
        let mut before = Vec::new();
        let mut made: Result<(), CompressError> = Ok(());
        for (site, op) in &self.variants[index].ops {
            match put(&mut model, site, op.clone()) {
                Ok(old) => before.push((site, old)),
                Err(error) => {
                    made = Err(error);
                    break;
                }
            }
        }
        let mut biases = self.variants[index].biases.clone();
        biases.iter_mut().for_each(|(site, bias)| swap_bias(&mut model, site, bias));
        let done = match made {
            Ok(()) => work(&model),
            Err(error) => Err(error.into()),
        };
        biases.iter_mut().for_each(|(site, bias)| swap_bias(&mut model, site, bias));
        for (site, op) in before.into_iter().rev() {
            put(&mut model, site, op)?;
        }
        done
    }

    fn check(&self, done: usize) -> Result<(), ModelFailure> {
        if (self.go_on)(done) { Ok(()) } else { Err("stopped between two edits".into()) }
    }

    /// What each edit makes of a batch: calls `read` with the model, what left its last layer, and
    /// where in it the wanted rows are.
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
                self.model.run_stages(&mut stream, batch, stage..first)?;
                stage = first;
            }
            let result = self.with(index, |model| {
                let (hidden, wanted) = last_stages(model, stream.clone(), batch, (first, wanted))?;
                read(model, &hidden, &wanted)
            })?;
            found[index] = Some(result);
        }
        Ok(found.into_iter().flatten().collect())
    }
}

/// Puts a bias into a slot that has one, and gives what stood there.
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
        peeks: &[Option<Peek>],
    ) -> Result<Vec<Peeked>, ModelFailure> {
        let packed = Packed::new(sequences, peeks);
        self.each(packed.batch(), packed.wanted(), |model, hidden, wanted| {
            packed.read((model, self.tokenizer), hidden, wanted)
        })
    }

    fn fill_each(&self, texts: &[Masked]) -> Result<Vec<Vec<Filled>>, ModelFailure> {
        let gaps = Gaps::new(self.model, texts)?;
        self.each(gaps.batch(), gaps.wanted(), |model, hidden, wanted| {
            gaps.read((model, self.tokenizer), hidden, wanted)
        })
    }

    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure> {
        let sentence = self.sentence.ok_or("nothing says how a text becomes one vector")?;
        let pairs = Pairs::new(sentence, pairs);
        // Every row is wanted, so that what left the last layer comes whole.
        self.each(pairs.batch(), pairs.wanted(), |_, hidden, _| Ok(pairs.cosines(hidden)))
    }

    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Written>>, ModelFailure> {
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
