//! Reference networks of depth L, and experiments over depths, strengths and seeds.
//!
//! Deep regularised ResNets and transformers with LayerNorm approach the optimum of
//! [`crate::optimum::Gufm`] as they get deeper (Sukenik, Lampert and Mondelli 2025,
//! arXiv:2505.15239, without public code). [`RefNet`] implements their two families, [`trained`]
//! trains one, [`experiment`] measures how collapse depends on depth.
//!
//! Deviations: the input embedding is given and fixed; all parameters including biases, queries and
//! keys are penalised, which [`Penalty`] can change.

mod data;
mod experiment;
mod net;
#[cfg(test)]
mod tests;
mod train;

pub use data::{DepthData, DepthSizes};
pub use experiment::{
    DepthOutcome, DepthPlan, DepthResult, DepthRow, Slope, StrengthRule, Surroundings, experiment,
};
pub use net::{Architecture, Norming, Objective, Penalty, RefNet, RefNetSpec};
pub use train::{Trained, TrainingOptions, trained};
