//! Comparison of every method at every size on one model, in one run.
//!
//! A **cell** is one candidate at one share of the parameters: fits, tasks, costs and speed. The
//! dense model is scored in the same run, and every cell is compared with it on the same items.
//! Controls belong to it: random factors of the same size, and weights rounded to nearest in
//! blocks, at the bytes of the formats and at the bytes of the share. Finished cells are pieces, so
//! that a comparison resumes and shards are merged.

mod budget;
mod candidate;
mod cell;
mod quantised;
pub mod report;
mod run;
mod speed;
mod work;

pub use budget::{Tried, within_budget};
pub use candidate::{Candidate, Options};
pub use cell::{Cell, Compared, Dense, Figures, Found, ItemScores, Verdict};
pub use quantised::Rounding;
pub use run::{Asked, asked, compare};
pub use speed::Speed;
pub use work::{Made, Work};

/// How far above the share a model still counts as one of it.
const TOLERANCE: f64 = 0.005;
