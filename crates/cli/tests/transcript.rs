//! What every command of these tests wrote, for `tools/freeze.py`, which compares it with an
//! earlier state.
//!
//! With `LINWRIGHT_TRANSCRIPT=DIR`, each command adds a line of JSON to a file of its test there:
//! arguments, exit code, both streams, and the files that changed in its directory. Without it,
//! nothing is written.

use crate::workshop::{Outcome, names};
use linwright::run::sha256_hex;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Bytes of a file up to which a transcript holds its text and not its hash.
const MAX_TEXT: usize = 1 << 20;

/// Contents that are in a transcript already, by path.
static WRITTEN: Mutex<Option<HashMap<PathBuf, String>>> = Mutex::new(None);

/// Adds how a command ended to the transcript of the running test.
#[allow(clippy::disallowed_methods, reason = "the tests have no command line of their own")]
pub(crate) fn record(command: &Command, outcome: &Outcome) {
    let Some(dir) = std::env::var_os("LINWRIGHT_TRANSCRIPT") else { return };
    let current = command.get_current_dir().unwrap_or(Path::new("."));
    let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
    let line = json!({
        "dir": current, "args": args, "code": outcome.code,
        "stdout": outcome.stdout, "stderr": outcome.stderr, "files": changed(current),
    });
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed").replace("::", ".");
    let path = Path::new(&dir).join(format!("{name}.jsonl"));
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Text, or hash, of each file whose content is not in a transcript yet.
fn changed(dir: &Path) -> Map<String, Value> {
    let mut written = WRITTEN.lock().unwrap();
    let written = written.get_or_insert_default();
    let mut found = Map::new();
    for path in files(dir) {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let hash = sha256_hex(&bytes);
        if written.insert(path.clone(), hash.clone()).as_ref() != Some(&hash) {
            let content = match String::from_utf8(bytes) {
                Ok(text) if text.len() <= MAX_TEXT => json!({ "text": text }),
                _ => json!({ "sha256": hash }),
            };
            let name = path.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
            found.insert(name, content);
        }
    }
    found
}

/// Regular files below a directory, links not followed.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in names(dir) {
        let path = dir.join(name);
        match path.symlink_metadata() {
            Ok(entry) if entry.is_dir() => found.extend(files(&path)),
            Ok(entry) if entry.is_file() => found.push(path),
            _ => {}
        }
    }
    found
}
