//! The integration tests of this crate, in one binary.

mod cases;
mod circulant_laws;
mod costs;
mod golden;
mod golden_cdflow;
mod golden_fits;
mod golden_rotor;
mod properties;
mod threads;
