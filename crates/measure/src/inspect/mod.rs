//! Inspection of every tensor of a checkpoint, of any architecture and size, without building a
//! model.
//!
//! [`run`] reads the weight files once, in file order and in parts, and reports for each tensor the
//! statistics of its numbers, constant rows, and duplicates. Memory: one part. With
//! [`Options::spectra`], the singular values of every matrix are computed next
//! ([`crate::spectra`]), which takes the memory of one matrix in `f32` and two squares of its
//! smaller side in `f64`; small matrices are processed in parallel.
//!
//! NaN and infinite numbers are findings here, not errors.

mod contents;
mod duplicates;
mod error;
mod groups;
mod inspection;
mod names;
mod page;
mod record;
pub mod report;
mod source;
#[cfg(test)]
mod tests;

pub use error::InspectError;
pub use inspection::{Options, run, run_shard};
pub use linwright_ops::NameFilter;
pub use names::{layer_of, natural_order, pattern_of};
pub use record::{
    Duplicates, Group, Inspection, LayerTotals, RowCounts, SpectralMeans, TensorRecord, Totals,
    ValueStatistics, WeightFile,
};
