//! What trainings of models have in common.

use super::{Failure, Session};
use linwright_run::Monitor;
use linwright_train::{Control, Progress, TrainError};

/// Reports the steps of a training to the session.
pub(super) struct Forward<'a, 's> {
    pub(super) session: &'a mut Session<'s>,
    /// Steps made in this process.
    pub(super) steps: u64,
}

impl Control for Forward<'_, '_> {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.steps += 1;
        self.session.progress(progress.step, progress.steps);
    }

    fn interrupted(&self) -> bool {
        self.session.interrupted()
    }
}

/// The failure of a training, with what to do about it.
pub(super) fn advised(error: TrainError) -> Failure {
    let diverged = matches!(error, TrainError::Diverged { .. } | TrainError::NonFinite { .. });
    let failure = Failure::from(error);
    if diverged { failure.hint("give a smaller --rate, or a longer --warmup") } else { failure }
}
