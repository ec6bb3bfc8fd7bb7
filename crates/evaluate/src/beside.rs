//! Edits of a model beside the model itself, whose work is done once for all of them.

use super::packed::{LastOutput, Packed, Wanted, last_stages};
use super::{LanguageModel, LanguageModels, ModelFailure, Scored, Sequence, Subject};
use linwright_model::{ModelError, Stream, Transformer};
use linwright_tensor::Mat;
use std::cell::RefCell;
use std::collections::HashMap;

/// The output of the last layer for a batch, and its rows to score.
type Output = (Mat<f32>, Wanted);

/// Memory for outputs of a last layer.
const ROOM: usize = 1 << 28;

/// Outputs of the last layer of a model, by batch: a model that is compared with many others reads
/// the same texts each time, and only its head has to. Beyond 256 MiB they are computed again.
#[derive(Debug, Default)]
pub struct LastOutputs {
    known: RefCell<HashMap<Vec<u32>, Output>>,
}

impl LastOutputs {
    /// The output for a batch, and its rows to score.
    fn of(&self, model: &Transformer, packed: &Packed) -> Result<Output, ModelError> {
        // Spans are told apart by a token that no vocabulary has.
        let batch = packed.batch();
        let spans = batch.spans().iter().flat_map(|span| {
            batch.tokens()[span.start..span.end].iter().copied().chain([u32::MAX])
        });
        let rows = packed.wanted().iter().map(|(row, _)| *row as u32);
        let key: Vec<u32> = spans.chain(rows).collect();
        if let Some(output) = self.known.borrow().get(&key) {
            return Ok(output.clone());
        }
        let stream = Stream::new(model.embed(batch)?);
        let output = last_stages(model, stream, batch, 0, packed.wanted())?;
        let mut known = self.known.borrow_mut();
        let numbers = |output: &Output| output.0.data().len();
        let taken: usize = known.values().map(numbers).sum();
        if 4 * (taken + numbers(&output)) <= ROOM {
            known.insert(key, output.clone());
        }
        Ok(output)
    }
}

/// A model and an edit of it, which read texts together.
pub struct Beside<'a> {
    dense: &'a Transformer,
    outputs: &'a LastOutputs,
    edited: Subject<'a>,
}

impl<'a> Beside<'a> {
    /// An edit beside its original, whose outputs are kept for the next one.
    #[must_use]
    pub fn new(dense: &'a Transformer, outputs: &'a LastOutputs, edited: Subject<'a>) -> Self {
        Self { dense, outputs, edited }
    }
}

impl LanguageModels for Beside<'_> {
    fn first(&self) -> &dyn LanguageModel {
        &self.edited
    }

    fn count(&self) -> usize {
        2
    }

    fn score_against_first(&self, sequences: &[Sequence<'_>]) -> Result<Vec<Scored>, ModelFailure> {
        let packed = Packed::new(sequences, &vec![None; sequences.len()]);
        let (hidden, wanted) = self.outputs.of(self.dense, &packed)?;
        let dense = LastOutput { model: self.dense, hidden, wanted };
        Ok(packed.read_against_first(&[dense, self.edited.last_output(&packed)?])?)
    }
}
