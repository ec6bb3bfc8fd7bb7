//! Allocation by the loss of a language model.

mod judged;
mod loss;
mod sensitivity;

pub use judged::{Tried, judged};
pub use loss::{Measured, validation_loss};
pub use sensitivity::{Candidates, Sensitivity, SiteLoss, sensitivity};
