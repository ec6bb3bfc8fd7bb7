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
                Ok(_) => json!({ "sha256": hash }),
                Err(error) => match tensors(error.as_bytes()) {
                    Some(tensors) => json!({ "tensors": tensors }),
                    None => json!({ "sha256": hash }),
                },
            };
            let name = path.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
            found.insert(name, content);
        }
    }
    found
}

/// Header of a safetensors file with the hash of each tensor in place of its offsets; none for
/// other files. Names in the metadata may change where no number does.
fn tensors(bytes: &[u8]) -> Option<Value> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (header, data) =
        rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let mut header: Map<String, Value> = serde_json::from_slice(header).ok()?;
    for (name, tensor) in &mut header {
        if name != "__metadata__" {
            let tensor = tensor.as_object_mut()?;
            let offsets = tensor.remove("data_offsets")?;
            let at = |end: usize| usize::try_from(offsets.get(end)?.as_u64()?).ok();
            tensor.insert("sha256".into(), sha256_hex(data.get(at(0)?..at(1)?)?).into());
        }
    }
    Some(header.into())
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
