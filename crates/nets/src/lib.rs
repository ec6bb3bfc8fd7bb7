//! Small networks made of slots, from a plain description, with explicit gradients.

mod build;
mod error;
mod layers;
mod net;
mod spec;
mod step;
#[cfg(test)]
mod tests;

pub use error::NetError;
pub use net::{Batch, Net, NetState, Passed};
pub use spec::{Extent, InputSpec, LayerSpec, NetSpec};
pub use step::{NetTensor, TensorUse};
