//! The host of jobs: environment, signals and build of this program.

use crate::build::BUILD;
use crate::interrupt;
use linwright::jobs::Host;
use std::ffi::OsString;

/// The environment, the signals and the build of this program.
pub(crate) const HOST: Host<'static> =
    Host { variable: &variable, cancelled: &interrupt::is_requested, build: BUILD };

#[allow(clippy::disallowed_methods, reason = "the command line reads the environment")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
