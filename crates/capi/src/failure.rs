//! Failures: a number, and texts that are kept until the next failure of the same thread.
//!
//! C functions cannot return a text without allocating; the thread-local cell is the only state of
//! this crate that outlives a call.

use linwright::jobs::{Failure, FailureKind};
use linwright::run::shown_message;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Message and hint of a failure.
#[derive(Default)]
struct Texts {
    message: CString,
    hint: CString,
}

thread_local! {
    static LAST: RefCell<Texts> = RefCell::default();
}

/// Runs the work of a function: 0 for success, else the exit code, keeping the texts.
///
/// A panic is a defect, or a violated contract of the header; interrupted handles have no partially
/// written numbers that a later call would read.
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // Without it the process ends without a line on the file that became shorter, as before.
    #[cfg(unix)]
    drop(linwright::tensor::say_when_cut());
    let done = catch_unwind(AssertUnwindSafe(work));
    match done.unwrap_or_else(|panic| Err(of_panic(&*panic))) {
        Ok(()) => 0,
        Err(failure) => {
            keep(&failure);
            failure.kind() as i32
        }
    }
}

/// Runs work that returns a number, `otherwise` if it fails.
pub(crate) fn number<T>(otherwise: T, work: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut found = otherwise;
    guarded(|| {
        found = work()?;
        Ok(())
    });
    found
}

fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said = said.unwrap_or("no message");
    Failure::new(FailureKind::General, format!("a defect of linwright: {said}"))
        .hint("please report it with what led to it")
}

fn keep(failure: &Failure) {
    // Control characters including zero bytes are escaped in messages.
    let text = |text: &str| CString::new(shown_message(text)).unwrap_or_default();
    let message = text(failure.message());
    let hint = failure.advice().map(text).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = Texts { message, hint });
}

/// Message of the thread's last failure, empty if there was none.
#[allow(unsafe_code, reason = "exported C symbol")]
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub extern "C" fn linwright_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.message.as_ptr())
}

/// Hint for the thread's last failure, empty if there is none.
#[allow(unsafe_code, reason = "exported C symbol")]
// SAFETY: no other symbol begins with `linwright_`.
#[unsafe(no_mangle)]
pub extern "C" fn linwright_last_hint() -> *const c_char {
    LAST.with_borrow(|last| last.hint.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[allow(unsafe_code, reason = "texts are read as C does")]
    fn texts() -> [String; 2] {
        [linwright_last_error(), linwright_last_hint()].map(|text| {
            // SAFETY: both are texts with an end, and no failure happens before they are copied.
            unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
        })
    }

    #[test]
    fn a_panic_is_a_failure_with_its_text() {
        assert_eq!(guarded(|| panic!("rows {}", 3)), 1);
        let [message, hint] = texts();
        assert_eq!(message, "a defect of linwright: rows 3");
        assert!(hint.starts_with("please report"));
        assert_eq!(guarded(|| Err(Failure::usage("no\0path"))), 2);
        assert_eq!(
            texts(),
            ["no\\0path".to_owned(), String::new()].map(|t| t.replace("\\0", "\\u{0}"))
        );
    }

    #[test]
    fn success_keeps_the_last_texts_and_threads_have_their_own() {
        assert_eq!(guarded(|| Err(Failure::new(FailureKind::Resources, "full").hint("less"))), 5);
        assert_eq!(guarded(|| Ok(())), 0);
        assert_eq!(texts(), ["full", "less"]);
        assert_eq!(std::thread::spawn(texts).join().unwrap(), ["", ""]);
        assert_eq!(number(7, || Err(Failure::usage("none"))), 7);
        assert_eq!(number(7, || Ok(8)), 8);
    }
}
