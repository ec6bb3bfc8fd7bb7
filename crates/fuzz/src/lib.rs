//! Drives the readers of outside files with damaged input: `cargo xtask fuzz TARGET`.
//!
//! A **target** is a function from bytes to a **signature**: a short text that says which way the
//! input took, such as the variant of its error. Inputs are mutations of seeds in
//! `testdata/fuzz/<target>/`; one with a new signature becomes a seed itself, which is a cheap
//! stand-in for measured coverage. A run fails if the target panics, takes more than ten seconds,
//! or holds more memory at a time than 64 times its input and what its target may.
//!
//! A new target is a line in [`TARGETS`], and seeds. Its `tokens.txt`, if there is one, lists words
//! of the format, one a line, with the escapes of Rust strings.

mod engine;
mod mutate;
mod seeds;
mod signature;
mod targets;

pub use engine::{Bounds, Finding, Kind, Outcome, fuzz};
pub use seeds::{Seeds, repository_root};
pub use signature::signature;
pub use targets::{TARGETS, Target};

use linwright_tensor::Metered;

/// Counts what targets allocate.
#[global_allocator]
static ALLOCATOR: Metered = Metered;
