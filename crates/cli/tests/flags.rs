//! Every verb explains its flags, and every flag is tried somewhere in these tests.

use crate::workshop::{Workshop, names};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const VERBS: [&str; 15] = [
    "inspect",
    "compress",
    "eval",
    "generate",
    "chat",
    "serve",
    "run",
    "report",
    "export",
    "import",
    "train-lm",
    "ls",
    "bench operators",
    "bench model",
    "rotor convergence",
];

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
    for verb in VERBS {
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
    for verb in VERBS {
        let first = verb.split(' ').next().unwrap();
        assert!(help.contains(&format!("\n  {first} ")), "{verb} in {help}");
    }
    for code in ["3 invalid recipe", "4 quality gate", "75 interrupted"] {
        assert!(help.contains(code), "{code:?} in {help}");
    }
    assert!(w.ok("--version").starts_with("linwright 0."));
    w.fails("optimise model", 2, &["optimise"]);
    w.fails("eval model --windw 3", 2, &["--windw", "--window"]);
}
