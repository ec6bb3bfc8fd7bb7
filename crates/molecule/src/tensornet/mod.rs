//! TensorNet: Cartesian tensors of rank two for each atom and channel (arXiv 2306.06482), with the
//! weights of torchmd-net.

mod config;
mod curve;
mod initial;
mod number;
mod parts;
pub(crate) mod weights;

pub use config::{
    ChargeConfig, Family, Group, Head, Nonlinearity, RadialKind, Reduction, TensorNetConfig,
};
pub use weights::{
    CHARGE, FILTER, HEAD, MIXING, NamedTensor, READOUT, SCALE, SPECIES, TensorNet, TensorUse,
};
