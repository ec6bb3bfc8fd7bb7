//! This build of the program, for `--version` and for results.

use linwright::evaluate::Build;

/// The version, and the commit that the program was built from where that is known.
pub(crate) const VERSION: &str = env!("LINWRIGHT_VERSION");
/// As results name it.
pub(crate) const BUILD: Build<'static> =
    Build { version: env!("CARGO_PKG_VERSION"), commit: env!("LINWRIGHT_COMMIT") };
