//! Comparison of methods at every size on one network, in one run.
//!
//! A **cell** is one candidate at one share of the parameters: fits, scores, costs and speed. The
//! dense network is scored in the same run, and every cell is compared with it on the same items.
//! Controls belong to it: random factors of the same size, and weights rounded to nearest in
//! blocks, at the bytes of the formats and at the bytes of the share. Finished cells are pieces, so
//! that a comparison resumes and shards are merged.
//!
//! Nothing here knows a kind of network: a [`Judge`] makes and scores networks, [`Way`]s are what
//! it can make, and [`Slots`] makes those that replace single layers.

mod budget;
mod cell;
mod cells;
mod judge;
mod methods;
mod quantised;
pub mod report;
mod slots;

pub use budget::{HeldOut, Tried, within_budget};
pub use cell::{Cell, Compared, Dense, Figures, Found, ItemScores, Model, Verdict};
pub use cells::{Asked, ComparedOf, Pieces, asked, compare};
pub use judge::{Costs, Judge, JudgeError, Made, Speeds, Way};
pub use methods::{Options, SlotMethod};
pub use quantised::Rounding;
pub use slots::{Slots, nearest, other_share, saving};

/// How far above the share a network still counts as one of it.
pub const TOLERANCE: f64 = 0.005;
