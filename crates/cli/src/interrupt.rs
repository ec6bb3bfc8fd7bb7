//! Signals: the first Ctrl-C or SIGTERM asks the command to stop at the next safe point, the second
//! kills it; exceeding a file-size limit becomes an ordinary write error; a mapped file that
//! becomes shorter ends the command with a message.
//!
//! A command that does not ask in time whether to stop is ended: nothing that it leaves is worse
//! than after the second signal, or after a loss of power.

use crate::console::write_stderr;
use crate::failure::{Failure, report};
use linwright::run::atomic;
use linwright::run::store::is_work_held;
use linwright::tensor::when_cut;
use linwright::train::is_in_step;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

/// Time in which a command has to ask whether to stop.
const PATIENCE: Duration = Duration::from_millis(1500);
/// As much in a step of training, after which a checkpoint is written.
const PATIENCE_OF_STEPS: Duration = Duration::from_secs(20);
/// Between two looks at whether the command asked.
const GLANCE: Duration = Duration::from_millis(20);

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// Whether the command was told to stop.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Installs the signal handlers; `as_json` is about messages. A command that never checks for
/// interruption keeps the default behaviour of Ctrl-C and SIGTERM, which end it at once.
///
/// # Errors
/// If the system refuses a handler or a thread.
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
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        if signals.forever().next().is_some() {
            end_unless_told(as_json);
        }
    };
    Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// Ends the process if the command does not ask in time whether to stop.
fn end_unless_told(as_json: bool) {
    let began = Instant::now();
    while began.elapsed() < if is_in_step() { PATIENCE_OF_STEPS } else { PATIENCE } {
        if IS_TOLD.load(Ordering::SeqCst) {
            return;
        }
        sleep(GLANCE);
    }
    // Nothing is unwound: the thread that works is stopped.
    atomic::abandon();
    if stderr().is_terminal() {
        // Below the bar.
        write_stderr("");
    }
    let failure = Failure::interrupted("interrupted".into());
    let failure = if is_work_held() { failure } else { failure.not_resumable() };
    report(&failure, as_json);
    signal_hook::low_level::exit(failure.kind() as i32)
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
    let is_requested = ASKED.get().is_some_and(|asked| asked.load(Ordering::SeqCst));
    if is_requested {
        IS_TOLD.store(true, Ordering::SeqCst);
    }
    is_requested
}
