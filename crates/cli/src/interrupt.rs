//! Signals: the first Ctrl-C or SIGTERM asks the command to stop at the next safe point, the second
//! kills it; exceeding a file-size limit becomes an ordinary write error; a mapped file that
//! becomes shorter ends the command with a message.

use crate::failure::{Failure, report};
use linwright::run::atomic;
use linwright::tensor::when_cut;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the signal handlers; `as_json` is about messages. A command that never checks for
/// interruption keeps the default behaviour of Ctrl-C and SIGTERM, which end it at once.
///
/// # Errors
/// If the system refuses a handler.
pub(crate) fn install(asks: bool, as_json: bool) -> std::io::Result<()> {
    // With any handler installed, a write beyond the limit fails with EFBIG.
    flag::register(SIGXFSZ, Arc::default())?;
    when_cut(move |path| ended_by(path.as_deref(), as_json))?;
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

/// Ends the command after a read of mapped bytes that the file no longer has.
fn ended_by(path: Option<&Path>, as_json: bool) -> ! {
    // Nothing is unwound: the thread that read is stopped.
    atomic::abandon();
    let failure = match path {
        Some(path) => {
            Failure::general(format!("{} became shorter while it was read", path.display()))
                .hint("run the command again when nothing writes to it, or on a copy")
        }
        None => Failure::general("memory cannot be read (SIGBUS)")
            .hint("a file that became shorter while it was read, or a fault of memory or disk"),
    };
    report(&failure, as_json);
    signal_hook::low_level::exit(failure.kind() as i32)
}

/// Whether the user interrupted the command.
pub(crate) fn is_requested() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::SeqCst))
}
