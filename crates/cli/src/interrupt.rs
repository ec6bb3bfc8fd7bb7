//! Signals: the first Ctrl-C or SIGTERM asks the command to stop at the next safe point, the second
//! kills it; exceeding a file-size limit becomes an ordinary write error; a mapped file that
//! becomes shorter ends the command with a message.
//!
//! A command that does not ask in time whether to stop is ended, and so is one that continues after
//! the request, once it writes nothing: what it leaves is no worse than after the second signal, or
//! after a loss of power.

use crate::failure::{Failure, report};
use crate::stderr::write_stderr;
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

/// Time within which a command must check for interruption.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The same during a training step, after which a checkpoint is written.
const PATIENCE_OF_STEPS: Duration = Duration::from_secs(20);
/// Time in which a command that was asked to stop has to end, from the last change of what it
/// writes; three times that if it has begun a file. A server lets requests finish for half as long.
const PATIENCE_WITH_TOLD: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });
/// Between two looks at whether the command asked.
const GLANCE: Duration = Duration::from_millis(20);

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// Whether the command was interrupted.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Installs the signal handlers; `as_json` selects the format of messages. A command that never
/// checks for interruption keeps the default behaviour of Ctrl-C and SIGTERM, which end it
/// immediately.
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
            end(as_json);
        }
    };
    Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// Ends the process if the command does not ask in time whether to stop, or does not stop in time.
fn end(as_json: bool) {
    let is_told = || IS_TOLD.load(Ordering::SeqCst);
    let began = Instant::now();
    while !is_told() && began.elapsed() < if is_in_step() { PATIENCE_OF_STEPS } else { PATIENCE } {
        sleep(GLANCE);
    }
    let (mut since, mut written) = (Instant::now(), atomic::begun_bytes());
    // A large file that is written reaches the disk without another change.
    let patience = |written| if written > 0 { 3 * PATIENCE_WITH_TOLD } else { PATIENCE_WITH_TOLD };
    while is_told() && since.elapsed() < patience(written) {
        sleep(10 * GLANCE);
        let now = atomic::begun_bytes();
        if now != written {
            (since, written) = (Instant::now(), now);
        }
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

/// Ends the command after a read of mapped bytes beyond the end of the file.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs::{exists, write};
    use std::process::Command;

    /// Runs this test alone in a folder with a mark, and gives its exit code and how long it ran.
    fn alone(test: &str, mark: &str) -> (Option<i32>, Duration) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path().join(mark), "").unwrap();
        let began = Instant::now();
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("interrupt::tests::{test}"), "--test-threads=1"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 1, "the partial output is removed");
        (done.status.code(), began.elapsed())
    }

    /// Is asked to stop, and continues; or writes for a while before.
    fn deaf(writes: bool) -> ! {
        install(true, false).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        while !is_requested() {
            sleep(GLANCE);
        }
        let mut begun =
            atomic::AtomicFile::create(Path::new("out"), atomic::Replace::Nothing).unwrap();
        let began = Instant::now();
        while writes && began.elapsed() < 4 * PATIENCE_WITH_TOLD {
            begun.write(b"more").unwrap();
            sleep(PATIENCE_WITH_TOLD / 4);
        }
        loop {
            sleep(PATIENCE);
        }
    }

    #[test]
    fn a_command_that_was_told_to_stop_and_goes_on_is_ended() {
        if exists("told").unwrap() {
            deaf(false);
        }
        let (code, took) = alone("a_command_that_was_told_to_stop_and_goes_on_is_ended", "told");
        assert_eq!(code, Some(130));
        assert!(took >= PATIENCE_WITH_TOLD, "{took:?}");
    }

    #[test]
    fn a_command_that_was_told_to_stop_may_finish_what_it_writes() {
        if exists("writing").unwrap() {
            deaf(true);
        }
        let (code, took) =
            alone("a_command_that_was_told_to_stop_may_finish_what_it_writes", "writing");
        assert_eq!(code, Some(130));
        assert!(took >= 5 * PATIENCE_WITH_TOLD, "{took:?}");
    }
}
