//! A transformer and its tokenizer as a [`LanguageModel`].

use super::language_model::{
    Generated, Infilled, MaskedInput, ModelFailure, Scored, TopLogprobsRequest,
};
use super::packed::{LastOutput, Packed, last_stages};
use super::{Cloze, Generation, LanguageModel, Sequence, TokenScore, cloze, similarity};
use linwright_model::checkpoint::Sentence;
use linwright_model::generate::{Choice, Stopping, generate_text_each};
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{ModelError, Stream, Transformer};
use linwright_tensor::RngKey;

/// The error of a model without text embeddings.
const NO_VECTORS: &str = "the checkpoint defines no pooling for text embeddings";

/// A transformer and its tokenizer, evaluated as a [`LanguageModel`].
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    decoder: &'a Transformer,
    tokenizer: &'a Tokenizer,
    max_length: Option<usize>,
    sentence: Option<&'a Sentence>,
}

impl<'a> Subject<'a> {
    /// A model with its full context length.
    #[must_use]
    pub fn new(decoder: &'a Transformer, tokenizer: &'a Tokenizer) -> Self {
        Self { decoder, tokenizer, max_length: None, sentence: None }
    }

    /// Size of the vocabulary of the model.
    #[must_use]
    pub fn vocab(&self) -> usize {
        self.decoder.config().vocab
    }

    /// Limits inputs to `max_length` tokens, if that is fewer.
    #[must_use]
    pub fn with_max_length(self, max_length: Option<usize>) -> Self {
        Self { max_length, ..self }
    }

    /// Sets the pooling of a text into one vector, for tasks that compare texts.
    #[must_use]
    pub fn with_sentence(self, sentence: Option<&'a Sentence>) -> Self {
        Self { sentence, ..self }
    }
}

impl LanguageModel for Subject<'_> {
    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelFailure> {
        Ok(self.tokenizer.encode(text, false)?)
    }

    fn bos(&self) -> Option<u32> {
        self.tokenizer.bos()
    }

    fn eos(&self) -> Option<u32> {
        self.tokenizer.eos()
    }

    fn adds_bos(&self) -> bool {
        self.tokenizer.adds_bos()
    }

    fn max_positions(&self) -> Option<usize> {
        let positions = self.decoder.config().max_positions;
        Some(self.max_length.map_or(positions, |max| max.min(positions)))
    }

    fn score(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Vec<TokenScore>>, ModelFailure> {
        Ok(score(self.decoder, sequences)?)
    }

    fn score_with_top_logprobs(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Scored, ModelFailure> {
        let (decoder, packed) = (self.decoder, Packed::new(sequences, top_requests));
        let hidden = Stream::new(decoder.embed(packed.batch())?);
        let (hidden, wanted) = last_stages(decoder, hidden, packed.batch(), 0, packed.wanted())?;
        packed.read(decoder, self.tokenizer, &hidden, &wanted)
    }

    fn last_output(&self, packed: &Packed) -> Result<LastOutput<'_>, ModelFailure> {
        let model = self.decoder;
        let hidden = Stream::new(model.embed(packed.batch())?);
        let (hidden, wanted) = last_stages(model, hidden, packed.batch(), 0, packed.wanted())?;
        Ok(LastOutput { model, hidden, wanted })
    }

    fn is_masked(&self) -> bool {
        !self.decoder.config().is_causal()
    }

    fn encode_cloze(&self, cloze: &Cloze<'_>, masks: usize) -> Result<MaskedInput, ModelFailure> {
        let limit = self.max_positions().unwrap_or(usize::MAX);
        cloze::encode(self.tokenizer, cloze, masks, limit)
    }

    fn infill(&self, texts: &[MaskedInput]) -> Result<Vec<Infilled>, ModelFailure> {
        cloze::infill(self.decoder, self.tokenizer, texts)
    }

    fn has_head(&self) -> bool {
        self.decoder.has_head()
    }

    fn pooling(&self) -> Option<String> {
        self.sentence.map(Sentence::name)
    }

    fn encode_whole(&self, text: &str) -> Result<(Vec<u32>, usize), ModelFailure> {
        let limit = self.max_positions().unwrap_or(usize::MAX);
        let sentence = self.sentence.ok_or(NO_VECTORS)?;
        Ok(sentence.encode(self.tokenizer, text, limit)?)
    }

    fn cosines(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<f64>, ModelFailure> {
        let sentence = self.sentence.ok_or(NO_VECTORS)?;
        similarity::cosines(self.decoder, sentence, pairs)
    }

    fn generate(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Generated>, ModelFailure> {
        let stopping = Stopping {
            new_tokens: generation.new_tokens,
            end_tokens: self.tokenizer.eos().into_iter().collect(),
            stop: generation.until.clone(),
        };
        let choices = choices(generation, prompts.len());
        let all = generate_text_each(
            self.decoder,
            self.tokenizer,
            prompts,
            &choices,
            &stopping,
            &mut |_, _| true,
        )?;
        let generated = |done: linwright_model::generate::Generated| Generated {
            text: done.text,
            tokens: done.tokens.len(),
        };
        Ok(all.into_iter().map(generated).collect())
    }
}

/// How the tokens of each prompt are chosen.
fn choices(generation: &Generation, prompts: usize) -> Vec<Choice> {
    let Some(sampling) = &generation.sampling else { return vec![Choice::greedy(); prompts] };
    let choice = |seed: &u64| Choice {
        temperature: sampling.temperature as f32,
        top_k: sampling.top_k,
        top_p: sampling.top_p.map(|share| share as f32),
        min_p: sampling.min_p.map(|share| share as f32),
        key: RngKey::new(*seed),
        ..Choice::greedy()
    };
    sampling.seeds.iter().map(choice).collect()
}

/// Scores sequences as one batch. The last token of a sequence is predicted but is not an input.
pub(super) fn score(
    decoder: &Transformer,
    sequences: &[Sequence<'_>],
) -> Result<Vec<Vec<TokenScore>>, ModelError> {
    let packed = Packed::new(sequences, &vec![None; sequences.len()]);
    let hidden = Stream::new(decoder.embed(packed.batch())?);
    let (hidden, wanted) = last_stages(decoder, hidden, packed.batch(), 0, packed.wanted())?;
    packed.scores(decoder, &hidden, &wanted)
}
