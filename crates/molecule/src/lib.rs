//! Molecular potentials of irreducible Cartesian tensors (TensorNet, arXiv 2306.06482): energies,
//! forces, stress, training and dynamics.
//!
//! A [`Structure`] holds atoms, [`Neighbours`] their pairs within a cutoff, and a [`Potential`] says
//! what energy and forces they have. Dynamics, relaxation and evaluation know only the trait.

mod error;
mod neighbours;
mod potential;
mod structure;
pub mod tensornet;

pub use error::MoleculeError;
pub use neighbours::{Neighbour, Neighbours, Pair};
pub use potential::{Potential, Prediction, Wanted};
pub use structure::{Cell, Labels, Structure};
