//! The files of this repository.

use crate::process::output;
use crate::source::Source;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The working tree: its root and its files, those that git ignores left out.
#[derive(Debug)]
pub(crate) struct Repository {
    /// Absolute path of the root.
    pub(crate) root: PathBuf,
    /// Paths relative to the root, with `/`, sorted.
    pub(crate) files: Vec<String>,
}

impl Repository {
    /// The repository of the `cargo xtask` that is running, or else the one that this program was
    /// built from: worktrees that share a target directory share the program.
    ///
    /// # Errors
    /// If git cannot list its files.
    pub(crate) fn open() -> Result<Self> {
        let built = env!("CARGO_MANIFEST_DIR").into();
        let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or(built, PathBuf::from);
        let root = here.parent().context("xtask has no parent folder")?;
        Self::at(root)
    }

    /// The repository at this root.
    ///
    /// # Errors
    /// If git cannot list its files.
    pub(crate) fn at(root: &Path) -> Result<Self> {
        let listing = output(Command::new("git").current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut files: Vec<String> = listing
            .split('\0')
            .filter(|path| !path.is_empty() && root.join(path).is_file())
            .map(String::from)
            .collect();
        files.sort();
        files.dedup();
        let root = root.to_owned();
        Ok(Self { root, files })
    }

    /// The paths that end so.
    pub(crate) fn ending(&self, suffix: &str) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str).filter(move |path| path.ends_with(suffix))
    }

    /// The text of a file.
    ///
    /// # Errors
    /// If it cannot be read or is not UTF-8.
    pub(crate) fn text(&self, path: &str) -> Result<String> {
        std::fs::read_to_string(self.root.join(path)).with_context(|| format!("cannot read {path}"))
    }

    /// Every Rust file, read and split into code, text and comments.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(crate) fn sources(&self) -> Result<Vec<Source>> {
        self.ending(".rs").map(|path| Ok(Source::new(path, &self.text(path)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_new_files_and_not_ignored_ones() {
        let dir = tempfile::tempdir().unwrap();
        output(Command::new("git").current_dir(dir.path()).args(["init", "-q"])).unwrap();
        std::fs::write(dir.path().join(".gitignore"), "*.log\n").unwrap();
        std::fs::write(dir.path().join("a b.rs"), "fn main() {}\n").unwrap();
        std::fs::write(dir.path().join("noise.log"), "x\n").unwrap();
        let repository = Repository::at(dir.path()).unwrap();
        assert_eq!(repository.files, [".gitignore", "a b.rs"]);
        assert_eq!(repository.ending(".rs").collect::<Vec<_>>(), ["a b.rs"]);
        assert_eq!(repository.sources().unwrap()[0].path, "a b.rs");
    }
}
