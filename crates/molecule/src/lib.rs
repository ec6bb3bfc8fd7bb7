//! Molecular potentials of irreducible Cartesian tensors (TensorNet, arXiv 2306.06482): energies,
//! forces, stress, training and dynamics.
//!
//! A [`Structure`] holds atoms, [`Neighbours`] their pairs within a cutoff, and a [`Potential`] says
//! what energy and forces they have. Dynamics, relaxation and evaluation know only the trait.

pub mod dynamics;
mod error;
mod neighbours;
mod potential;
pub mod relaxation;
mod structure;
#[cfg(test)]
mod toy;

pub use error::MoleculeError;
pub use neighbours::{Neighbour, Neighbours, Pair};
pub use potential::{Potential, Prediction, Wanted};
pub use structure::{Cell, Labels, Structure};
