//! Comparison of every method at every size on one transformer, in one run.
//!
//! The comparison itself is that of any network (`linwright-compare`). Here are what it can make of
//! a transformer, with structured pruning and a recovery, and how tasks judge it.

mod budget;
mod candidate;
mod judge;
mod speed;
mod work;

pub use budget::within_budget;
pub use candidate::Candidate;
pub use linwright_compare::{Options, Rounding, Tried, asked, report};
pub use speed::Speed;
pub use work::Work;

use crate::search::counts::Counts;
use linwright_model::Transformer;

/// A row of a comparison.
pub type Row = linwright_compare::Row<Candidate>;
/// A candidate at a share, or at a size of its own.
pub type Asked = linwright_compare::Asked<Candidate>;
/// A comparison of methods on a transformer.
pub type Compared = linwright_compare::Compared<Counts, Speed>;
/// A transformer that a candidate made.
pub type Made = linwright_compare::Made<Transformer>;
