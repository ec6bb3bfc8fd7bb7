//! Linwright in C: potentials and operators for programs in any language that calls C.
//!
//! `include/linwright.h` is the interface and its documentation; a test compares its declarations
//! with the functions here. Each function checks its pointers, calls the facade and returns 0 or
//! the exit code of the command; `linwright_last_error` returns the message. A panic is caught at
//! the boundary and reported as a failure.
//!
//! The caller must guarantee what cannot be checked, and the unsafe code relies on it: a non-null
//! pointer points to as many numbers as stated in the header, and a handle comes from its function,
//! is used by one thread at a time, and is freed once.

mod failure;
mod operator;
mod pointers;
mod potential;

pub use failure::{linwright_last_error, linwright_last_hint};
pub use operator::{
    LinwrightOperator, linwright_operator_backward_f32, linwright_operator_backward_f64,
    linwright_operator_bits, linwright_operator_forward_f32, linwright_operator_forward_f64,
    linwright_operator_free, linwright_operator_inputs, linwright_operator_open,
    linwright_operator_outputs,
};
pub use potential::{
    LinwrightPotential, linwright_potential_compute, linwright_potential_cutoff,
    linwright_potential_deviation, linwright_potential_free, linwright_potential_keep_pairs,
    linwright_potential_open, linwright_potential_open_ensemble, linwright_potential_set_cell,
    linwright_potential_set_charge, linwright_potential_set_positions,
    linwright_potential_set_species,
};

use failure::guarded;
use linwright::jobs::{Failure, message_of};
use linwright::tensor::parallel::{self, MAX_THREADS};
use std::ffi::{CStr, c_char};

/// The version, with a terminating zero.
const VERSION: &str = concat!(env!("LINWRIGHT_VERSION"), "\0");

/// The version, such as `0.1.0 (abc1234 2026-11-23)`.
#[allow(unsafe_code, reason = "exported C symbol")]
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub extern "C" fn linwright_version() -> *const c_char {
    CStr::from_bytes_until_nul(VERSION.as_bytes()).unwrap_or_default().as_ptr()
}

/// Sets the number of threads of all later work; 0 means all cores.
#[allow(unsafe_code, reason = "exported C symbol")]
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub extern "C" fn linwright_set_threads(threads: usize) -> i32 {
    guarded(|| {
        if threads > MAX_THREADS {
            return Err(Failure::usage(format!(
                "{threads} threads: expected a whole number from 0 to {MAX_THREADS}"
            )));
        }
        parallel::set_threads(threads).map_err(|error| {
            Failure::general(format!("cannot start {threads} threads: {}", message_of(&error)))
        })
    })
}
