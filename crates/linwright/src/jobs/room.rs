//! Whether work has room in memory, asked before anything is allocated for it.
//!
//! Each number of an option has a bound in its schema; what several of them make together is
//! checked here.

use super::{Failure, FailureKind};
use linwright_report::number::bytes;
use linwright_run::memory::{NoRoom, check};

impl From<NoRoom> for Failure {
    fn from(error: NoRoom) -> Self {
        let NoRoom { what, needed, available } = error;
        let message = format!(
            "{what} takes at least {} of memory, {} are available",
            bytes(needed),
            bytes(available)
        );
        Self::new(FailureKind::Resources, message)
    }
}

/// Refuses work that has no room. `factors` multiply to a lower bound of its bytes; `hint` says
/// which options to change.
///
/// # Errors
/// [`Failure`] with the bytes that it would take.
pub(super) fn ensure(
    what: impl FnOnce() -> String,
    factors: &[u64],
    hint: &str,
) -> Result<(), Failure> {
    check(what, factors).map_err(|error| Failure::from(error).hint(hint))
}
