//! The command built with downloads and columns: what these features change.

mod data;
mod hub;
#[allow(dead_code, reason = "shared with the program that tests the rest")]
mod transcript;
#[allow(dead_code, reason = "shared with the program that tests the rest")]
mod workshop;
