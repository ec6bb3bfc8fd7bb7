//! The count of opened files, for `--verbose`.

use crate::stderr::write_stderr;
use linwright::report::number::bytes;
use linwright::run::input;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of opened files, and their bytes.
static OPENED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Starts to count opened files for `-v`, and to print each for `-vv`.
pub(crate) fn watch_files(verbose: u8) {
    match verbose {
        0 => {}
        1 => input::observe(count_file),
        _ => input::observe(|path, length| {
            count_file(path, length);
            write_stderr(&format!("  opened {}, {}", path.display(), bytes(length)));
        }),
    }
}

fn count_file(_: &Path, length: u64) {
    OPENED[0].fetch_add(1, Ordering::Relaxed);
    OPENED[1].fetch_add(length, Ordering::Relaxed);
}

/// Number of files opened so far, and their bytes.
pub(crate) fn opened() -> [u64; 2] {
    [0, 1].map(|index| OPENED[index].load(Ordering::Relaxed))
}
