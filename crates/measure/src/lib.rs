//! Measurements on models, which never change them.
//!
//! [`capture`] records the inputs and outputs of linear layers on the windows of [`calibration`];
//! [`stats`] sums them; [`spectra`] analyses singular values; [`mod@inspect`] streams the tensors
//! of a checkpoint; [`vendi`] computes Vendi scores; [`timing`] times operators side by side.
//! Nothing here prints: progress is reported to the caller.

pub mod calibration;
pub mod capture;
pub mod inspect;
pub mod samples;
pub mod spectra;
pub mod stats;
pub mod timing;
pub mod vendi;
