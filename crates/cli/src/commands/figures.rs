//! Figures of experiments as files: a plot, its numbers, and all results.

use crate::failure::Failure;
use linwright::jobs::outputs;
use linwright::run::atomic::check_file;
use std::path::{Path, PathBuf};

/// File extensions: the plot, its numbers as a table, everything.
const ENDINGS: [&str; 3] = ["svg", "csv", "json"];

/// Figures of a name in a directory.
pub(super) struct Figures<'a> {
    pub(super) name: &'static str,
    pub(super) folder: &'a Path,
    /// Whether existing ones are replaced.
    pub(super) force: bool,
}

impl Figures<'_> {
    fn paths(&self) -> [PathBuf; 3] {
        ENDINGS.map(|ending| self.folder.join(format!("{}.{ending}", self.name)))
    }

    /// Checks before any work that they can be written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        // Their names do not occur in other programs.
        let is_ours = |_: &Path| true;
        let there = self.paths().into_iter().filter(|_| self.folder.exists());
        Ok(there.into_iter().try_for_each(|path| check_file(&path, self.force, is_ours))?)
    }

    /// Writes all of them or none.
    pub(super) fn write(&self, texts: [String; 3]) -> Result<(), Failure> {
        std::fs::create_dir_all(self.folder)
            .map_err(|error| Failure::io(&self.folder.display().to_string(), &error))?;
        let files =
            self.paths().into_iter().zip(texts).map(|(path, text)| {
                outputs::prepared(&path, text.as_bytes(), self.force, |_| true)
            });
        outputs::write_all(files.collect::<Result<Vec<_>, _>>()?)
    }
}
