//! Resumable state of `linwright compress`: the finished fits, until the model is saved.

use crate::jobs::{Failure, FailureKind};
use linwright_run::{Fingerprint, RunDirectory, RunError};

use std::path::{Path, PathBuf};

/// Directory of the fits of an unfinished job: next to the output, with a hidden name.
pub(super) fn directory(output: &Path) -> Result<PathBuf, Failure> {
    let name = output.file_name().ok_or_else(|| {
        Failure::usage(format!("--output {} names no directory", output.display()))
    })?;
    Ok(output.with_file_name(format!(".{}.linwright-state", name.to_string_lossy())))
}

/// Opens the directory of an unfinished job. With `force`, files of another job are removed.
pub(super) fn open(
    state: &Path,
    fingerprint: &Fingerprint,
    force: bool,
) -> Result<RunDirectory, Failure> {
    match RunDirectory::open(state, fingerprint) {
        Err(RunError::Fingerprint { .. }) if force => {
            remove(state)?;
            Ok(RunDirectory::open(state, fingerprint)?)
        }
        Err(RunError::Fingerprint { .. }) => Err(Failure::new(
            FailureKind::Fingerprint,
            format!(
                "{} holds the unfinished fits of another command for this output",
                state.display()
            ),
        )
        .hint("run that same command again to finish it, or give --force to discard it")),
        other => Ok(other?),
    }
}

/// After a failure: removes a state directory that has no finished fit or whose command would fail
/// again; otherwise the hint names it.
pub(super) fn tidy(state: &Path, failure: Failure) -> Failure {
    if failure.is_resumable() {
        return failure;
    }
    let fits = std::fs::read_dir(state.join("fit"));
    if !failure.is_for_good() && fits.is_ok_and(|mut fits| fits.next().is_some()) {
        return failure.hint(format!(
            "the finished fits are kept in {}; run the same command again to resume",
            state.display()
        ));
    }
    // The original failure matters more than this one.
    drop(std::fs::remove_dir_all(state));
    failure
}

pub(super) fn remove(state: &Path) -> Result<(), Failure> {
    std::fs::remove_dir_all(state)
        .map_err(|error| Failure::io(&state.display().to_string(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_compress::{CompressError, FitError};
    use linwright_ops::SiteId;
    use linwright_run::StoreError;

    /// What is left of a state with one fit, and the hint, after a failure.
    fn after(failure: Failure) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join(".out.linwright-state");
        std::fs::create_dir_all(state.join("fit")).unwrap();
        std::fs::write(state.join("fit/00"), "a fit").unwrap();
        let reported = format!("{:?}", tidy(&state, failure));
        (state.exists(), reported)
    }

    #[test]
    fn fits_are_kept_where_the_same_command_can_go_on_and_nowhere_else() {
        let source = FitError::NonFinite { what: "the target".into(), of: "a fit".into() };
        let error = CompressError::Fit { site: SiteId("up".into()), source };
        let (kept, reported) = after(error.into());
        assert!(!kept && !reported.contains("goes on"), "{reported}");
        let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let error = StoreError::Io { action: "read", path: "out".into(), source };
        let (kept, reported) = after(CompressError::from(error).into());
        assert!(kept && reported.contains("run the same command again to resume"), "{reported}");
    }
}
