//! Measurements on networks, which never change them.
//!
//! [`capture`] records the inputs and outputs of the slots of any
//! [`Network`](linwright_ops::Network) on its examples; [`stats`] sums them; [`spectra`] analyses
//! singular values; [`mod@inspect`] streams the tensors of a checkpoint; [`vendi`] computes Vendi
//! scores; [`timing`] times operators side by side. Nothing here prints: progress is reported to
//! the caller.

pub mod capture;
pub mod inspect;
pub mod samples;
pub mod spectra;
pub mod stats;
pub mod timing;
pub mod vendi;
