//! The integration tests of this crate, in one binary.

mod files;
mod torch;
mod training;
