//! Time and memory of operators relative to the dense operator of the same shape in the same run,
//! and times of whole models, [`time_model`].
//!
//! An [`OperatorPlan`] has subjects (one specification each), shapes and passes. For each shape,
//! every operator is built from the seed, its output is compared with an oracle ([`Oracle`]), and
//! only then it is timed: each round goes through all operators and the dense one, so that load of
//! the machine affects all of them; the median of the rounds is reported. Results are plain data,
//! [`OperatorBench`].
//!
//! | pass | timed |
//! | --- | --- |
//! | forward | rows of x to rows of y, without a tape |
//! | backward | gradients of the parameters and of x, from dy and the tape of a forward pass |
//! | training | forward, mean squared error, backward without dx (x is data), and Adam |
//! | inverse | rows of y to rows of x, including everything derived from the parameters |
//! | dense-inverse | the matrix of the inverse, including everything derived from the parameters |
//! | log-det | the logarithm of the determinant, likewise |

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
mod rounds;
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
pub use rounds::{OperatorPlan, Pass, run};
pub use subject::{Subject, standard};
