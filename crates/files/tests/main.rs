//! The integration tests of this crate, in one binary.

mod dump;
mod hub_cache;
mod pickles;
mod small;
