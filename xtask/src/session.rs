//! Console sessions of documents, run and compared.
//!
//! Blocks marked `console` hold commands after `$ ` and their output. In a line `[..]` stands for
//! any text, a line `...` for any number of lines, and `? 2` for the exit code 2. Commands run with
//! `linwright` first in the path: the test build, which prints the same as the release build.

use crate::markdown::{Block, blocks};
use crate::offence::Offence;
use crate::process::complaint;
use crate::repository::Repository;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One command of a session with its expected output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
    exit_code: i32,
}

/// The commands of all sessions of a page.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    blocks(page, "console").iter().flat_map(steps_of).collect()
}

fn steps_of(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (offset, line) in block.text.lines().enumerate() {
        let code = line.strip_prefix("? ").and_then(|code| code.parse().ok());
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                line: block.line + offset,
                command: command.to_owned(),
                expected: Vec::new(),
                exit_code: 0,
            });
        } else if let Some(step) = steps.last_mut() {
            match code {
                Some(code) => step.exit_code = code,
                None => step.expected.push(line.to_owned()),
            }
        }
    }
    steps
}

/// The folder for builds.
pub(crate) fn target(repository: &Repository) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    repository.root.join(target)
}

/// Builds the command and returns its folder.
pub(crate) fn build(root: &Path, target: &Path) -> Result<PathBuf> {
    let mut build = Command::new("cargo");
    // All crates at once, so that their dependencies are the same as in the tests and already
    // built.
    build.current_dir(root).args(["build", "--workspace", "--bins", "--quiet", "--target-dir"]);
    if let Some(printed) = complaint(build.arg(target))? {
        bail!("`cargo build` failed\n{printed}");
    }
    Ok(target.join("debug"))
}

/// Runs a command of a page in a folder: an offence if output or exit code differ.
pub(crate) fn offence(
    step: &Step,
    page: &str,
    folder: &Path,
    binaries: &Path,
) -> Result<Option<Offence>> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(binaries.to_owned()).chain(std::env::split_paths(&inherited));
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {}", step.command)])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(folders)?)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{}`", step.command))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let expected: Vec<&str> = step.expected.iter().map(|line| line.trim_end()).collect();
    if output.status.code() == Some(step.exit_code) && lines_match(&expected, &printed) {
        return Ok(None);
    }
    let (status, shown) = (output.status, printed.join("\n    | "));
    let what = format!("`{}` ended with {status} and printed\n    | {shown}", step.command);
    Ok(Some(Offence::at(page, step.line, what)))
}

/// Whether lines match the pattern, in which `...` stands for any number of lines.
fn lines_match(pattern: &[&str], lines: &[&str]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skip| lines_match(rest, &lines[skip..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| line_matches(first, line) && lines_match(rest, lines)),
    }
}

/// Whether a line matches the pattern, in which `[..]` stands for any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    match pattern.split_once("[..]") {
        None => pattern == line,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|line| {
            let mut ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
            ends.any(|at| line_matches(rest, &line[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(text: &str) -> Vec<Step> {
        steps(&format!("```console\n{text}```\n"))
    }

    fn run_here(text: &str) -> Vec<Offence> {
        let dir = tempfile::tempdir().unwrap();
        let check = |step: &Step| offence(step, "README.md", dir.path(), dir.path()).unwrap();
        session(text).iter().filter_map(check).collect()
    }

    #[test]
    fn a_session_that_holds_passes() {
        assert_eq!(run_here("$ echo one two\none [..]\n$ printf 'a\\nb\\nc\\n'\n...\nc\n"), []);
        assert_eq!(run_here("$ echo no >&2; exit 3\nno\n? 3\n"), []);
    }

    #[test]
    fn other_output_or_exit_code_is_found() {
        let offences = run_here("$ echo one\none\n$ echo two\nthree\n");
        assert_eq!(offences[0].place, "README.md:4");
        assert!(offences[0].what.contains("| two"), "{offences:?}");
        assert_eq!(run_here("$ exit 1\n").len(), 1);
        assert_eq!(run_here("$ echo more\n").len(), 1);
        assert_eq!(run_here("$ true\nmissing\n").len(), 1);
    }

    #[test]
    fn wildcards() {
        assert!(
            line_matches("a[..]c", "abc")
                && line_matches("[..]", "")
                && line_matches("é[..]", "é→")
        );
        assert!(!line_matches("a[..]c", "abd") && !line_matches("a", "ab"));
        assert!(lines_match(&["a", "...", "z"], &["a", "z"]));
        assert!(!lines_match(&["a", "..."], &["b"]));
    }

    #[test]
    fn a_program_that_does_not_build_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Cargo.toml"), "[package]\n").unwrap();
        assert!(build(dir.path(), &dir.path().join("target")).is_err());
    }
}
