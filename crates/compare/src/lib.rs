//! Comparison of methods at every size on one network, in one run.
//!
//! A **cell** is one row at one share of the parameters, on one set of layers with one seed: fits,
//! scores, costs and speed. A row is a candidate, which may have a label and a size of its own. The
//! dense network is scored in the same run, and every cell is compared with it on the same items.
//! Controls belong to it: random factors of the same size, and weights rounded to nearest in
//! blocks, at the bytes of the formats and at the bytes of the share. Finished cells are pieces, so
//! that a comparison resumes and shards are merged.
//!
//! Of one set of layers with one seed, the report has a row for each share, and says which is best
//! ([`report`]). Of several, or of rows with sizes of their own, it has means over runs ([`Runs`]),
//! and differences of rows item by item.
//!
//! Nothing here knows a kind of network: a [`Judge`] makes and scores networks, [`Way`]s are what
//! it can make, and [`Slots`] makes those that replace single layers.

mod budget;
mod cell;
mod cells;
mod fits;
mod judge;
mod methods;
mod quantised;
pub mod report;
mod rows;
mod runs;
mod slots;

pub use budget::{HeldOut, Tried, within_budget};
pub use cell::{Cell, Compared, Dense, Figures, Found, ItemScores, Model, Pair, Verdict};
pub use cells::{ComparedOf, Comparison, Pieces, SPEED, compare};
pub use fits::{Fits, MacCounts, SiteFit, SiteSpeed};
pub use judge::{Costs, Judge, JudgeError, Made, Speeds, Way, parameter_counts};
pub use methods::{Options, SlotMethod};
pub use quantised::Rounding;
pub use rows::{Asked, Asking, DENSE, Place, Row, asked};
pub use runs::{Run, Runs, Summary};
pub use slots::{Slots, nearest, other_share, saving};

/// How far above the share a network still counts as one of it.
pub const TOLERANCE: f64 = 0.005;
