//! A counting allocator, for tests of memory bounds.
#![allow(unsafe_code, reason = "an allocator is inherently unsafe; it is isolated here")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes allocated by this thread, and the peak since the count began. Signed, since a thread
    /// may free memory of another one.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator with a count per thread: `#[global_allocator] static ALLOCATOR: Metered =
/// Metered;` in a test program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metered;

impl Metered {
    /// Runs `work` and returns its peak memory on this thread, beyond what was allocated before.
    /// Zero if the program uses another allocator.
    pub fn peak_bytes<R>(work: impl FnOnce() -> R) -> (R, usize) {
        let before = HELD.get().0;
        HELD.set((before, before));
        let result = work();
        (result, (HELD.get().1 - before).max(0).cast_unsigned())
    }
}

/// Records a change.
fn count(change: isize) {
    let counted = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = now.wrapping_add(change);
        held.set((now, most.max(now)));
    });
    // A thread that ends has no counter any more.
    let _ended = counted.is_err();
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor
// panics.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: `block` came from `System` by one of the calls here.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new block may coexist while the content moves.
        count(size.cast_signed());
        count(-layout.size().cast_signed());
        // SAFETY: `block` came from `System` by one of the calls here.
        unsafe { System.realloc(block, layout, size) }
    }
}
