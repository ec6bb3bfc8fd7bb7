//! Looks at a model and never changes it: texts and questions, calibration statistics, evaluation
//! and reports.
//!
//! [`evaluate`] puts the requests of a task to a model and scores the replies; [`data`] reads the
//! texts and questions that tasks are made of; [`stats`] sums what goes through a site; [`report`]
//! holds what a run found and renders it; [`mod@bench`] times operators; [`convergence`] compares
//! the paper's power iteration with the exact planes of a rotor; [`world`] makes the corpus of the
//! built-in model. Nothing here prints: progress goes to the caller's hooks.

pub mod bench;
pub mod convergence;
pub mod data;
pub mod evaluate;
pub mod inspect;
mod learner;
pub mod report;
pub mod spectra;
pub mod stats;
pub mod vendi;
pub mod world;
