//! Numbers for Linwright: row-major views, kernels with naive twins, dense decompositions,
//! counter-based random numbers and read-only file maps.
//!
//! This is the only crate with an external numeric library, and apart from the C interface the only
//! one with `unsafe` code; it does not know what a layer is. A **kernel** is a plain function on
//! slices or views: the caller owns output and workspace, the result does not depend on the number
//! of threads, and each fast kernel has a naive twin in its tests as oracle.

pub mod correlation;
mod counted;
#[cfg(unix)]
mod cut_files;
pub mod dtype;
mod halves;
pub mod kernels;
pub mod linalg;
mod mapped_file;
mod mat;
mod metered;
mod numbers;
pub mod parallel;
pub mod quantised;
mod rng;
mod scalar;
pub mod scratch;

pub use counted::Counted;
#[cfg(unix)]
pub use cut_files::{say_when_cut, when_cut};
pub use dtype::{floats, index_bytes, little_endian_bytes};
pub use halves::{HalfType, Halves};
pub use mapped_file::MappedFile;
pub use mat::{Mat, MatMut, MatRef};
pub use metered::Metered;
pub use numbers::{Mapped, Shelf};
pub use quantised::Quantised;
pub use rng::{RngKey, RngStream};
pub use scalar::Scalar;
pub use scratch::Scratch;
