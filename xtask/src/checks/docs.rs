//! Documentation without warnings, which include broken links.

use crate::offence::Offence;
use crate::process::complaint;
use crate::repository::Repository;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Reports warnings of rustdoc.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let complaint = complaint(&mut rustdoc(&repository.root))?;
    Ok(Offence::from_complaint("rustdoc", complaint))
}

fn rustdoc(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
    ]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_link_fails() {
        for (link, clean) in [("[`Missing`]", false), ("[`String`]", true)] {
            let dir = tempfile::tempdir().unwrap();
            let manifest = "[package]\nname = \"sample\"\nedition = \"2024\"\n[workspace]\n";
            std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
            std::fs::create_dir(dir.path().join("src")).unwrap();
            std::fs::write(dir.path().join("src/lib.rs"), format!("//! See {link}.\n")).unwrap();
            let target = dir.path().join("target");
            let complaint = complaint(rustdoc(dir.path()).env("CARGO_TARGET_DIR", target));
            assert_eq!(complaint.unwrap().is_none(), clean, "{link}");
        }
    }
}
