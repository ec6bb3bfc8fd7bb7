//! The integration tests of this crate, in one binary.

mod golden;
mod golden_sfsd;
