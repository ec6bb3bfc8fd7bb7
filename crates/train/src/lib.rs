//! The training loop of Linwright, and a full-batch minimiser.
//!
//! It operates on parameters with their gradients and a closure that computes a step; it knows
//! nothing of models, methods or tasks. Schedules, gradient clipping, selection by validation loss,
//! detection of divergence, checkpoints and resumption are implemented here and nowhere else.

mod checkpoint;
mod error;
mod lbfgs;
mod optimizer;
mod schedule;
mod training;

pub use checkpoint::Checkpoint;
pub use error::TrainError;
pub use lbfgs::{LbfgsSettings, Minimum, lbfgs};
pub use optimizer::{Optimizer, OptimizerKind, OptimizerSettings};
pub use schedule::{Plateau, Schedule};
pub use training::{
    Buffer, Control, Curve, CurvePoint, Gradient, Outcome, Problem, Progress, Rules, Slice,
    TrainSettings, is_in_step, train,
};
