//! The user's store of finished pieces.

use crate::console::Console;
use crate::failure::Failure;
use crate::source::variable;
use linwright::run::Store;
use linwright::run::store::{Place, ROOT_VARIABLE, place};
use std::path::Path;

/// The store in `directory`, or in the place that the environment names if it can be written, or
/// none if `is_off`. Its size is bounded.
pub(crate) fn open(
    directory: Option<&Path>,
    is_off: bool,
    console: &Console,
) -> Result<Store, Failure> {
    if is_off {
        return Ok(Store::none());
    }
    let Place { root, bound_bytes } = place(&variable)?;
    if let Some(directory) = directory {
        return Ok(Store::open(directory)?.bounded(bound_bytes));
    }
    let Some(root) = root else {
        console.note(&format!(
            "note: none of {ROOT_VARIABLE}, XDG_CACHE_HOME and HOME is set, so finished pieces are \
             not kept"
        ));
        return Ok(Store::none());
    };
    match Store::open(&root) {
        Ok(store) => {
            console.detail(|| format!("finished pieces are kept in {}", root.display()));
            Ok(store.bounded(bound_bytes))
        }
        Err(error) => {
            console.note(&format!("note: finished pieces are not kept: {error}"));
            Ok(Store::none())
        }
    }
}
