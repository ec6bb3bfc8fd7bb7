//! The best candidate for a share of the parameters, judged on validation windows of the
//! calibration text.

use super::candidate::Candidate;
use super::work::{Made, Work};
use crate::LmError;
use crate::allocate::{Measured, validation_loss};
use linwright_compress::fit_to::FitTo;
use linwright_model::Windows;
use linwright_run::{Fingerprint, Monitor, PieceKey};
use serde::{Deserialize, Serialize};

/// Kind of the pieces.
const JUDGED: &str = "budget";

/// A candidate that was tried within a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Name of the candidate.
    pub method: String,
    /// Share of parameters kept; none if there is no model.
    pub keep: Option<f64>,
    /// Loss on the validation windows in nats per token.
    pub loss: Option<f64>,
    /// Why it cannot win: there is no model, or it is not within the budget.
    pub reason: Option<String>,
}

/// Tries candidates at a share. Those that can win come first, the best at the head; of equal
/// losses the earlier candidate.
///
/// # Errors
/// [`LmError`] of the store, and if cancelled. What a candidate cannot do is told.
pub fn within_budget(
    work: &Work<'_>,
    windows: &Windows,
    candidates: &[Candidate],
    keep: f64,
    print: &Fingerprint,
    monitor: &mut dyn Monitor,
) -> Result<Vec<Tried>, LmError> {
    let mut all = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let print = Fingerprint::of(&[("run", print), ("candidate", candidate), ("keep", &keep)]);
        let key = PieceKey::new(JUDGED, print);
        let (name, total) = (candidate.name(), candidates.len());
        all.push(work.pieces.finished(&key, || {
            monitor.step(&format!("trying {name} ({} of {total})", index + 1));
            tried(work, windows, candidate, keep, monitor)
        })?);
    }
    let order = |tried: &Tried| match (&tried.reason, tried.loss) {
        (None, Some(loss)) => (false, loss),
        (_, loss) => (true, loss.unwrap_or(f64::INFINITY)),
    };
    all.sort_by(|a, b| {
        let (a, b) = (order(a), order(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    Ok(all)
}

fn tried(
    work: &Work<'_>,
    windows: &Windows,
    candidate: &Candidate,
    keep: f64,
    monitor: &mut dyn Monitor,
) -> Result<Tried, LmError> {
    let method = candidate.name();
    let judged = work.make(candidate, Some(keep), FitTo::Training, monitor).and_then(|made| {
        let Made { edited, .. } = &made;
        let measured = Measured { model: &edited.network, tokenizer: work.tokenizer, windows };
        Ok((made.parameters(work.model).keep(), validation_loss(measured, monitor)?))
    });
    match judged {
        Ok((kept, loss)) => {
            let within = kept <= keep + super::TOLERANCE;
            let reason = (!within).then(|| format!("its nearest size keeps {kept:.4}"));
            Ok(Tried { method, keep: Some(kept), loss: Some(loss), reason })
        }
        Err(error) if error.is_final() => {
            Ok(Tried { method, keep: None, loss: None, reason: Some(error.to_string()) })
        }
        Err(error) => Err(error),
    }
}
