//! Looks at a model and never changes it.
//!
//! [`capture`] records what goes through linear layers, on the windows of [`calibration`];
//! [`stats`] sums it; [`spectra`] says what singular values mean; [`mod@inspect`] streams the
//! tensors of a checkpoint; [`vendi`] scores diversity; [`timing`] times operators side by side.
//! Nothing here prints: progress goes to the caller.

pub mod calibration;
pub mod capture;
pub mod inspect;
pub mod samples;
pub mod spectra;
pub mod stats;
pub mod timing;
pub mod vendi;
