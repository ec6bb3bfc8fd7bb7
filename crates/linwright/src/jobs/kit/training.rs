//! What trainings of models have in common.

use super::{AnyJob, Failure, Outcome, Session, store};
use linwright_run::Monitor;
use linwright_run::store::Unfinished;
use linwright_train::{Checkpoint, Control, Progress, TrainError};
use std::path::Path;

/// Reports the steps of a training to the session.
pub(crate) struct Forward<'a, 's> {
    pub(crate) session: &'a mut Session<'s>,
    /// Steps made in this process.
    pub(crate) steps: u64,
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

/// What makes a training resumable.
pub(crate) struct Resumable<'a> {
    pub(crate) job: &'a dyn AnyJob,
    pub(crate) output: &'a Path,
    /// The checkpoint that was asked for, which stays; otherwise there is one in the user's store
    /// until the output is written.
    pub(crate) checkpoint: Option<&'a Path>,
    /// Updates between two checkpoints.
    pub(crate) every: u64,
    pub(crate) fingerprint: String,
}

impl Resumable<'_> {
    /// Runs a training that writes its output, with its checkpoint.
    ///
    /// # Errors
    /// Those of the training, with a hint on what is kept, and of the store.
    pub(crate) fn run(
        self,
        session: &mut Session<'_>,
        train: impl FnOnce(Option<&Checkpoint>, &mut Session<'_>) -> Result<Outcome, Failure>,
    ) -> Result<Outcome, Failure> {
        let unfinished = match self.checkpoint {
            Some(_) => Unfinished::none(),
            None => store::unfinished(self.job, Some(self.output), session)?,
        };
        let path = self.checkpoint.map(Path::to_owned).or_else(|| unfinished.file("training"));
        let Self { every, fingerprint, .. } = self;
        let checkpoint = path.map(|path| Checkpoint { path, every, fingerprint });
        match train(checkpoint.as_ref(), session) {
            Ok(outcome) => {
                store::done(unfinished, session);
                session.finish();
                Ok(outcome)
            }
            Err(failure) if self.checkpoint.is_some() => Err(failure),
            Err(failure) => Err(store::tidy(unfinished, failure)),
        }
    }
}

/// The failure of a training, with what to do about it.
pub(crate) fn advised(error: TrainError) -> Failure {
    let diverged = matches!(error, TrainError::Diverged { .. } | TrainError::NonFinite { .. });
    let failure = Failure::from(error);
    if diverged {
        failure.hint("give a smaller --rate, or a longer warmup by --training")
    } else {
        failure
    }
}
