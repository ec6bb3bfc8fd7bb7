//! TensorNet: Cartesian tensors of rank two for each atom and channel (arXiv 2306.06482), with the
//! weights of torchmd-net.

mod back;
mod batch;
mod charges;
mod config;
mod curve;
mod directed;
mod electrostatics;
#[cfg(test)]
mod extra;
#[cfg(test)]
mod golden;
mod graph;
mod heads;
mod initial;
mod linear;
mod model;
mod network;
mod norm;
mod number;
mod parts;
mod pass;
mod predictions;
#[cfg(test)]
mod properties;
mod radial;
#[cfg(test)]
mod slots;
#[cfg(test)]
mod tests;
pub(crate) mod weights;

pub use batch::Batch;
pub use config::{
    ChargeConfig, Family, Group, Nonlinearity, RadialKind, Reduction, TensorNetConfig,
};
pub use heads::Head;
pub use model::{BatchPrediction, Precision, TensorNetPotential};
pub use network::TensorNetState;
pub use predictions::Property;
pub(crate) use weights::of_slot;
pub use weights::{
    CHARGE, FILTER, HEAD, MIXING, NamedTensor, READOUT, SCALE, SPECIES, TensorNet, TensorUse,
};
