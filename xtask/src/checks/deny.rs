//! Bans, licences and sources of dependencies by deny.toml, through cargo-deny.

use crate::offence::Offence;
use crate::process::{complaint, is_installed};
use crate::repository::Repository;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "cargo-deny";

/// Reports violations, or that cargo-deny is missing.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    if !is_installed(PROGRAM) {
        let what = "not installed; run `cargo install cargo-deny --locked` (some three minutes)";
        return Ok(vec![Offence::new(PROGRAM, what)]);
    }
    let complaint = complaint(&mut cargo_deny(&repository.root))?;
    Ok(Offence::from_complaint(PROGRAM, complaint))
}

fn cargo_deny(root: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(root).args(["--log-level", "error", "--all-features", "check"]).args([
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_licences_and_sources_are_asked_for() {
        let command = cargo_deny(Path::new("."));
        let args: Vec<_> = command.get_args().collect();
        assert!(args.ends_with(&["bans".as_ref(), "licenses".as_ref(), "sources".as_ref()]));
    }
}
