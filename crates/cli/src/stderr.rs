//! Lines on stderr.

use linwright::run::plain_lines;
use std::io::Write;

/// Writes a line to stderr. If stderr is closed or on a full disk, the line is lost and the work
/// continues; `eprintln!` would panic. Control characters from file names are escaped.
pub(crate) fn write_stderr(line: &str) {
    // One write, so that lines of several threads are not interleaved.
    let _ = std::io::stderr().lock().write_all(format!("{}\n", plain_lines(line)).as_bytes());
}
