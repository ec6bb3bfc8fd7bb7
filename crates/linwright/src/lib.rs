//! Linwright: a toolkit for the linear layers of neural networks, above all language models.
//!
//! Load a checkpoint, inspect its linear layers, capture their activations, replace them by
//! structured operators of comparable sizes, evaluate before and after in the same run, and save a
//! model that other runtimes load.
//!
//! ```
//! use linwright::report::{Block, Document, Table, terminal};
//! use linwright::tensor::linalg::singular_values;
//! use linwright::tensor::{Mat, RngKey};
//!
//! // A linear layer with 96 inputs and 64 outputs, and its spectrum.
//! let weight = Mat::from_vec(64, 96, RngKey::new(0).stream().normals(64 * 96, 1.0));
//! let spectrum = singular_values(weight.view())?;
//! assert_eq!(spectrum.len(), 64);
//! // What its largest half of the spectrum holds, as a table.
//! let power = |values: &[f64]| values.iter().map(|s| s * s).sum::<f64>();
//! let share = power(&spectrum[..32]) / power(&spectrum);
//! let table = Table::new("Power", [("rank", true), ("share", true)])
//!     .with([vec!["32".to_owned(), format!("{share:.2}")]]);
//! let blocks = vec![Block::Table(table)];
//! let report = Document { title: "One layer".into(), blocks, ..Document::default() };
//! assert!(terminal::render(&report).contains("rank  share"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Examples from loading to sweeps are in `crates/cli/examples`, 01 to 07.
//!
//! | crate | what |
//! | --- | --- |
//! | [`run`] | atomic files, progress, journals, run directories, provenance |
//! | [`report`] | blocks of a report, and their renderers |
//! | [`tensor`] | views, kernels, decompositions, random keys |
//! | [`files`] | files of weights, the hub's cache |
//! | [`data`] | texts, questions, tables, data sets by name |
//! | [`ops`] | structured operators, slots, probes |
//! | [`train`] | the training loop |
//! | [`flow`] | normalizing flows |
//! | [`model`] | transformers, tokenizers, checkpoints |
//! | [`evaluate`] | tasks, comparisons |
//! | [`measure`] | capture, statistics, spectra, inspection |
//! | [`collapse`] | neural collapse: metrics, optima |
//! | [`compress`] | fits, edits, plans, recovery |
//! | [`compare`] | comparisons of methods on any network |
//! | [`lm`] | pruning, cuts, searches, comparisons of transformers |
//! | [`trial`] | networks on images and potentials, as trials of comparisons |
//! | [`mod@bench`] | speed and memory of operators |

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "arms on values of JSON and on errors that are passed on"
)]

pub use linwright_attribute as attribute;
pub use linwright_bench as bench;
pub use linwright_collapse as collapse;
pub use linwright_compare as compare;
pub use linwright_compress as compress;
pub use linwright_data as data;
pub use linwright_evaluate as evaluate;
pub use linwright_files as files;
pub use linwright_flow as flow;
pub use linwright_lm as lm;
pub use linwright_measure as measure;
pub use linwright_model as model;
pub use linwright_molecule as molecule;
pub use linwright_nets as nets;
pub use linwright_ops as ops;
pub use linwright_report as report;
pub use linwright_run as run;
pub use linwright_tensor as tensor;
pub use linwright_train as train;
pub use linwright_trial as trial;

pub mod jobs;
mod new_model;
pub mod operators;
pub mod pocket;
pub mod recipes;
