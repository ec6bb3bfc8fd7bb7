//! Every dependency has its reason in the head of deny.toml.

use crate::offence::Offence;
use crate::repository::Repository;
use anyhow::Result;

const PAGE: &str = "deny.toml";
const TABLE: &str = "[workspace.dependencies]";

/// Reports dependencies without a reason, and reasons without a dependency.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    Ok(offences(&repository.text("Cargo.toml")?, &repository.text(PAGE)?))
}

fn offences(manifest: &str, page: &str) -> Vec<Offence> {
    let dependencies = dependencies(manifest);
    let explained = explained(page);
    let without = dependencies.iter().filter(|name| !explained.contains(name));
    let without = without.map(|name| Offence::new(*name, "has no reason in the head of deny.toml"));
    let gone = explained.iter().filter(|name| !dependencies.contains(name));
    let gone = gone.map(|name| Offence::new(PAGE, format!("{name} is not a dependency any more")));
    without.chain(gone).collect()
}

/// Names in the workspace's table, without our own crates.
fn dependencies(manifest: &str) -> Vec<&str> {
    manifest
        .lines()
        .skip_while(|line| *line != TABLE)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#') && !line.contains("path = "))
        .filter_map(|line| Some(line.split_once('=')?.0.trim()))
        .collect()
}

/// Names in the lines `#   name, name   reason` of the head.
fn explained(page: &str) -> Vec<&str> {
    page.lines()
        .take_while(|line| line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("#   "))
        .filter_map(|line| Some(line.split_once("  ")?.0))
        .flat_map(|names| names.split(", "))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
[workspace]
members = []

[workspace.dependencies]
linwright = { path = \"crates/linwright\" }

gemm = \"0.19\"
half = { version = \"2\" }

[profile.dev]
opt-level = 2
";

    #[test]
    fn reasons_and_dependencies_belong_together() {
        let page = "# Rules.\n#\n#   gemm, half   numbers\n\n#   later    not the head\n";
        assert_eq!(offences(MANIFEST, page), []);
        let page = "# Rules.\n#   gemm   products\n#   faer   decompositions\n";
        let places: Vec<_> =
            offences(MANIFEST, page).into_iter().map(|offence| offence.place).collect();
        assert_eq!(places, ["half", PAGE]);
    }
}
