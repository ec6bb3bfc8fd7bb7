//! Molecular potentials of irreducible Cartesian tensors (TensorNet, arXiv 2306.06482): energies,
//! forces, stress, training and dynamics.
//!
//! A [`Structure`] holds atoms, [`Neighbours`] their pairs within a cutoff, and a [`Potential`]
//! computes energy and forces. Dynamics, relaxation and evaluation only use the trait.

mod arrays;
mod batches;
mod checkpoint;
mod converted;
mod declared;
pub mod dynamics;
mod ensemble;
mod error;
mod evaluation;
mod fast;
#[cfg(feature = "hdf5")]
mod hdf5;
mod model;
mod motion;
mod neighbours;
mod npz;
mod potential;
mod priors;
#[cfg(test)]
mod reference;
pub mod relaxation;
pub mod report;
mod species;
mod speed;
mod structure;
pub mod tensornet;
#[cfg(test)]
mod toy;
pub mod training;
mod units;
mod vectors;
mod xyz;

pub use batches::{EachErrors, StructureBatches};
pub use checkpoint::{
    Checkpoint, Numbers, Settings, Weight, file_sha256, parse_settings, read_settings,
};
pub use converted::ConvertedPotential;
pub use ensemble::Ensemble;
pub use error::MoleculeError;
pub use evaluation::{ErrorPair, PredictionErrors, stress};
pub use fast::{FastOptions, FastTensorNet};
#[cfg(feature = "hdf5")]
pub use hdf5::{HdfStructures, read_hdf5};
pub use model::MoleculeModel;
pub use neighbours::{Cutoff, Neighbour, Neighbours, Pair, SkinList};
pub use npz::{parse_npz, read_npz};
pub use potential::{Deviation, Potential, Prediction, Wanted};
pub use priors::{Prior, PriorChoices, PriorInfo};
pub use species::{atomic_number, mass, shown_species, symbol};
pub use speed::KernelRates;
pub use structure::{Cell, Column, Labels, Structure};
pub use units::{Energy, Length, Units};
pub use xyz::{
    LabelKeys, XyzColumn, XyzReader, XyzWriter, parse_numbers, read_xyz, write_xyz, xyz_numbers,
};
