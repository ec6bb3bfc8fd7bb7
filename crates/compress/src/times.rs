//! Times of finished work, kept apart from it: done again, the work has the same bytes.

use linwright_run::{Fingerprint, PieceKey, Store, StoreError};

/// Kind of the pieces.
pub const TIME: &str = "time";

/// Stores how many seconds the work with this fingerprint took.
///
/// # Errors
/// As [`Store::put`].
pub fn put(store: &Store, of: &Fingerprint, seconds: f64) -> Result<(), StoreError> {
    store.put(&PieceKey::new(TIME, of.clone()), &[&seconds.to_le_bytes()])
}

/// How many seconds the work with this fingerprint took, if that is known.
///
/// # Errors
/// As [`Store::get`].
pub fn get(store: &Store, of: &Fingerprint) -> Result<Option<f64>, StoreError> {
    store.decoded(&PieceKey::new(TIME, of.clone()), |bytes| {
        let bytes = bytes.try_into().map_err(|_| "no number of seconds".to_owned())?;
        Ok(f64::from_le_bytes(bytes))
    })
}
