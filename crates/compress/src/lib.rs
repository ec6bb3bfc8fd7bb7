//! Changing a network: capture, fit, apply, heal. No other crate changes one.
//!
//! Everything here is written against [`Network`](linwright_ops::Network), so it works on language
//! models, classifiers of images, flows and potentials alike.
//!
//! A [`Method`] turns statistics or samples of a site into an operator, without access to the
//! network. A [`Plan`] says which method and [`Size`] each site gets. The [`pipeline`] carries it
//! out in the order of computation: it captures the inputs of a site in the
//! *edited* model and its outputs in the *original* one, fits an operator, and puts it into its
//! slot. [`recover`](mod@recover) then trains the operators on the loss of the network, if that is
//! wanted.

pub mod allocate;
mod error;
pub mod estimate;
pub mod fit;
pub mod fit_to;
pub mod form;
pub mod intervention;
mod memory;
pub mod methods;
mod operator_size;
mod passes;
pub mod pipeline;
pub mod plan;
mod rates;
pub mod recover;
mod size;
pub mod stored_fit;
pub mod times;
#[cfg(test)]
mod tiny;

pub use error::{CompressError, FitError};
pub use estimate::{Estimate, SiteEstimate, estimate};
pub use fit_to::{FitTo, Ridges};
pub use memory::{FitMemory, memory};
pub use methods::{Fit, FitProblem, Method, MethodSpec};
pub use operator_size::{low_rank_for, operator_for};
pub use plan::{Edit, Plan, SlotSet};
pub use rates::Rates;
pub use size::{Size, SizeError, Unit};
pub use times::TIME;
