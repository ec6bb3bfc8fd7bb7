//! The integration tests of this crate, in one binary.

mod golden;
#[path = "golden/counts.rs"]
mod golden_counts;
mod golden_laser;
mod golden_pruner;
mod golden_search;
mod golden_sfsd;
mod search;
mod sweeps;
