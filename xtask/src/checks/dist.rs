//! Settings of the profile `dist` for the command.
//!
//! The effective settings are read from cargo, not from the manifest: a package override could
//! silently replace the profile's general settings. Nothing is built; the build plan is an unstable
//! option, which the variable `RUSTC_BOOTSTRAP` enables.

use crate::offence::Offence;
use crate::process::output;
use crate::repository::Repository;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::process::Command;

const PAGE: &str = "Cargo.toml";
const COMMAND: &str = "linwright";

/// Reports settings that differ.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let plan = output(
        Command::new("cargo")
            .current_dir(&repository.root)
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["build", "--profile", "dist", "--package", "linwright-cli", "--bin", COMMAND])
            .args(["--locked", "-Z", "unstable-options", "--unit-graph"]),
    )?;
    offences(&serde_json::from_str(&plan).context("plan of the build")?)
}

fn offences(plan: &Value) -> Result<Vec<Offence>> {
    let units = plan["units"].as_array().context("a plan without units")?;
    let is_command = |unit: &&Value| {
        unit["target"]["name"] == COMMAND && unit["target"]["kind"] == json!(["bin"])
    };
    let profile = &units.iter().find(is_command).context("a plan without the command")?["profile"];
    let expected = [
        ("strip", &profile["strip"]["resolved"]["Named"], "symbols"),
        ("lto", &profile["lto"], "thin"),
        ("panic", &profile["panic"], "unwind"),
    ];
    let wrong = expected.into_iter().filter(|(_, found, wanted)| found != wanted);
    Ok(wrong
        .map(|(name, found, wanted)| {
            let what = format!("{name} of {COMMAND} is {found}, expected {wanted}");
            Offence::new(format!("{PAGE}: profile dist"), what)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(strip: &str) -> Value {
        let profile =
            json!({"strip": {"resolved": {"Named": strip}}, "lto": "thin", "panic": "unwind"});
        let unit = |name: &str, kind: &str, profile: &Value| json!({"target": {"name": name, "kind": [kind]}, "profile": profile});
        json!({"units": [unit(COMMAND, "lib", &json!({})), unit(COMMAND, "bin", &profile)]})
    }

    #[test]
    fn a_lost_setting_is_found() {
        assert_eq!(offences(&plan("symbols")).unwrap(), []);
        let found = offences(&plan("debuginfo")).unwrap();
        assert_eq!(found.len(), 1);
        assert!(
            found[0].what.contains("strip") && found[0].what.contains("debuginfo"),
            "{found:?}"
        );
        assert!(offences(&json!({"units": []})).is_err());
    }
}
