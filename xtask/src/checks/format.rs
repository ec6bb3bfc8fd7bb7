//! Formatting of all Rust files by rustfmt.
//!
//! All files are passed explicitly, since rustfmt does not visit modules declared by a macro, such
//! as the list of operators.

use crate::offence::Offence;
use crate::process::complaint;
use crate::repository::Repository;
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Reports files that are not formatted.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let files: Vec<&str> = repository.ending(".rs").collect();
    let complaint = complaint(rustfmt(&repository.root, &files).args(["--check", "-l"]))?;
    // rustfmt reports nested modules again from the files that declare them.
    let lines: BTreeSet<String> =
        complaint.iter().flat_map(|text| text.lines()).map(String::from).collect();
    Ok(lines.iter().map(|line| offence(line, &repository.root)).collect())
}

/// A line of rustfmt's output is the path of a file that it would change, or a message.
fn offence(line: &str, root: &Path) -> Offence {
    match Path::new(line).strip_prefix(root) {
        Ok(path) => Offence::new(path.to_string_lossy(), "not formatted; run `cargo xtask fmt`"),
        Err(_) => Offence::new("rustfmt", line),
    }
}

/// Formats every file in place.
///
/// # Errors
/// If rustfmt cannot parse a file.
pub(crate) fn write(repository: &Repository) -> Result<()> {
    let files: Vec<&str> = repository.ending(".rs").collect();
    match complaint(&mut rustfmt(&repository.root, &files))? {
        None => Ok(()),
        Some(printed) => bail!("rustfmt cannot format\n{printed}"),
    }
}

fn rustfmt(root: &Path, files: &[&str]) -> Command {
    let mut command = Command::new("rustfmt");
    command.current_dir(root).args(["--edition", "2024", "--config-path", "."]).args(files);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unformatted_file_is_found_and_mended() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rustfmt.toml"), "max_width = 100\n").unwrap();
        std::fs::write(dir.path().join("a.rs"), "fn  a( ) { }\n").unwrap();
        let root = dir.path().to_owned();
        let files = vec!["a.rs".to_owned()];
        let repository = Repository { root, files };
        let what = "not formatted; run `cargo xtask fmt`";
        assert_eq!(run(&repository).unwrap(), [Offence::new("a.rs", what)]);
        write(&repository).unwrap();
        assert_eq!(run(&repository).unwrap(), []);
    }

    #[test]
    fn a_file_that_does_not_parse_is_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rustfmt.toml"), "").unwrap();
        std::fs::write(dir.path().join("a.rs"), "fn a( {\n").unwrap();
        let root = dir.path().to_owned();
        let files = vec!["a.rs".to_owned()];
        assert_eq!(run(&Repository { root, files }).unwrap()[0].place, "rustfmt");
    }
}
