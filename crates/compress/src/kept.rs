//! What keeps a run directory sound: one process at a time works in it, and what was changed since it was
//! written is noticed.

use crate::study::StudyError;
use linwright_measure::data::sha256_hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::Path;

/// A value with its checksum, as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checked {
    /// Of the value as JSON on one line.
    sha256: String,
    cell: Value,
}

/// A value as bytes that say whether they were changed.
pub(crate) fn with_checksum(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let cell = serde_json::to_value(value)?;
    serde_json::to_vec_pretty(&Checked { sha256: sha256_hex(cell.to_string().as_bytes()), cell })
}

/// A stored value, if nothing of it was changed; else why it cannot be used.
pub(crate) fn checked<C: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<C, String> {
    let stored: Checked = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if sha256_hex(stored.cell.to_string().as_bytes()) != stored.sha256 {
        return Err("its checksum differs, so that something in it was changed".to_owned());
    }
    serde_json::from_value(stored.cell).map_err(|error| error.to_string())
}

/// Keeps other processes out of a directory. The system ends the lock with the process, however that ends.
pub(crate) fn lock(path: &Path) -> Result<File, StudyError> {
    let name = path.join(".lock");
    let io = |source| StudyError::Io { path: name.clone(), source };
    let mut options = OpenOptions::new();
    let mut file =
        options.create(true).truncate(false).read(true).write(true).open(&name).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {
            let id = std::process::id().to_string();
            file.set_len(0).and_then(|()| file.write_all(id.as_bytes())).map_err(io)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let process = std::fs::read_to_string(&name).ok().and_then(|id| id.trim().parse().ok());
            Err(StudyError::Busy { path: path.to_owned(), process })
        }
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_number_is_noticed_and_what_was_not_changed_reads_back() {
        let value = vec![0.1, -1.0 / 3.0, 1e-300, 5.0];
        let bytes = with_checksum(&value).unwrap();
        assert_eq!(checked::<Vec<f64>>(&bytes), Ok(value));
        let text = String::from_utf8(bytes).unwrap();
        let changed = text.replace("-0.3333", "-0.3334");
        assert_ne!(changed, text);
        let reason = checked::<Vec<f64>>(changed.as_bytes()).unwrap_err();
        assert!(reason.contains("checksum"), "{reason}");
        assert!(checked::<Vec<f64>>(b"[0.1]").is_err());
    }

    #[test]
    fn a_second_one_is_told_who_holds_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock(folder.path()).unwrap();
        let second = lock(folder.path()).unwrap_err().to_string();
        let us = format!("in use by process {}", std::process::id());
        assert!(second.contains(&us), "{second}");
        drop(first);
        lock(folder.path()).unwrap();
    }
}
