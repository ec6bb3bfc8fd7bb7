//! The cache of decompositions, shared by `laser`, `sweep` and `compose`.

use crate::console::Console;
use crate::failure::Failure;
use crate::source::cache_home;
use linwright::compress::intervention::ComponentStore;
use linwright::jobs::CutOptions;

/// The cache of decompositions: the given directory, or the default one if it can be written.
pub(super) fn component_store(
    cut: &CutOptions,
    console: &Console,
) -> Result<ComponentStore, Failure> {
    if cut.no_cache {
        return Ok(ComponentStore::none());
    }
    if let Some(directory) = &cut.cache {
        return Ok(ComponentStore::open(directory)?);
    }
    let Some(directory) = cache_home().map(|home| home.join("linwright/components")) else {
        console
            .note("note: neither XDG_CACHE_HOME nor HOME is set, so decompositions are not cached");
        return Ok(ComponentStore::none());
    };
    console.detail(|| format!("decompositions are cached in {}", directory.display()));
    ComponentStore::open(&directory).or_else(|error| {
        console.note(&format!("note: decompositions are not cached: {error}"));
        Ok(ComponentStore::none())
    })
}
