//! Parallel loops over work items whose boundaries do not depend on the number of threads, so that
//! one seed gives the same bits on one core and on sixty-four.

use crate::kernels::instructions::Instructions;
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Rows per work item of row-wise kernels.
pub const ROW_BLOCK: usize = 64;

/// Most threads, however they are asked for.
pub const MAX_THREADS: usize = 1024;

/// Numbers per work item of elementwise kernels.
const PIECE: usize = 1 << 15;

/// Rows of such a work item.
pub(crate) fn rows_of_piece(cols: usize) -> usize {
    (PIECE / cols.max(1)).max(1)
}

/// Sets the number of threads for all kernels; `0` means all cores. Only the first call counts.
///
/// # Errors
/// If the pool was already started with another size.
pub fn set_threads(threads: usize) -> Result<(), rayon::ThreadPoolBuildError> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()
}

/// Number of threads of the kernels.
#[must_use]
pub fn threads() -> usize {
    rayon::current_num_threads()
}

/// Runs `work` with `threads` threads for its kernels, whatever the global setting.
///
/// # Errors
/// If the threads cannot be started.
pub fn with_threads<R: Send>(
    threads: usize,
    work: impl FnOnce() -> R + Send,
) -> Result<R, rayon::ThreadPoolBuildError> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?.install(work))
}

/// Runs `work` on every item, in parallel and unordered.
pub fn for_each<I: Send>(items: Vec<I>, work: impl Fn(usize, I) + Sync + Send) {
    if threads() == 1 || items.len() < 2 {
        items.into_iter().enumerate().for_each(|(index, item)| work(index, item));
    } else {
        let items: Vec<Place<I>> = items.into_iter().map(Place::of).collect();
        run(items.len(), &|index| {
            if let Some(item) = items[index].take() {
                work(index, item);
            }
        });
    }
}

/// Maps every item in parallel; results come in the order of the items.
pub fn map<I: Send, O: Send>(items: Vec<I>, work: impl Fn(usize, I) -> O + Sync + Send) -> Vec<O> {
    let results: Vec<Place<O>> = items.iter().map(|_| Place(Mutex::new(None))).collect();
    for_each(items, |index, item| results[index].put(work(index, item)));
    // All slots are full: a panicking work item does not get here.
    results.into_iter().filter_map(|place| place.take()).collect()
}

/// Slot for the input or output of a work item.
struct Place<T>(Mutex<Option<T>>);

impl<T> Place<T> {
    fn of(item: T) -> Self {
        Self(Mutex::new(Some(item)))
    }

    fn put(&self, item: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(item);
    }

    fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Runs `work` on every index below `count`, in parallel. Generic code is compiled for every caller
/// in every crate, and the thread pool library is large: only this function uses it.
fn run(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().with_max_len(1).for_each(work);
}

/// Runs both, in parallel if a thread is free.
pub fn join<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    rayon::join(first, second)
}

/// Runs `work(block_index, chunk)` over consecutive chunks of `len` numbers.
pub fn for_each_chunk<T: Send>(
    data: &mut [T],
    len: usize,
    work: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    for_each(data.chunks_mut(len.max(1)).collect(), |index, chunk| {
        work(index, chunk);
    });
}

/// The vector instructions of this machine, by their processor names, that our kernels or the
/// libraries may use.
#[must_use]
pub fn instructions_found() -> Vec<&'static str> {
    crate::kernels::instructions::found()
}

/// The instruction set of the kernels on this machine. Bits may differ between sets.
#[must_use]
pub fn instruction_set() -> &'static str {
    Instructions::here().name()
}
