//! Loops over numbers. Each kernel is a plain function on slices or views; the caller owns output
//! and workspace.

pub mod adam;
pub mod gemm;
