//! Running of other programs.

use anyhow::{Context, Result};
use std::process::{Command, Stdio};

/// Runs a command: none if it succeeded, else all of its output.
///
/// # Errors
/// If it cannot start.
pub(crate) fn complaint(command: &mut Command) -> Result<Option<String>> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if output.status.success() {
        return Ok(None);
    }
    let printed = [output.stdout, output.stderr].concat();
    Ok(Some(String::from_utf8_lossy(&printed).into_owned()))
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// If it cannot start, fails, or its output is not text.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    anyhow::ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("output of {command:?}"))
}

/// Whether a program answers to `--version`.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_is_seen() {
        assert_eq!(complaint(&mut Command::new("true")).unwrap(), None);
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo one; echo two >&2; exit 1"]);
        assert_eq!(complaint(&mut failing).unwrap().unwrap(), "one\ntwo\n");
        assert!(output(&mut Command::new("false")).is_err());
        assert!(complaint(&mut Command::new("no-such-program-at-all")).is_err());
        assert!(!is_installed("no-such-program-at-all"));
    }
}
