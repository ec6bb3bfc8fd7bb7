//! The command built with downloads, columns and HDF5: what these features change.

mod data;
mod hdf5;
mod hub;
#[allow(dead_code, reason = "shared with the program that tests the rest")]
mod transcript;
#[allow(dead_code, reason = "shared with the program that tests the rest")]
mod workshop;
