//! Cuts of weights of a language model: grids of them, their sweeps and compositions, and what
//! variants of a model score.

pub mod compose;
pub mod grid;
pub mod report;
pub mod sweep;
mod variants;

pub use variants::{Variant, Variants};
