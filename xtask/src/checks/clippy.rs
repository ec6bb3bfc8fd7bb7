//! No warnings from compiler and clippy.

use crate::offence::Offence;
use crate::process::complaint;
use crate::repository::Repository;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// All crates with all optional features but MPI. All at once, so that their dependencies are the
/// same and checked once.
const ALL: &[&str] = &[
    "--workspace",
    "--features",
    "linwright-cli/hdf5,linwright-cli/hub,linwright-cli/parquet,linwright-py/python",
];
/// Without default features, which has what is compiled only without one. The fuzzer needs them.
const LEAST: &[&str] =
    &["--workspace", "--exclude", "linwright-fuzz", "--no-default-features", "--lib", "--bins"];

/// Reports warnings of the workspace.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let mut offences = Vec::new();
    let all = [ALL, &["--all-targets"]].concat();
    for what in [all.as_slice(), LEAST] {
        let complaint = complaint(&mut clippy(&repository.root, what))?;
        offences.extend(Offence::from_complaint("clippy", complaint));
    }
    Ok(offences)
}

fn clippy(root: &Path, what: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["clippy", "--quiet"]).args(what);
    command.args(["--", "-D", "warnings"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_fails() {
        for (body, clean) in [("let x = true; assert!(x == true);", false), ("", true)] {
            let dir = tempfile::tempdir().unwrap();
            let manifest = "[package]\nname = \"sample\"\nedition = \"2024\"\n[workspace]\n";
            std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
            std::fs::create_dir(dir.path().join("src")).unwrap();
            let source = format!("fn main() {{ {body} }}\n");
            std::fs::write(dir.path().join("src/main.rs"), source).unwrap();
            let target = dir.path().join("target");
            let complaint =
                complaint(clippy(dir.path(), &["--all-targets"]).env("CARGO_TARGET_DIR", target));
            assert_eq!(complaint.unwrap().is_none(), clean, "{body}");
        }
    }
}
