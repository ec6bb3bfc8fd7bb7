//! Looks at every tensor of a checkpoint, of any architecture and size, without building a model.
//!
//! [`run`] reads the weight files once, in the order in which they lie on disk and in pieces, and
//! tells of each tensor what its numbers are like, which rows are constant and which tensors are
//! the same. Memory is a piece. With [`Options::spectra`], every matrix then gets its singular
//! values ([`crate::spectra`]), which takes the memory of one matrix in `f32` and of two squares of
//! its smaller side in `f64`; small matrices are taken several at a time.
//!
//! Numbers that are NaN or infinite are a finding here, not an error.

mod contents;
mod duplicates;
mod error;
mod filter;
mod groups;
mod names;
mod page;
mod record;
pub mod report;
mod run;
mod source;
#[cfg(test)]
mod tests;

pub use error::InspectError;
pub use filter::NameFilter;
pub use names::{layer_of, natural_order, pattern_of};
pub use record::{
    Duplicates, Group, GroupFigures, Inspection, LayerTotals, RowCounts, SCHEMA, TensorRecord,
    Totals, ValueFigures, WeightFile,
};
pub use run::{Options, run};
