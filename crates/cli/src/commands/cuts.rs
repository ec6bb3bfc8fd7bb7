//! The store of decompositions, shared by `laser`, `sweep` and `compose`.

use crate::console::Console;
use crate::failure::Failure;
use linwright::jobs::CutOptions;
use linwright::run::Store;

/// The store that the options of cuts name.
pub(super) fn component_store(cut: &CutOptions, console: &Console) -> Result<Store, Failure> {
    crate::store::open(cut.cache.as_deref(), cut.no_cache, console)
}
