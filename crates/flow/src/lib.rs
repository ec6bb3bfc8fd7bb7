//! Normalizing flows: densities, samples and training, with layers that are invertible by
//! construction.
//!
//! A [`FlowSpec`] describes a flow: levels of steps, each a normalisation, an invertible mix of the
//! channels and a coupling (Kingma and Dhariwal 2018, Glow). A [`MixSpec`] selects the mix:
//! products of diagonal and circulant matrices (CDFlow), or alternatives with the same interface. A
//! [`Flow`] computes densities, latents, samples and explicit gradients; the backward pass inverts
//! one step after another, so memory does not grow with depth.

mod act_norm;
mod coupling;
mod error;
mod examples;
mod files;
mod flow;
mod gaussian;
#[cfg(test)]
mod golden;
mod matching;
mod mixers;
mod mixing;
mod picture;
mod prior;
mod sample;
mod score;
mod spec;
mod squeeze;
#[cfg(test)]
mod tests;
mod toys;
mod training;

pub use error::FlowError;
pub use examples::FlowExamples;
pub use files::{MODEL_TYPE, OpenedFlow, SavedFlow};
pub use flow::{Encoded, Flow};
pub use matching::{VelocitySpec, velocity_examples, velocity_nll, velocity_samples};
pub use mixers::{MIX_KINDS, MixKind, MixSpec};
pub use mixing::{MOST_FORMED, MixNorms, Mixing};
pub use picture::{SOFTWARE, picture};
pub use sample::Samples;
pub use score::{FlowScores, score_flow};
pub use spec::{Extent, FlowSpec, SqueezeOrder, Values};
pub use toys::Toy;
pub use training::{FlowPlan, FlowTraining, check_extent};
