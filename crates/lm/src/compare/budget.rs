//! The best candidate for a share of the parameters, judged on validation windows of the
//! calibration text.

use super::Asked;
use super::candidate::Candidate;
use super::work::Work;
use crate::LmError;
use crate::allocate::{Measured, validation_loss};
use linwright_compare::{HeldOut, Judge, Tried};
use linwright_compress::fit_to::FitTo;
use linwright_model::Windows;
use linwright_run::{Fingerprint, Monitor};

/// Tries candidates at a share. Those that can win come first, the best at the head; of equal
/// losses the earlier candidate.
///
/// # Errors
/// [`LmError`] of the store, and if cancelled. What a candidate cannot do is reported.
pub fn within_budget(
    work: &Work<'_>,
    windows: &Windows,
    candidates: &[Candidate],
    keep: f64,
    print: &Fingerprint,
    monitor: &mut dyn Monitor,
) -> Result<Vec<Tried>, LmError> {
    let judged = |candidate: &Candidate, monitor: &mut dyn Monitor| {
        let made =
            work.make(&Asked::at(candidate.clone(), Some(keep)), FitTo::Training, monitor)?;
        let model = &made.edited.network;
        let measured = Measured { model, tokenizer: work.tokenizer, windows };
        let kept = made.parameters(work.model).keep();
        Ok::<_, LmError>(HeldOut { kept, loss: validation_loss(measured, monitor)? })
    };
    linwright_compare::within_budget(candidates, keep, work.pieces, print, monitor, &judged)
}
