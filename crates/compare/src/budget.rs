//! The best candidate for a share of the parameters, judged on held-out examples.

use crate::TOLERANCE;
use crate::judge::{JudgeError, Way};
use linwright_run::{Fingerprint, Monitor, PieceKey, Store};
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
    /// Loss on the held-out examples: of text, in nats per token.
    pub loss: Option<f64>,
    /// Why it cannot win: there is no model, or it is not within the budget.
    pub reason: Option<String>,
}

/// A network on held-out examples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// Share of parameters kept.
    pub kept: f64,
    /// Loss.
    pub loss: f64,
}

/// Tries candidates at a share with `judged`. Those that can win come first, the best at the head;
/// of equal losses the earlier candidate.
///
/// # Errors
/// Those of `judged` that are not final, of the store, and if cancelled. What a candidate cannot do
/// is reported.
pub fn within_budget<W: Way, E: JudgeError>(
    candidates: &[W],
    keep: f64,
    store: &Store,
    print: &Fingerprint,
    monitor: &mut dyn Monitor,
    judged: &dyn Fn(&W, &mut dyn Monitor) -> Result<HeldOut, E>,
) -> Result<Vec<Tried>, E> {
    let mut all = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let print = Fingerprint::of(&[("run", print), ("candidate", candidate), ("keep", &keep)]);
        let key = PieceKey::new(JUDGED, print);
        let (method, total) = (candidate.name(), candidates.len());
        all.push(store.finished(&key, || {
            monitor.step(&format!("trying {method} ({} of {total})", index + 1));
            tried(method, keep, judged(candidate, monitor))
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

fn tried<E: JudgeError>(method: String, keep: f64, judged: Result<HeldOut, E>) -> Result<Tried, E> {
    match judged {
        Ok(HeldOut { kept, loss }) => {
            let within = kept <= keep + TOLERANCE;
            let reason = (!within).then(|| format!("its nearest size keeps {kept:.4}"));
            Ok(Tried { method, keep: Some(kept), loss: Some(loss), reason })
        }
        Err(error) if error.is_final() => {
            Ok(Tried { method, keep: None, loss: None, reason: Some(error.to_string()) })
        }
        Err(error) => Err(error),
    }
}
