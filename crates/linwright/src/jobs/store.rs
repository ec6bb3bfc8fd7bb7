//! The user's store of finished pieces.

use super::{Failure, Session};
use linwright_run::Store;
use linwright_run::store::{Place, ROOT_VARIABLE, place};
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
    if let Some(directory) = directory {
        return Ok(Store::open(directory)?.bounded(bound_bytes));
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
            Ok(store.bounded(bound_bytes))
        }
        Err(error) => {
            session.note(&format!("note: finished pieces are not kept: {error}"));
            Ok(Store::none())
        }
    }
}
