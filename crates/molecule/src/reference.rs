//! Reference values of tests.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file of `testdata/tensornet`.
pub(crate) fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet").join(name)
}

/// The constants of the reference implementation.
pub(crate) fn constants() -> Value {
    let path = reference("constants.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"))
}
