//! Separate models that answer the same requests.

use crate::{
    Generated, Generation, Infilled, LanguageModel, LanguageModels, MaskedInput, ModelFailure,
    Packed, Scored, Sequence, TopLogprobsRequest,
};

/// Models with one tokenizer that share no computation.
pub struct Several<'a>(
    /// The models; the first one defines the common properties.
    pub &'a [&'a dyn LanguageModel],
);

impl LanguageModels for Several<'_> {
    fn first(&self) -> &dyn LanguageModel {
        self.0[0]
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn score_each(
        &self,
        sequences: &[Sequence<'_>],
        top_requests: &[Option<TopLogprobsRequest>],
    ) -> Result<Vec<Scored>, ModelFailure> {
        let score = |model: &&dyn LanguageModel| {
            if top_requests.iter().any(Option::is_some) {
                return model.score_with_top_logprobs(sequences, top_requests);
            }
            let scores = model.score(sequences)?;
            Ok(Scored { scores, top_logprobs: vec![None; sequences.len()], ..Scored::default() })
        };
        self.0.iter().map(score).collect()
    }

    fn score_against_first(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Scored>, ModelFailure> {
        let packed = Packed::new(sequences, &vec![None; sequences.len()]);
        let outputs: Result<Vec<_>, _> =
            self.0.iter().map(|model| model.last_output(&packed)).collect();
        Ok(packed.read_against_first(&outputs?)?)
    }

    fn infill_each(&self, texts: &[MaskedInput]) -> Result<Vec<Vec<Infilled>>, ModelFailure> {
        self.0.iter().map(|model| model.infill(texts)).collect()
    }

    fn cosines_each(&self, pairs: &[[Vec<u32>; 2]]) -> Result<Vec<Vec<f64>>, ModelFailure> {
        self.0.iter().map(|model| model.cosines(pairs)).collect()
    }

    fn generate_each(
        &self,
        prompts: &[Vec<u32>],
        generation: &Generation,
    ) -> Result<Vec<Vec<Generated>>, ModelFailure> {
        self.0.iter().map(|model| model.generate(prompts, generation)).collect()
    }
}
