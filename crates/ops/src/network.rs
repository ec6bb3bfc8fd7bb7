//! Networks: slots, and running ranges of stages with a probe.

use crate::{LinearSlot, OutputLoss, Probe, SiteId, Sites};
use linwright_tensor::Mat;
use std::error::Error;
use std::ops::Range;

/// A network made of slots whose stages run one after the other: a language model, a classifier of
/// images, a flow, a potential.
///
/// A pass can start and stop between any two stages, which makes capture and search affordable.
/// Slots outside the stages, such as the head of a language model, have no
/// [`stage`](crate::LinearSlot::stage). Copies share their weights until one is changed.
pub trait Network: Sites + Clone + Send + Sync {
    /// A batch of examples: token sequences, images.
    type Input;

    /// State between two stages.
    type State: Clone;

    /// An error of a pass.
    type Error: Error + Send + Sync + 'static;

    /// Number of stages.
    fn stages(&self) -> usize;

    /// The state before the first stage.
    ///
    /// # Errors
    /// For an unsupported input.
    fn begin(&self, input: &Self::Input) -> Result<Self::State, Self::Error>;

    /// Runs some stages, in place, and shows their slots to the probe. Once the probe is satisfied
    /// the rest is skipped, and the state is unspecified.
    ///
    /// # Errors
    /// For an unsupported input, and non-finite numbers.
    ///
    /// # Panics
    /// If a stage does not exist, or the state does not belong to this input and stage.
    fn run_stages(
        &self,
        state: &mut Self::State,
        input: &Self::Input,
        stages: Range<usize>,
        probe: &mut dyn Probe,
    ) -> Result<(), Self::Error>;

    /// Whether the state after a stage follows from the state before it and the input of this slot
    /// alone, and [`Self::run_stages`] uses that input where the probe knows it
    /// ([`Probe::known_input`]).
    fn ends_stage(&self, _site: &SiteId) -> bool {
        false
    }

    /// Bytes of a state in memory.
    fn state_bytes(state: &Self::State) -> usize;

    /// Matrices of a state, which go to a file between passes if those of all examples are larger
    /// than memory; none if the state stays in memory.
    fn state_matrices(_state: &mut Self::State) -> Vec<&mut Mat<f32>> {
        Vec::new()
    }

    /// Number of parameters outside the operators of slots: embeddings, norms, biases.
    fn other_parameters(&self) -> u64;

    /// Number of parameters, with operators counted instead of the dense weights they replaced.
    fn parameters(&self) -> u64 {
        let of_slots: usize = self.slots().into_iter().map(LinearSlot::parameters).sum();
        self.other_parameters() + of_slots as u64
    }

    /// Number of parameters if all slots held dense weights.
    fn dense_parameters(&self) -> u64 {
        let slots = self.slots().into_iter();
        let dense: usize = slots.map(|slot| slot.shape().dense_parameters()).sum();
        self.other_parameters() + dense as u64
    }

    /// Frees memory that passes keep for reuse.
    fn release_scratch(&self) {}
}

/// A network whose loss has gradients at its slots.
pub trait Differentiable: Network {
    /// The loss of a batch, with a backward pass that computes only gradients of inputs, not of
    /// parameters, and ends below the first slot whose gradient the probe wants.
    ///
    /// # Errors
    /// For unsupported inputs, a network without outputs, and non-finite numbers.
    fn loss_to_slots(
        &self,
        input: &Self::Input,
        loss: &mut dyn OutputLoss,
        probe: &mut dyn Probe,
    ) -> Result<f64, Self::Error>;
}

/// Examples of a network in batches, in a fixed order: those for training, then those for
/// validation. No batch holds both.
pub trait Examples<I> {
    /// Number of batches.
    fn batches(&self) -> usize;

    /// Number of batches for training, from the first.
    fn training_batches(&self) -> usize;

    /// A batch.
    ///
    /// # Panics
    /// If there is no such batch.
    fn batch(&self, index: usize) -> I;

    /// Rows of a batch before the first stage: tokens, images.
    fn rows(&self, index: usize) -> usize;

    /// A small input of the same kind with its number of rows, to time passes.
    fn small(&self) -> (I, usize) {
        (self.batch(0), self.rows(0))
    }

    /// A text that identifies the examples, for fingerprints of fits.
    fn identity(&self) -> String;

    /// Rows of the batches for training.
    fn training_rows(&self) -> usize {
        (0..self.training_batches()).map(|index| self.rows(index)).sum()
    }

    /// Rows of all batches.
    fn all_rows(&self) -> usize {
        (0..self.batches()).map(|index| self.rows(index)).sum()
    }
}
