//! Every verb explains its flags, and every flag is tried somewhere in these tests.

use crate::workshop::{Workshop, names};
use linwright::jobs::{VERBS, Verb};
use std::collections::{BTreeMap, BTreeSet};
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

/// Lines of a screen.
const SCREEN: usize = 40;

#[test]
fn the_short_help_of_every_command_fits_a_screen_and_says_where_the_rest_is() {
    let w = Workshop::new();
    for verb in verbs(&w, "").iter().chain([&String::new()]) {
        let (short, long) = (w.ok(&format!("{verb} -h")), w.ok(&format!("{verb} --help")));
        let lines = short.lines().count();
        assert!(lines <= SCREEN, "{verb} -h has {lines} lines:\n{short}");
        let hidden = flags(&long).difference(&flags(&short)).count();
        assert!(hidden <= 8 || short.contains("--help"), "{verb}: {short}");
    }
}

#[test]
fn the_names_of_options_are_those_of_the_list() {
    let w = Workshop::new();
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for verb in verbs(&w, "") {
        let help = w.ok(&format!("{verb} --help"));
        // Options are indented by six columns, descriptions by more.
        let defined = help.lines().filter_map(|line| {
            let (before, rest) = line.split_at_checked(6)?;
            let is_option = before.trim().is_empty() || before.starts_with("  -");
            let name = rest.strip_prefix("--").filter(|_| is_option)?;
            Some(name.split([' ', '.']).next().unwrap_or_default().to_owned())
        });
        for name in defined {
            names.entry(name).or_default().insert(verb.clone());
        }
    }
    let listed = names.iter().map(|(name, verbs)| format!("{name} {}\n", verbs.len()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/option_names.txt");
    let known = fs::read_to_string(path).unwrap();
    let (listed, known): (BTreeSet<String>, BTreeSet<String>) =
        (listed.collect(), known.lines().map(|line| format!("{line}\n")).collect());
    let more: String = listed.difference(&known).cloned().collect();
    let gone: String = known.difference(&listed).cloned().collect();
    assert!(
        more.is_empty() && gone.is_empty(),
        "options are added by a line in tests/option_names.txt, with the number of commands that \
         have them; new:\n{more}gone:\n{gone}"
    );
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

#[test]
fn an_old_name_is_answered_with_the_new_one() {
    let w = Workshop::new();
    for (command, told) in [
        ("compress model --dataset a.txt -o out", "--dataset was renamed: --calibration"),
        ("--threads 1 plan model --targets=up", "--targets was renamed: --roles"),
        ("molecule compress model.ckpt --targets up -o out", "--targets was renamed: --roles"),
        ("sweep model --lname fc_in --lnum 1", "--lname was renamed: --roles"),
        ("search model --l_num 1", "unexpected argument"),
        ("eval model --targets up", "unexpected argument"),
    ] {
        w.fails(command, 2, &[told]);
    }
    w.write("old.yaml", "version: 1\njobs:\n  - sweep: {model: model, lnum: 1, keep: 0.5}\n");
    w.fails("run -r old.yaml -o out", 3, &["lnum was renamed: --layers"]);
    let told = w.run("compress model --dataset a.txt -o out --json");
    let message = "\"message\":\"--dataset was renamed: --calibration\"";
    assert!(told.code == Some(2) && told.stderr.contains(message), "{}", told.stderr);
}

#[test]
fn a_name_of_another_tool_is_answered_with_the_one_here() {
    let w = Workshop::new();
    for (command, told) in [
        ("train-net mlp:8 --images a --lr 0.1 -o out", "--lr is called --rate here"),
        (
            "prune model --sparsity 0.5 -o out",
            "--sparsity is the share removed; the share kept is --keep",
        ),
        ("eval serve --questions q", "--questions was renamed: --tasks questions"),
        ("eval model --ctx-size 64", "--ctx-size is called --window here"),
        ("compare model --ctx-size 64", "--ctx-size is called --evaluation window=VALUE here"),
        ("md potential.ckpt start.xyz", "md: see linwright molecule md"),
        ("quantize model", "quantize: see linwright export"),
        ("inspect model --lr 0.1", "unexpected argument"),
    ] {
        w.fails(command, 2, &[told]);
    }
    let told = w.run("train --json");
    let message = "\"message\":\"train: see linwright train-lm, linwright train-net";
    assert!(told.code == Some(2) && told.stderr.contains(message), "{}", told.stderr);
}
