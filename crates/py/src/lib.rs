//! Linwright in Python: the extension module `linwright._linwright`.
//!
//! It converts values, releases the lock of the interpreter around work, and contains no other
//! logic. The package around it, in `python/linwright`, generates functions from the jobs' schemas,
//! wraps their results, and has adapters for other packages. Without the feature `python` this
//! crate is empty, so that the workspace builds and tests without Python (ADR 0043).

#![cfg_attr(
    feature = "python",
    expect(clippy::wildcard_enum_match_arm, reason = "arms on errors that are passed on")
)]

#[cfg(feature = "python")]
mod failure;
#[cfg(feature = "python")]
mod jobs;
#[cfg(feature = "python")]
mod language;
#[cfg(feature = "python")]
mod monitor;
#[cfg(feature = "python")]
mod operator;
#[cfg(feature = "python")]
mod outcome;
#[cfg(feature = "python")]
mod potential;
#[cfg(feature = "python")]
mod sums;

/// The extension module.
#[cfg(feature = "python")]
#[pyo3::pymodule]
mod _linwright {
    /// Without the handler a process ends without a line on a file that became shorter, as before.
    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        #[cfg(unix)]
        drop(linwright::tensor::say_when_cut());
        Ok(())
    }

    #[pymodule_export]
    use crate::jobs::{build, find, run, schema, set_threads, verbs};
    #[pymodule_export]
    use crate::language::RawLanguageModel;
    #[pymodule_export]
    use crate::operator::{RawOperator, RawTape, fit, kinds};
    #[pymodule_export]
    use crate::outcome::RawOutcome;
    #[pymodule_export]
    use crate::potential::RawPotential;
    #[pymodule_export]
    use crate::sums::RawSums;
}
