//! Whether work has room in memory, asked before anything is allocated for it.
//!
//! Each number of an option has a bound in its schema; what several of them make together is
//! checked here.

use super::{Failure, FailureKind};
use linwright_files::weight_files;
use linwright_model::checkpoint::Precision;
use linwright_report::number::bytes;
use linwright_run::memory::{NoRoom, check};
use linwright_run::shown;
use std::path::Path;

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
pub(crate) fn ensure(
    what: impl FnOnce() -> String,
    factors: &[u64],
    hint: &str,
) -> Result<(), Failure> {
    check(what, factors).map_err(|error| Failure::from(error).hint(hint))
}

/// Refuses a model whose weights alone take more than is allowed, before they are read.
pub(crate) fn check_weights(
    model: &Path,
    precision: Precision,
    allowed: u64,
) -> Result<(), Failure> {
    let shown = shown(&model.display().to_string());
    check_held(&format!("{shown} has"), held_bytes(model, precision), allowed)
}

/// Refuses weights that together take more than is allowed; `whose` begins the message: `MODEL
/// has`.
pub(crate) fn check_held(whose: &str, needed: u64, allowed: u64) -> Result<(), Failure> {
    if needed <= allowed {
        return Ok(());
    }
    let reason =
        format!("{whose} {needed} bytes of weights: more than --max-memory {allowed} allows");
    let least = needed / 1_000_000 + 1;
    Err(Failure::new(FailureKind::Resources, reason)
        .hint(format!("allow more than {least}MB, or choose a smaller model")))
}

/// Bytes of the weights in memory, at least: those of quantised files in their file. Nothing of
/// what cannot be opened, which is told when the model is.
pub(crate) fn held_bytes(model: &Path, precision: Precision) -> u64 {
    let Ok(files) = weight_files(model) else {
        return model.metadata().map_or(0, |data| if data.is_file() { data.len() } else { 0 });
    };
    let tensors = files.iter().flat_map(|file| file.tensors().values());
    let held = tensors.map(|tensor| {
        let bits = match precision {
            Precision::Auto => tensor.dtype.bits().min(32),
            Precision::F32 => 32,
            Precision::Bf16 | Precision::F16 => 16,
        };
        tensor.shape.iter().fold(bits, |n, extent| n.saturating_mul(*extent as u64)) / 8
    });
    held.fold(0, u64::saturating_add)
}
