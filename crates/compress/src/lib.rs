//! Changing a model: capture, fit, apply, heal. No other crate changes models.
//!
//! A [`Method`] turns statistics or samples of a site into an operator, without access to the
//! model. The [`pipeline`] visits layers in the given order, captures the inputs of a site in the
//! *edited* model and its outputs in the *original* one, fits an operator, and puts it into its
//! slot.

mod budget;
mod error;
mod estimate;
pub mod fit;
pub mod intervention;
pub mod methods;
pub mod pipeline;
mod rates;
pub mod recipe;
pub mod report;
mod stored_fit;
pub mod study;
pub mod sweep_recipe;

pub use budget::{Budget, low_rank_for, operator_for};
pub use error::{CompressError, FitError};
pub use estimate::{Estimate, SiteEstimate, estimate};
pub use methods::{Fit, FitProblem, Method, MethodSpec};
pub use rates::Rates;
