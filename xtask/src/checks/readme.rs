//! The README: its console sessions, run in the root of the repository, and its two commands.

use crate::markdown::blocks;
use crate::offence::Offence;
use crate::repository::Repository;
use crate::session::{Step, build, offence, steps, target};
use anyhow::Result;
use std::path::Path;

const PAGE: &str = "README.md";
/// Commands that the README must contain, word for word.
const COMMANDS: &[&str] = &["cargo run --release", "cargo test --workspace"];

/// Reports commands with other output or exit codes.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    check(&repository.text(PAGE)?, &repository.root, &target(repository))
}

fn check(page: &str, root: &Path, target: &Path) -> Result<Vec<Offence>> {
    let mut offences = missing_commands(page);
    let steps: Vec<Step> = steps(page);
    if steps.is_empty() {
        offences.push(Offence::new(PAGE, "no `console` block with a command after `$ `"));
    }
    let binaries = build(root, target)?;
    for step in &steps {
        offences.extend(offence(step, PAGE, root, &binaries)?);
    }
    Ok(offences)
}

fn missing_commands(page: &str) -> Vec<Offence> {
    let blocks = blocks(page, "sh");
    let given = |command: &str| blocks.iter().any(|block| block.text.lines().any(|l| l == command));
    let missing = COMMANDS.iter().filter(|command| !given(command));
    missing.map(|command| Offence::new(PAGE, format!("no `sh` block with `{command}`"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package with a program `linwright` that prints its version.
    fn sample(main: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let manifest = "[package]\nname = \"linwright\"\nedition = \"2024\"\n[workspace]\n";
        std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        std::fs::write(dir.path().join("src/main.rs"), main).unwrap();
        dir
    }

    #[test]
    fn a_page_is_held_against_the_program_of_its_repository() {
        let dir = sample("fn main() { println!(\"linwright 0.1\"); }\n");
        let commands = "```sh\ncargo run --release\ncargo test --workspace\n```\n";
        let page = |printed| format!("{commands}```console\n$ linwright\n{printed}\n```\n");
        let check = |page: &str| check(page, dir.path(), &dir.path().join("target")).unwrap();
        assert_eq!(check(&page("linwright [..]")), []);
        assert_eq!(check(&page("linwright 0.2")).len(), 1);
        assert_eq!(check(commands).len(), 1);
    }

    #[test]
    fn both_commands_must_be_there() {
        let good = "```sh\ncargo run --release\n```\n\n```sh\ncargo test --workspace\n```\n";
        assert_eq!(missing_commands(good), []);
        assert_eq!(missing_commands("```sh\ncargo run --release -- x\n```\n").len(), 2);
    }
}
