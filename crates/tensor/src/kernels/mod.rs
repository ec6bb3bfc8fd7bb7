//! Loops over numbers. Each kernel is a plain function on slices or views; the caller owns output
//! and workspace.

pub mod activation;
pub mod adam;
pub mod attention;
pub mod branch;
pub mod butterfly;
pub mod circulant;
pub mod cross_entropy;
pub mod diagonal;
pub mod elementwise;
pub mod fingerprint;
pub mod gemm;
pub mod hadamard;
pub(crate) mod instructions;
mod lanes;
pub(crate) mod registers;
pub mod rms_norm;
pub mod rope;
pub mod spin;
pub mod statistics;
pub mod swiglu;
pub mod transpose;
