//! The user's store of finished pieces, and of what an interrupted command had done.

use super::{AnyJob, Failure, Session, recipe_of};
use linwright_run::store::{Place, ROOT_VARIABLE, Unfinished, place};
use linwright_run::team::Team;
use linwright_run::{Fingerprint, Store, StoreError};
use std::path::Path;

/// The store in `directory`, or in the place that the environment names if it can be written, or
/// none if `is_off`. Its size is bounded.
pub(crate) fn open(
    directory: Option<&Path>,
    is_off: bool,
    session: &Session<'_>,
) -> Result<Store, Failure> {
    if is_off {
        return Ok(Store::none());
    }
    let Place { root, bound_bytes } = place(session.variables())?;
    if let Some(directory) = directory.or(session.own_store()) {
        let store = Store::open(directory)?.bounded(bound_bytes);
        session.opened(&store);
        return Ok(store);
    }
    let Some(root) = root else {
        session.note(&format!(
            "note: none of {ROOT_VARIABLE}, XDG_CACHE_HOME and HOME is set, so finished pieces are \
             not kept"
        ));
        return Ok(Store::none());
    };
    match Store::open(&root) {
        Ok(store) => {
            session.detail(|| format!("finished pieces are kept in {}", root.display()));
            let store = store.bounded(bound_bytes);
            session.opened(&store);
            Ok(store)
        }
        Err(error) => {
            session.note(&format!("note: finished pieces are not kept: {error}"));
            Ok(Store::none())
        }
    }
}

/// The place of what a job has done until its output is written, for one process at a
/// time. The same job with the same output continues there. Without an output, a second process
/// does the job all the same, and keeps nothing.
pub(crate) fn unfinished(
    job: &dyn AnyJob,
    output: Option<&Path>,
    session: &Session<'_>,
) -> Result<Unfinished, Failure> {
    if session.starts_anew() {
        return Ok(Unfinished::none());
    }
    let store = open(None, false, session)?;
    // Where a command writes is part of it, wherever it is started.
    let place = output.map(std::path::absolute).transpose();
    let place = place.map_err(|error| Failure::io("the working directory", &error))?;
    let version = session.build().version;
    let print = Fingerprint::of(&[
        ("version", &version),
        ("job", &recipe_of(job)),
        ("data", &session.data()),
        ("output", &place.as_ref().map(|place| place.display().to_string())),
    ]);
    let of = output.map_or_else(String::new, |output| format!(" to {}", output.display()));
    match store.unfinished(&print, &format!("{}{of}", job.verb())) {
        Err(error @ StoreError::Busy { .. }) if output.is_none() => {
            session.note(&format!("note: {error}; this one cannot be resumed"));
            Ok(Unfinished::none())
        }
        // As in `open`: where nothing can be kept, the job is done all the same.
        Err(error @ StoreError::Io { .. }) => {
            session.note(&format!("note: unfinished work is not kept: {error}"));
            Ok(Unfinished::none())
        }
        other => Ok(other?),
    }
}

/// The store of what a job with an output has done, and what removes it in the end: for shards that
/// exchange what they find the one that they share, otherwise that of [`unfinished`].
pub(crate) fn of_job(
    job: &dyn AnyJob,
    output: &Path,
    team: &dyn Team,
    session: &Session<'_>,
) -> Result<(Unfinished, Store), Failure> {
    if let Some(shared) = team.shared_store() {
        return Ok((Unfinished::none(), Store::at(shared)));
    }
    let unfinished = unfinished(job, Some(output), session)?;
    let store = unfinished.path().map_or_else(Store::none, Store::at);
    Ok((unfinished, store))
}

/// Removes the unfinished work of a job that is done. If it cannot be removed, the output is there
/// all the same.
pub(crate) fn done(unfinished: Unfinished, session: &Session<'_>) {
    if let Err(error) = unfinished.finish() {
        session.note(&format!("note: {error}; `linwright cache rm --unfinished` removes it"));
    }
}

/// After a failure: removes unfinished work whose command would fail again; otherwise the hint
/// names it. Where nothing is kept, the failure promises nothing.
pub(crate) fn tidy(unfinished: Unfinished, failure: Failure) -> Failure {
    let Some(path) = unfinished.path() else { return failure.not_resumable() };
    if failure.is_resumable() || unfinished.is_empty() {
        return failure;
    }
    if failure.is_for_good() {
        // The original failure matters more than this one.
        drop(unfinished.finish());
        return failure;
    }
    let kept = format!(
        "what was finished is kept in {}; run the same command again to resume",
        path.display()
    );
    failure.hint(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_compress::{CompressError, FitError};
    use linwright_evaluate::EvaluationError;
    use linwright_lm::LmError;
    use linwright_ops::SiteId;

    /// Whether work is left after a failure, and the failure that is reported.
    fn after(failure: Failure) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let print = Fingerprint::of(&[("job", &1)]);
        let unfinished = Store::at(folder.path()).unfinished(&print, "a job").unwrap();
        let path = unfinished.path().unwrap().to_owned();
        std::fs::write(path.join("work"), "half").unwrap();
        let reported = format!("{:?}", tidy(unfinished, failure));
        (path.exists(), reported)
    }

    #[test]
    fn work_is_kept_where_the_same_command_can_go_on_and_nowhere_else() {
        let source = FitError::NonFinite { what: "the target".into(), of: "a fit".into() };
        let error = CompressError::Fit { site: SiteId("up".into()), source };
        let (kept, reported) = after(error.into());
        assert!(!kept && !reported.contains("to resume"), "{reported}");
        let overflow = || EvaluationError::Overflow {
            task: "text".into(),
            metric: "token_perplexity".into(),
            found: f64::INFINITY,
        };
        let lost = || EvaluationError::NonFinite { place: "a".into(), token: 0, found: f64::NAN };
        let failures: [Failure; 3] =
            [overflow().into(), LmError::from(overflow()).into(), lost().into()];
        for failure in failures {
            let (kept, reported) = after(failure);
            assert!(!kept && !reported.contains("to resume"), "{reported}");
        }
        let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let error = StoreError::Io { action: "read", path: "out".into(), source };
        let (kept, reported) = after(CompressError::from(error).into());
        assert!(kept && reported.contains("run the same command again to resume"), "{reported}");
    }
}
