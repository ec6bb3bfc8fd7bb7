//! Hidden states of the original model before each stage, for the batches of a search.
//!
//! A search walks from the last layer down, so everything below the layer in question is the
//! original model, and each batch starts from its state there. States are kept before every k-th
//! stage, as memory allows, and before the stage in question; those above it are dropped.

use linwright_model::{Batch, ModelError, Stream, Transformer};
use linwright_ops::{Network, NoProbe};
use std::collections::BTreeMap;

/// States of all batches of a search.
pub(super) struct States {
    /// The batches, each with its states by stage.
    batches: Vec<(Batch, BTreeMap<usize, Stream>)>,
    /// States are kept before stages that this divides; `None` keeps none at all.
    every: Option<usize>,
}

impl States {
    /// No states yet. Those of all `rows` tokens before one stage have so many numbers for each
    /// row, and all that are kept have at most `bytes`.
    pub(super) fn new(model: &Transformer, rows: usize, bytes: usize) -> Self {
        let of_one_stage = rows.saturating_mul(4 * model.config().hidden).max(1);
        // Twice: a stream between attention and MLP may hold two matrices.
        let at_once = bytes / of_one_stage.saturating_mul(2);
        // One set is that of the stage in question.
        let every = match at_once {
            0 => None,
            1 => Some(model.stages() + 1),
            more => Some(model.stages().div_ceil(more - 1).max(1)),
        };
        Self { batches: Vec::new(), every }
    }

    /// The state of a batch before a stage, and the number of stages that were computed for it.
    pub(super) fn before(
        &mut self,
        stage: usize,
        batch: &Batch,
        model: &Transformer,
    ) -> Result<(Stream, usize), ModelError> {
        let Some(every) = self.every else {
            let mut stream = Stream::new(model.embed(batch)?);
            model.run_stages(&mut stream, batch, 0..stage, &mut NoProbe)?;
            return Ok((stream, stage));
        };
        let index = match self.batches.iter().position(|(own, _)| own == batch) {
            Some(index) => index,
            None => {
                self.batches.push((batch.clone(), BTreeMap::new()));
                self.batches.len() - 1
            }
        };
        let kept = &mut self.batches[index].1;
        drop(kept.split_off(&(stage + 1)));
        let (mut at, mut stream) = match kept.range(..=stage).next_back() {
            Some((at, stream)) => (*at, stream.clone()),
            None => (0, Stream::new(model.embed(batch)?)),
        };
        let from = at;
        kept.entry(at).or_insert_with(|| stream.clone());
        while at < stage {
            let next = ((at / every + 1) * every).min(stage);
            model.run_stages(&mut stream, batch, at..next, &mut NoProbe)?;
            at = next;
            kept.insert(at, stream.clone());
        }
        // Above the last kept one, only the state of this stage stays.
        kept.retain(|at, _| at.is_multiple_of(every) || *at == stage);
        Ok((stream, stage - from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiny;

    #[test]
    fn states_are_those_of_the_model_whatever_memory_allows() {
        let model = tiny::checkpoint("llama3-rope-grouped").decoder;
        let batches: Vec<Batch> = [[1u32, 5, 9, 2], [3, 3, 8, 1]]
            .iter()
            .map(|tokens| Batch::new(&[&tokens[..]]))
            .collect();
        let one_stage = 8 * 4 * model.config().hidden * 2;
        for sets in [0, 1, 2, 3, 100] {
            let mut states = States::new(&model, 8, sets * one_stage);
            for stage in (0..=model.stages()).rev() {
                for round in 0..2 {
                    for batch in &batches {
                        let (found, computed) = states.before(stage, batch, &model).unwrap();
                        let mut expected = Stream::new(model.embed(batch).unwrap());
                        model.run_stages(&mut expected, batch, 0..stage, &mut NoProbe).unwrap();
                        let same = format!("{found:?}") == format!("{expected:?}");
                        assert!(same, "{sets} sets, stage {stage}");
                        // A second call computes nothing, if anything is kept.
                        assert!(computed == 0 || round == 0 || sets == 0);
                        let held = states.batches.iter().map(|(_, kept)| kept.len());
                        let most = if sets > 50 { model.stages() + 1 } else { sets };
                        assert!(held.max().unwrap_or(0) <= most.max(2), "{sets} sets");
                    }
                }
            }
        }
    }
}
