//! The loop of alternating fits, whose error never increases.

use super::{Context, NAME};
use crate::FitError;
use linwright_train::{Progress, TrainError};

/// Error relative to the power of the target below which all is rounding error.
pub(super) const ROUNDING: f64 = 1e-28;

/// Repeats `step` on a state until its error falls by less than the tolerance; `scale` is the error
/// of the zero map. A step that does not lower the error is undone and ends the loop. Returns the
/// state, its error and the number of steps.
pub(super) fn alternate<S: Clone>(
    mut state: S,
    mut error: f64,
    scale: f64,
    context: &mut Context<'_>,
    mut step: impl FnMut(&mut S, &mut Context<'_>) -> Result<f64, FitError>,
) -> Result<(S, f64, u64), FitError> {
    let steps = u64::from(context.options.iterations);
    let mut done = 0;
    while done < steps && error > ROUNDING * scale {
        if context.control.interrupted() {
            return Err(TrainError::Interrupted { name: NAME.into(), step: done }.into());
        }
        let mut next = state.clone();
        let found = step(&mut next, context)?;
        if !found.is_finite() {
            let what = "the error".to_owned();
            let of = format!("step {done} of an alternating fit");
            return Err(FitError::NonFinite { what, of });
        }
        if found >= error {
            break;
        }
        let small = error - found <= context.options.tolerance * error;
        (state, error) = (next, found);
        done += 1;
        context.control.progress(&Progress { name: NAME, step: done, steps, loss: error });
        if small {
            break;
        }
    }
    Ok((state, error, done))
}
