//! Changing a model: capture, fit, apply, heal. The only crate that does.
//!
//! A [`Method`] turns statistics or samples of a site into an operator and never sees a model. The
//! [`pipeline`] walks over layers in the order given, captures what the *edited* model feeds a site
//! and what the *original* model made of it, fits, and puts the operator into its slot.

mod budget;
mod error;
mod estimate;
pub mod fit;
pub mod fit_store;
pub mod intervention;
pub mod methods;
pub mod pipeline;
mod rates;
pub mod recipe;
pub mod report;
pub mod study;
pub mod sweep_recipe;

pub use budget::{Budget, low_rank_for, operator_for};
pub use error::{CompressError, FitError};
pub use estimate::{Estimate, SiteEstimate, estimate};
pub use methods::{Fit, FitProblem, Method, MethodSpec};
pub use rates::Rates;
