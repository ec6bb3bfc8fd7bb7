//! Small networks made of slots, from a plain description, with explicit gradients.
//!
//! A [`NetSpec`] lists layers; a [`Net`] has their numbers. [`Net::open`] and [`Net::save`] read
//! and write directories, [`NetTraining`] is a problem of the training loop, and [`score`] measures
//! a network on [`Labelled`] examples.

mod affine;
mod build;
mod chain;
mod error;
mod extent;
mod files;
mod images;
mod labelled;
pub mod layers;
mod net;
mod network;
mod score;
mod source;
mod spec;
mod step;
#[cfg(test)]
mod tests;
mod training;

pub use error::NetError;
pub use extent::Extent;
pub use files::{MODEL_TYPE, OpenedNet, SavedNet};
pub use images::{LabelledImagesError, labelled, open_images};
pub use labelled::{Labelled, LabelledBatches, Targets};
pub use layers::LayerSpec;
pub use net::{Batch, Net, NetState, Passed};
pub use score::{ExampleScores, Mean, Scores, score, score_each};
pub use spec::{InputSpec, NetSpec};
pub use step::{NetTensor, TensorUse};
pub use training::{Loss, NetTraining, TrainingPlan};
