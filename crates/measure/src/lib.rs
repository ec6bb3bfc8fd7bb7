//! Looks at a model and never changes it: texts and questions, calibration statistics, evaluation
//! and reports.
//!
//! [`evaluate`] puts the requests of a task to a model and scores the replies; [`data`] reads the
//! texts and questions that tasks are made of; [`stats`] sums what goes through a site; [`report`]
//! holds what a run found and renders it; [`world`] makes the corpus of the built-in model. Nothing
//! here prints: progress goes to the caller's hooks.

pub mod bench;
pub mod data;
pub mod evaluate;
pub mod report;
pub mod stats;
pub mod world;
