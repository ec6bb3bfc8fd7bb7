//! Options that a message names are options of the command that failed: advice that leads to
//! another error is worse than none.

use crate::workshop::Workshop;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The options of each command, by its words.
static OFFERED: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

/// The long options in a text, but for those of other commands, which stand between backticks.
pub(crate) fn named(text: &str) -> BTreeSet<String> {
    let own = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let outside = |c: char| !(c.is_ascii_lowercase() || c == '-');
    let words = own.split(outside).map(|word| word.trim_end_matches('-'));
    words.filter(|word| word.starts_with("--") && word.len() > 3).map(str::to_owned).collect()
}

/// Checks what a failed command said.
pub(crate) fn check(w: &Workshop, args: &str, stderr: &str) {
    let words: Vec<&str> = args.split_whitespace().take_while(|w| !w.starts_with('-')).collect();
    let verb = words[..words.len().min(2)].join(" ");
    let given = named(args);
    let advised: Vec<String> =
        named(stderr).into_iter().filter(|option| !given.contains(option)).collect();
    if advised.is_empty() || verb.is_empty() {
        return;
    }
    let known = OFFERED.lock().unwrap().get(&verb).cloned();
    let offered = known.unwrap_or_else(|| {
        let offered = named(&w.ok(&format!("{verb} --help")));
        OFFERED.lock().unwrap().insert(verb.clone(), offered.clone());
        offered
    });
    for option in advised {
        assert!(offered.contains(&option), "{verb} has no {option}, which it names: {stderr}");
    }
}

#[test]
fn options_of_other_commands_are_told_from_own_ones() {
    let said = "error: x: give --text-field (see `ls tasks --json`), or --keep 0.5; --force.";
    let found: Vec<String> = named(said).into_iter().collect();
    assert_eq!(found, ["--force", "--keep", "--text-field"]);
}
