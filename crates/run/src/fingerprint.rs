//! Fingerprints of everything that a run depends on.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// SHA-256 of `bytes` in lower-case hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Identifies something by everything it depends on: the first sixteen bytes of a SHA-256, in
/// hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

impl Fingerprint {
    /// Fingerprint of named parts, each serialised as JSON.
    ///
    /// # Panics
    /// If a part cannot be written as JSON, which is always possible for plain data.
    #[must_use]
    pub fn of(parts: &[(&str, &dyn erased::Json)]) -> Self {
        let mut hash = Sha256::new();
        for (name, part) in parts {
            hash.update(name.as_bytes());
            hash.update([0]);
            hash.update(part.json().as_bytes());
            hash.update([0]);
        }
        Self(hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Serialisable parts of a fingerprint behind one object type.
pub mod erased {
    /// Any value that can be written as JSON.
    pub trait Json {
        /// The JSON text.
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).expect("plain data is always valid JSON")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_separate_what_differs() {
        let a = Fingerprint::of(&[("a", &"b"), ("c", &"d")]);
        assert_eq!(a, Fingerprint::of(&[("a", &"b"), ("c", &"d")]));
        assert_ne!(a, Fingerprint::of(&[("a", &"bc"), ("", &"d")]));
        assert_ne!(a, Fingerprint::of(&[("a", &"b")]));
    }
}
