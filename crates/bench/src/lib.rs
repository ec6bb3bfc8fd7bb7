//! Speed and memory of operators, against the dense operator of the same shape in the same run; and
//! the speed of whole models, [`time_model`].
//!
//! A [`OperatorPlan`] names subjects (a specification each), shapes and passes. For each shape
//! every operator is built from the seed, its answer is compared with an oracle ([`Oracle`]), and
//! only then is it timed: rounds go through all operators and the dense one in turn, so that a busy
//! machine slows all of them, and what counts is the median of the rounds. Results are data,
//! [`OperatorBench`].
//!
//! | pass | what is timed |
//! | --- | --- |
//! | forward | rows of x to rows of y, without a tape |
//! | backward | gradients of the parameters and of x, given dy and the tape of a forward pass |
//! | training | forward, mean squared error, backward without dx (x is data), and Adam |
//! | inverse | rows of y to rows of x, whatever is derived from the parameters made anew |
//! | dense-inverse | the matrix of the inverse, with all that it is derived from made anew |
//! | log-det | the logarithm of the determinant, made anew as well |

mod candidate;
mod check;
pub mod convergence;
mod dtype;
mod error;
mod growth;
mod learner;
mod memory;
mod model;
mod product;
mod record;
pub mod report;
mod run;
#[cfg(test)]
mod scaling;
mod subject;

pub use check::{Checked, Oracle};
pub use dtype::Dtype;
pub use error::BenchError;
pub use growth::{Crossover, crossovers, to_csv};
pub use memory::forward_peak_bytes;
pub use model::{ModelBench, ModelPlan, time_model};
pub use product::{ProductCheck, check_product};
pub use record::{Entry, Machine, OperatorBench, PassTime, Skipped};
pub use run::{OperatorPlan, Pass, run};
pub use subject::{Subject, standard};
