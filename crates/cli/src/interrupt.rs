//! Ctrl-C and SIGTERM: the first asks the work to stop at the next occasion, the second ends it.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Listens to the signals.
#[expect(
    clippy::disallowed_methods,
    reason = "who asks twice wants the end now; work left so is continued or replaced"
)]
pub(crate) fn install() {
    let handler = || {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!("stopping after this step; once more to stop at once");
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("note: Ctrl-C will stop at once, since no handler could be set: {error}");
    }
}

/// Whether the user asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
