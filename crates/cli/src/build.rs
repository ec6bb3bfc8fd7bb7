//! This build of the program, for `--version` and for results.

use linwright::evaluate::Build;

/// The version, and the commit that the program was built from, if known.
pub(crate) const VERSION: &str = env!("LINWRIGHT_VERSION");
/// The build as named in results.
pub(crate) const BUILD: Build<'static> =
    Build { version: env!("CARGO_PKG_VERSION"), commit: env!("LINWRIGHT_COMMIT") };
