//! Old names of options, from the list of the repository: `renamed.json`.

use super::{Kind, ValueKind, flag_of};
use crate::jobs::VERBS;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The list, which `tools/freeze.py` reads as well, and `tools/renaming.py` describes.
const LIST: &str = include_str!("../../../renamed.json");

/// What the list says of options and commands.
#[derive(Deserialize)]
struct Renamed {
    /// `--old` of every verb that has the new one, or `verb --old`; null if it is gone.
    options: BTreeMap<String, Option<String>>,
    /// Old and new arguments.
    commands: Vec<[Vec<String>; 2]>,
}

static RENAMED: LazyLock<Renamed> = LazyLock::new(|| {
    serde_json::from_str(LIST).unwrap_or_else(|error| unreachable!("renamed.json: {error}"))
});

/// What became of an option that a command had: `was renamed: --calibration` of `--dataset`.
/// `words` are those of the command, `has` says whether it has an option of this key.
#[must_use]
pub fn renamed(words: &str, flag: &str, has: &dyn Fn(&str) -> bool) -> Option<String> {
    let flag = format!("--{}", flag_of(flag.trim_start_matches('-')));
    let renamed = |new: &str| format!("was renamed: {new}");
    if let Some(new) = RENAMED.options.get(&format!("{words} {flag}")) {
        return Some(
            new.as_deref().map_or_else(|| "was removed".to_owned(), |n| renamed(&typed(n))),
        );
    }
    if let Some(Some(new)) = RENAMED.options.get(&flag)
        && has(&key_of(new))
    {
        return Some(renamed(&typed(new)));
    }
    RENAMED.commands.iter().find_map(|[old, new]| {
        let verb = verb_of(old);
        let new = new.strip_prefix(verb).unwrap_or(new);
        let is_here = verb.is_empty() || verb.join(" ") == words;
        let is_taken = new.first().is_some_and(|option| has(&key_of(option)));
        (is_here && old.contains(&flag) && is_taken).then(|| renamed(&with_words(&new.join(" "))))
    })
}

/// The words before the first option.
fn verb_of(arguments: &[String]) -> &[String] {
    let end = arguments.iter().position(|word| word.starts_with('-'));
    &arguments[..end.unwrap_or(arguments.len())]
}

/// The key of the option in `--new`, `--new:key`, `--new=value`.
pub(super) fn key_of(new: &str) -> String {
    let name = new.trim_start_matches('-');
    name.split([':', '=']).next().unwrap_or_default().replace('-', "_")
}

/// Arguments with a word in capitals for each `{word}`.
fn with_words(arguments: &str) -> String {
    let mut parts = arguments.split(['{', '}']);
    let plain = parts.next().unwrap_or_default().to_owned();
    let parts: Vec<&str> = parts.collect();
    parts
        .chunks(2)
        .fold(plain, |text, pair| text + &pair[0].to_uppercase() + pair.get(1).unwrap_or(&""))
}

/// What is typed for `--new`, `--new:key`, `--new:key=value`, `--new=value`, and `--new::key` or
/// `--new::key=value` of an argument without a name.
pub(super) fn typed(new: &str) -> String {
    if let Some((flag, key)) = new.split_once("::") {
        let value = if key.contains('=') { "" } else { "=VALUE" };
        return format!("{flag} {key}{value}");
    }
    match (new.split_once(':'), new.split_once('=')) {
        (Some((flag, key)), Some(_)) => format!("{flag} {}:{key}", head_of(flag)),
        (Some((flag, key)), None) => format!("{flag} {}:{key}=VALUE", head_of(flag)),
        (None, Some((flag, value))) => format!("{flag} {value}"),
        (None, None) => new.to_owned(),
    }
}

