//! The compiler and clippy have nothing to say.

use crate::offence::Offence;
use crate::process::complaint;
use crate::repository::Repository;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Everything as it is built by default.
const WORKSPACE: &[&str] = &["--workspace", "--all-targets"];
/// With what is behind features. All crates at once, so that what they depend on is as above and
/// checked already.
const FEATURES: &[&str] =
    &["--workspace", "--all-targets", "--features", "linwright-cli/hub,linwright-cli/parquet"];
/// Without what is on by default. The fuzzer needs it.
const LEAST: &[&str] =
    &["--workspace", "--exclude", "linwright-fuzz", "--no-default-features", "--lib", "--bins"];

/// Reports if the workspace has a warning.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let mut offences = Vec::new();
    for what in [WORKSPACE, FEATURES, LEAST] {
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
                complaint(clippy(dir.path(), WORKSPACE).env("CARGO_TARGET_DIR", target));
            assert_eq!(complaint.unwrap().is_none(), clean, "{body}");
        }
    }
}
