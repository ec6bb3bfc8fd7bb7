//! Signals: the first Ctrl-C or SIGTERM asks the work to stop at the next occasion, the second ends
//! it; a file-size limit becomes an ordinary error of writing.

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Listens to the signals. A command that never asks whether it should stop leaves Ctrl-C and
/// SIGTERM as they are: they end it at once.
///
/// # Errors
/// If the system refuses a handler.
pub(crate) fn install(asks: bool) -> std::io::Result<()> {
    // With a handler of any kind in place, a write beyond the limit fails with EFBIG.
    flag::register(SIGXFSZ, Arc::default())?;
    if !asks {
        return Ok(());
    }
    let asked = Arc::clone(ASKED.get_or_init(Arc::default));
    for signal in [SIGINT, SIGTERM] {
        // In this order a first signal only sets the flag, and a second one finds it set.
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
        flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(())
}

/// Whether the user asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::SeqCst))
}
