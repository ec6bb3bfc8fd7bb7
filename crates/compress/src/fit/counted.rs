//! Multiply-adds that fits carried out, which tests hold estimates against: a count is the same on
//! a busy machine.

use std::cell::Cell;

thread_local! {
    static DONE: Cell<f64> = const { Cell::new(0.0) };
}

/// Counts multiply-adds of products of matrices and of operators forward and backward.
pub(super) fn add(multiply_adds: f64) {
    DONE.set(DONE.get() + multiply_adds);
}

/// What a fit on this thread counted.
pub(crate) fn by<R>(fit: impl FnOnce() -> R) -> (f64, R) {
    DONE.set(0.0);
    let found = fit();
    (DONE.get(), found)
}
