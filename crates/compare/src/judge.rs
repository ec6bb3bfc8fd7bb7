//! What a comparison needs to know of a kind of network.

use crate::rows::Asked;
use linwright_compress::fit_to::FitTo;
use linwright_compress::pipeline::Edited;
use linwright_compress::{CompressError, Size};
use linwright_evaluate::{ParameterCounts, TaskResult};
use linwright_ops::Network;
use linwright_run::{Monitor, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A way to a smaller network, as plain data.
pub trait Way: Clone + Serialize {
    /// Its name, unique in a comparison.
    fn name(&self) -> String;

    /// Whether it is a control.
    fn is_control(&self) -> bool;

    /// Whether it has a size; otherwise it is compared once.
    fn has_sizes(&self) -> bool;

    /// Whether it rounds weights, so that all parameters are kept in fewer bytes.
    fn is_rounding(&self) -> bool;

    /// Its name at a size of its own.
    fn sized(&self, size: Size) -> String {
        format!("{} at {size}", self.name())
    }
}

/// Multiply-adds of a network under one or more counters, as columns of a report, and what else the
/// report says of this kind of network.
pub trait Costs: Clone + Serialize + DeserializeOwned {
    /// Heads of the columns.
    const HEADS: &'static [&'static str];

    /// Metrics of each task that the report shows, from the first.
    const METRICS: usize;

    /// Metrics of each task that compare a model with the dense one, and that the report shows
    /// where models have them.
    const FROM_DENSE: &'static [&'static str] = &[];

    /// Of what memory consists, if it is counted.
    const MEMORY: Option<&'static str>;

    /// What they are counted on, such as a text of a length.
    fn counted_on() -> String;

    /// The counts, one for each head.
    fn counts(&self) -> Vec<u64>;
}

/// Speeds of a network, as columns of a report.
pub trait Speeds: Copy + Serialize + DeserializeOwned {
    /// Heads of the columns.
    const HEADS: &'static [&'static str];

    /// The speeds, one for each head; none where the network has no such speed.
    fn rates(&self) -> Vec<Option<f64>>;
}

/// An error of a judge.
pub trait JudgeError: From<StoreError> + From<CompressError> + std::fmt::Display {
    /// Whether a repetition fails in the same way: false for errors of files and for cancellation.
    fn is_final(&self) -> bool;
}

impl JudgeError for CompressError {
    fn is_final(&self) -> bool {
        Self::is_final(self)
    }
}

/// Makes networks from candidates, and scores them on items that no fit has read.
pub trait Judge {
    /// The kind of network.
    type Network: Network;
    /// What can be made.
    type Way: Way;
    /// Counters of multiply-adds.
    type Costs: Costs;
    /// Speeds.
    type Speed: Speeds;
    /// What can go wrong.
    type Error: JudgeError;

    /// The original network.
    fn network(&self) -> &Self::Network;

    /// Parameters of the slots that are replaced, if they held dense weights.
    fn targeted(&self) -> u64;

    /// Bytes of a stored number.
    fn number_bytes(&self) -> u64;

    /// The network that a candidate makes at a share, or at the nearest that it can have, or at its
    /// own size. Validation examples are held out of its fits as `fit_to` says.
    ///
    /// # Errors
    /// If it makes none.
    fn make(
        &self,
        asked: &Asked<Self::Way>,
        fit_to: FitTo<'static>,
        monitor: &mut dyn Monitor,
    ) -> Result<Made<Self::Network>, Self::Error>;

    /// The network with the numbers of a file, if they differ from those in memory.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn stored(&self, _network: &Self::Network) -> Result<Option<Self::Network>, Self::Error> {
        Ok(None)
    }

    /// Scores on all held-out items, with those of single items as samples; the first metric of the
    /// first task ranks.
    ///
    /// # Errors
    /// For numbers that are not finite, and if cancelled.
    fn scores(
        &self,
        network: &Self::Network,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<TaskResult>, Self::Error>;

    /// Multiply-adds.
    ///
    /// # Errors
    /// If they are counted in a pass that fails.
    fn macs(&self, network: &Self::Network) -> Result<Self::Costs, Self::Error>;

    /// Memory in bytes with weights of this number of bytes, if it is counted.
    fn memory(&self, _network: &Self::Network, _weights: u64) -> Option<u64> {
        None
    }

    /// Speeds of networks that alternate, in their order.
    ///
    /// # Errors
    /// If a network cannot run, and if cancelled.
    fn speeds(
        &self,
        networks: &[&Self::Network],
        monitor: &dyn Monitor,
    ) -> Result<Vec<Self::Speed>, Self::Error>;
}

/// A network that a candidate made.
#[derive(Debug)]
pub struct Made<N> {
    /// The network.
    pub edited: Edited<N>,
    /// The share that was used, if the candidate cannot have the one that was asked for.
    pub nearest: Option<f64>,
    /// Bytes of its weights.
    pub bytes: u64,
    /// What else is to be reported.
    pub note: Option<String>,
}

impl<N: Network> Made<N> {
    /// Parameters before and after.
    #[must_use]
    pub fn parameters(&self, original: &N) -> ParameterCounts {
        parameter_counts(original, &self.edited)
    }
}

/// Parameters of the replaced slots and of the network, after and before.
#[must_use]
pub fn parameter_counts<N: Network>(original: &N, edited: &Edited<N>) -> ParameterCounts {
    // Refitted slots are not counted: they keep their size.
    let replaced = || edited.sites.iter().filter(|site| !site.heals);
    ParameterCounts {
        targeted: replaced().map(|site| site.parameters as u64).sum(),
        targeted_dense: replaced().map(|site| site.dense_parameters as u64).sum(),
        model: edited.network.parameters(),
        model_dense: original.dense_parameters(),
    }
}