/// The word for what stands before the keys of an option: `NAME`, or `STEPS` of `--recover`.
fn head_of(flag: &str) -> String {
    let key = key_of(flag);
    let fields = VERBS.iter().flat_map(|verb| (verb.fields)());
    let catalogues = fields.filter(|field| field.key == key).filter_map(|field| match field.kind {
        Kind::Term(catalogue) => catalogue.head.as_ref(),
        _ => None,
    });
    let mut words = catalogues.filter(|head| !matches!(head.kind, ValueKind::Named(_)));
    words.next().map_or_else(|| "NAME".to_owned(), |head| head.name.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::kit::Field;
    use crate::jobs::{OTHERS, Verb};

    fn has(verb: &Verb, key: &str) -> bool {
        (verb.fields)().iter().any(|field| field.is_called(key))
    }

    /// Checks an old name of a command that is not a job.
    fn check_other(fields: &[Field], old: &str, words: &str, flag: &str) {
        let has = |key: &str| fields.iter().any(|field| field.is_called(key));
        let new = RENAMED.options[old].as_deref();
        assert!(!has(&key_of(flag)) && new.is_none_or(|new| has(&key_of(new))), "{old}");
        assert!(renamed(words, flag, &has).is_some(), "{old}");
    }

    #[test]
    fn every_old_name_is_gone_and_leads_to_an_option_that_exists() {
        for (old, new) in &RENAMED.options {
            let (words, flag) = old.rsplit_once(' ').unwrap_or(("", old));
            if let Some((_, fields)) = OTHERS.iter().find(|(name, _)| *name == words) {
                check_other(&fields(), old, words, flag);
                continue;
            }
            let named = |verb: &&Verb| words.is_empty() || verb.words() == words;
            let mut of: Vec<&Verb> = VERBS.iter().filter(named).collect();
            assert!(!of.is_empty(), "{old}: no such command");
            if let Some(new) = new {
                of.retain(|verb| has(verb, &key_of(new)));
            }
            // An alias of one command may keep a name that the others lost.
            let key = key_of(flag);
            let told = of.iter().filter(|verb| !has(verb, &key));
            let told: Vec<_> = told
                .filter_map(|verb| renamed(&verb.words(), flag, &|key| has(verb, key)))
                .collect();
            assert!(!told.is_empty() && told.iter().all(|told| told.starts_with("was ")), "{old}");
        }
        for [old, new] in &RENAMED.commands {
            let verb = verb_of(old).join(" ");
            let named = |own: &&Verb| verb.is_empty() || own.words() == verb;
            let options = |words: &[String]| {
                words.iter().filter(|word| word.starts_with("--")).cloned().collect::<Vec<_>>()
            };
            for option in options(new) {
                assert!(
                    VERBS.iter().filter(named).any(|own| has(own, &key_of(&option))),
                    "{option}"
                );
            }
            assert!(options(old).iter().any(|option| {
                VERBS.iter().filter(named).any(|own| !has(own, &key_of(option)))
            }));
        }
    }

    #[test]
    fn what_is_typed_is_told() {
        let told = |words: &str, flag: &str| renamed(words, flag, &|_| true).unwrap_or_default();
        for (words, flag, new) in [
            ("compress", "--dataset", "--calibration"),
            ("compress", "epochs", "--method NAME:epochs=VALUE"),
            ("compress", "--trained", "--method NAME:fit=trained"),
            ("compress", "--marchenko_pastur", "--size mp"),
            ("compress", "--eval", "--calibration FITTED --text JUDGED"),
            ("compress", "--operator", "--method structured:operator=KIND"),
            ("compare", "--method-options", "--methods NAME:KEY=VALUE"),
            ("sweep", "rho", "--size rho=NUMBER"),
            ("eval", "--questions", "--tasks questions --data questions=FILE"),
            ("compress", "--budget", "--method best --keep SHARE"),
            ("compress", "--recover-rate", "--recover STEPS:rate=VALUE"),
            ("sweep", "--gamma", "--intervention NAME:gamma=VALUE"),
            ("sweep", "--batch-size", "--evaluation batch_size=VALUE"),
        ] {
            assert_eq!(told(words, flag), format!("was renamed: {new}"));
        }
        assert_eq!(told("eval", "--rho"), "");
    }
}
