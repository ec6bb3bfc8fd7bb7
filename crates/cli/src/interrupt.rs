//! Signals: the first Ctrl-C or SIGTERM asks the command to stop at the next safe point, the second
//! kills it; exceeding a file-size limit becomes an ordinary write error.

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the signal handlers. A command that never checks for interruption keeps the default
/// behaviour of Ctrl-C and SIGTERM, which end it at once.
///
/// # Errors
/// If the system refuses a handler.
pub(crate) fn install(asks: bool) -> std::io::Result<()> {
    // With any handler installed, a write beyond the limit fails with EFBIG.
    flag::register(SIGXFSZ, Arc::default())?;
    if !asks {
        return Ok(());
    }
    let asked = Arc::clone(ASKED.get_or_init(Arc::default));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal only sets the flag, the second one finds it set.
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
        flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(())
}

/// Whether the user interrupted the command.
pub(crate) fn is_requested() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::SeqCst))
}
