//! Kernels: loops over numbers. Each is a plain function on slices or views; the caller owns output
//! and workspace.

pub mod activation;
pub mod adam;
pub mod attention;
pub mod batch_norm;
pub mod branch;
pub mod butterfly;
pub mod channels;
pub mod circulant;
pub mod cross_entropy;
mod curves;
pub mod diagonal;
pub mod elementwise;
pub mod exact_sum;
pub mod feed_forward;
pub mod fingerprint;
mod functions;
pub mod gemm;
pub mod hadamard;
pub(crate) mod instructions;
pub mod irreps;
mod lanes;
pub mod norm;
pub mod patches;
pub mod pooling;
pub mod product_entries;
pub(crate) mod reflections;
pub(crate) mod registers;
pub mod rope;
pub mod select;
pub mod softmax_attention;
pub mod sparse_signs;
pub mod spin;
pub mod statistics;
pub mod transpose;
pub mod wide_products;
pub(crate) mod widen;
