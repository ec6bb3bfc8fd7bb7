//! The one training loop of Linwright, and a minimiser for problems that fit in one batch.
//!
//! It sees parameters with their gradients and a closure that computes a step; it knows nothing of
//! models, methods or tasks. Schedules, clipping, best-on-validation, early detection of
//! divergence, checkpoints and resumption live here and nowhere else.

mod checkpoint;
mod error;
mod lbfgs;
mod optimizer;
mod run;
mod schedule;

pub use checkpoint::Checkpoint;
pub use error::TrainError;
pub use lbfgs::{LbfgsSettings, Minimum, lbfgs};
pub use optimizer::{Optimizer, OptimizerSettings};
pub use run::{
    Control, Curve, CurvePoint, Outcome, Problem, Progress, Slice, TrainSettings, train,
};
pub use schedule::Schedule;
