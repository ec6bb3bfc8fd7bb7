//! Linwright: a toolkit for the linear layers of neural networks, above all of language models.
//!
//! Load a checkpoint, look at its linear layers, capture what goes through them, replace them by
//! structured operators on one budget axis, evaluate before and after in the same run, and save a
//! model that other runtimes load.
//!
//! | crate | what |
//! | --- | --- |
//! | [`run`] | whole files, progress, journals, run directories, provenance |
//! | [`files`] | weight files of every format, the hub, without any model |
//! | [`tensor`] | views, kernels, decompositions, random keys |
//! | [`ops`] | structured operators, slots, probes |
//! | [`train`] | the training loop |
//! | [`model`] | decoders, tokenizers, checkpoints |
//! | [`measure`] | corpora, statistics, evaluation, reports |
//! | [`compress`] | capture, fits, edits, studies |

pub use linwright_bench as bench;
pub use linwright_compress as compress;
pub use linwright_data as data;
pub use linwright_evaluate as evaluate;
pub use linwright_files as files;
pub use linwright_measure as measure;
pub use linwright_model as model;
pub use linwright_ops as ops;
pub use linwright_report as report;
pub use linwright_run as run;
pub use linwright_tensor as tensor;
pub use linwright_train as train;

pub mod pocket;
