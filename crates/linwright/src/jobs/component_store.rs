//! The cache of decompositions, shared by `laser`, `sweep` and `compose`.

use super::{CutOptions, Failure, Session};
use linwright_compress::intervention::ComponentStore;

/// The cache of decompositions: the given directory, or the default one if it can be written.
pub(super) fn component_store(
    cut: &CutOptions,
    session: &Session<'_>,
) -> Result<ComponentStore, Failure> {
    if cut.no_cache {
        return Ok(ComponentStore::none());
    }
    if let Some(directory) = &cut.cache {
        return Ok(ComponentStore::open(directory)?);
    }
    let Some(directory) = session.cache_home().map(|home| home.join("linwright/components")) else {
        session
            .note("note: neither XDG_CACHE_HOME nor HOME is set, so decompositions are not cached");
        return Ok(ComponentStore::none());
    };
    session.detail(|| format!("decompositions are cached in {}", directory.display()));
    ComponentStore::open(&directory).or_else(|error| {
        session.note(&format!("note: decompositions are not cached: {error}"));
        Ok(ComponentStore::none())
    })
}
