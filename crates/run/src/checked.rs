//! Stored values with checksums.

use super::sha256_hex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value with its checksum.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// SHA-256 of the value as JSON on one line.
    sha256: String,
    cell: Value,
}

impl Checked {
    /// Adds the checksum to a value.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let cell = serde_json::to_value(value)?;
        Ok(Self { sha256: sha256_hex(cell.to_string().as_bytes()), cell })
    }

    /// Reads a stored value and verifies its checksum.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
        let stored: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if sha256_hex(stored.cell.to_string().as_bytes()) != stored.sha256 {
            return Err("its checksum differs, so the file was changed".to_owned());
        }
        serde_json::from_value(stored.cell).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_number_is_noticed_and_what_was_not_changed_reads_back() {
        let value = vec![0.1, -1.0 / 3.0, 1e-300, 5.0];
        let text = serde_json::to_string_pretty(&Checked::of(&value).unwrap()).unwrap();
        assert_eq!(Checked::read::<Vec<f64>>(text.as_bytes()), Ok(value));
        let changed = text.replace("-0.3333", "-0.3334");
        assert_ne!(changed, text);
        let reason = Checked::read::<Vec<f64>>(changed.as_bytes()).unwrap_err();
        assert!(reason.contains("checksum"), "{reason}");
        assert!(Checked::read::<Vec<f64>>(b"[0.1]").is_err());
    }
}
