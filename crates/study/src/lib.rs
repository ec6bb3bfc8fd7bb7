//! Studies: recipes of methods on one network, language model, small network or potential, all of
//! whose cells are computed in one run directory, and the reports of what was found.

pub mod recipe;
pub mod report;
mod study;

pub use study::*;
