//! Every verb explains its flags, and every flag is tried somewhere in these tests.

use crate::workshop::{Workshop, names};
use linwright::jobs::{VERBS, Verb};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The verbs that the help of a command lists, and those below them: `eval`, `bench model`.
pub(crate) fn verbs(w: &Workshop, of: &str) -> Vec<String> {
    let help = w.ok(&format!("{of} --help"));
    let mut lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).peekable();
    if lines.peek().is_none() {
        return vec![of.to_owned()];
    }
    // Names are indented by two spaces; their descriptions are indented further.
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| format!("{of} {name}").trim().to_owned())
    });
    names.flat_map(|name| verbs(w, &name)).collect()
}

/// The long flags that a text mentions.
fn flags(text: &str) -> BTreeSet<String> {
    let outside = |c: char| !(c.is_ascii_lowercase() || c == '-');
    text.split(outside)
        .filter(|word| word.starts_with("--") && word.len() > 3)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_flag_is_tried_in_a_test() {
    let w = Workshop::new();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let sources = names(&tests).into_iter().filter(|name| name != "flags.rs");
    let tried: BTreeSet<String> =
        sources.flat_map(|name| flags(&fs::read_to_string(tests.join(name)).unwrap())).collect();
    for verb in verbs(&w, "") {
        let help = w.ok(&format!("{verb} --help"));
        let offered = flags(&help);
        assert!(offered.contains("--json") && offered.contains("--threads"), "{help}");
        for flag in offered.iter().filter(|flag| *flag != "--help") {
            assert!(tried.contains(flag), "no test tries {flag} of {verb}");
        }
    }
}

#[test]
fn the_top_names_all_verbs_and_exit_codes() {
    let w = Workshop::new();
    let help = w.ok("--help");
    let verbs = verbs(&w, "");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands");
    let files: BTreeSet<String> = names(&sources).into_iter().collect();
    for verb in &verbs {
        let verb = verb.split(' ').next().unwrap();
        let folder = verb.replace('-', "_");
        let is_group = |job: &Verb| job.grouped().is_some_and(|(group, _)| group.name == verb);
        let is_job = VERBS.iter().any(|job| job.name == verb || is_group(job));
        assert!(
            is_job || files.contains(&format!("{folder}.rs")) || files.contains(&folder),
            "{verb} in {files:?}"
        );
    }
    for verb in [
        "laser",
        "sweep",
        "compose",
        "search",
        "select",
        "validate",
        "bench model",
        "rotor convergence",
    ] {
        assert!(verbs.iter().any(|known| known == verb), "{verb} in {verbs:?}");
    }
    for code in ["3 invalid recipe", "4 quality gate", "75 interrupted"] {
        assert!(help.contains(code), "{code:?} in {help}");
    }
    assert!(w.ok("--version").starts_with("linwright 0."));
    w.fails("optimise model", 2, &["optimise"]);
    w.fails("eval model --windw 3", 2, &["--windw", "--window"]);
}
