//! Ranks of MPI as a [`Team`](linwright_run::team::Team).
//!
//! Everything is behind the feature `mpi`, since it is built with the headers of an MPI and
//! libclang: `tools/mpi` installs those of Debian.

#[cfg(feature = "mpi")]
mod ranks;

#[cfg(feature = "mpi")]
pub use ranks::{MpiError, Ranks};
