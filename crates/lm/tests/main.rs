//! The integration tests of this crate, in one binary.

#[path = "../../compress/tests/golden/mod.rs"]
mod golden;
#[path = "golden/counts.rs"]
mod golden_counts;
mod golden_laser;
mod golden_pruner;
mod golden_search;
mod search;
mod sweeps;
