//! Fuzzing of the readers of external files: `cargo xtask fuzz TARGET`.
//!
//! A **target** is a function from bytes to a **signature**: a short text for the path that the
//! input took, such as the variant of its error. Inputs are mutations of seeds in
//! `testdata/fuzz/<target>/`; an input with a new signature becomes a seed, as a cheap proxy for
//! coverage. A run fails if the target panics, takes more than ten seconds, or allocates more than
//! 64 times its input plus the target's allowance at a time.
//!
//! A new target is a line in [`TARGETS`], and seeds. Its optional `tokens.txt` lists words of the
//! format, one per line, with the escapes of Rust strings.

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

/// Counts the allocations of targets.
#[global_allocator]
static ALLOCATOR: Metered = Metered;
