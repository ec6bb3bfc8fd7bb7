//! Counts the multiply-adds of fits, for tests of estimates: unlike times, counts do not depend on
//! the load of the machine.

use std::cell::Cell;

thread_local! {
    static DONE: Cell<f64> = const { Cell::new(0.0) };
}

/// Adds multiply-adds of matrix products and of forward and backward passes of operators.
pub(super) fn add(multiply_adds: f64) {
    DONE.set(DONE.get() + multiply_adds);
}

/// Runs a fit and returns its multiply-adds on this thread.
pub(crate) fn by<R>(fit: impl FnOnce() -> R) -> (f64, R) {
    DONE.set(0.0);
    let found = fit();
    (DONE.get(), found)
}
