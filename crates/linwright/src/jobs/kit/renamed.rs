//! Old names of options, from the list of the repository: `renamed.json`.

use super::terms::{Catalogue, Key};
use super::{Field, Kind, ValueKind, flag_of};
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
/// `words` are those of the command, `fields` its options.
#[must_use]
pub fn renamed(words: &str, flag: &str, fields: &[Field]) -> Option<String> {
    let flag = format!("--{}", flag_of(flag.trim_start_matches('-')));
    let renamed = |new: &str| format!("was renamed: {new}");
    if let Some(new) = RENAMED.options.get(&format!("{words} {flag}")) {
        return Some(
            new.as_deref().map_or_else(|| "was removed".to_owned(), |n| renamed(&typed(n, fields))),
        );
    }
    if let Some(Some(new)) = RENAMED.options.get(&flag)
        && takes(fields, new)
    {
        return Some(renamed(&typed(new, fields)));
    }
    RENAMED.commands.iter().find_map(|[old, new]| {
        let verb = verb_of(old);
        let new = new.strip_prefix(verb).unwrap_or(new);
        let is_here = verb.is_empty() || verb.join(" ") == words;
        let is_taken = new.first().is_some_and(|option| takes(fields, option));
        (is_here && old.contains(&flag) && is_taken).then(|| renamed(&with_words(&new.join(" "))))
    })
}

/// The words before the first option.
fn verb_of(arguments: &[String]) -> &[String] {
    let end = arguments.iter().position(|word| word.starts_with('-'));
    &arguments[..end.unwrap_or(arguments.len())]
}

/// The key of the option in `--new`, `--new:key`, `--new=value`.
fn key_of(new: &str) -> String {
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
pub(super) fn typed(new: &str, fields: &[Field]) -> String {
    if let Some((flag, key)) = new.split_once("::") {
        let value = if key.contains('=') { "" } else { "=VALUE" };
        return format!("{flag} {key}{value}");
    }
    match (new.split_once(':'), new.split_once('=')) {
        (Some((flag, key)), Some(_)) => format!("{flag} {}:{key}", head_of(flag, fields)),
        (Some((flag, key)), None) => format!("{flag} {}:{key}=VALUE", head_of(flag, fields)),
        (None, Some((flag, value))) => format!("{flag} {value}"),
        (None, None) => new.to_owned(),
    }
}

/// The word for what stands before the keys of an option: `NAME`, or `STEPS` of `--recover`.
fn head_of(flag: &str, fields: &[Field]) -> String {
    let field = fields.iter().find(|field| field.is_called(&key_of(flag)));
    match field.map(|field| &field.kind) {
        Some(Kind::Term(Catalogue { head: Some(Key { kind, name, .. }), .. }))
            if !matches!(kind, ValueKind::Named(_)) =>
        {
            name.to_uppercase()
        }
        _ => "NAME".to_owned(),
    }
}

/// Whether a command with these options takes `--new`, `--new=value`, or the key of `--new:key` and
/// `--new::key`.
pub(super) fn takes(fields: &[Field], new: &str) -> bool {
    let Some(field) = fields.iter().find(|field| field.is_called(&key_of(new))) else {
        return false;
    };
    let Some((_, key)) = new.split_once(':') else { return true };
    let key = key.trim_start_matches(':').split('=').next().unwrap_or_default();
    let Kind::Term(catalogue) = &field.kind else { return false };
    catalogue.entries.iter().flat_map(|entry| &entry.keys).any(|own| own.name == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{OTHERS, STREAMED, VERBS};

    /// The options of all commands, by their words.
    fn commands() -> Vec<(String, Vec<Field>)> {
        let verbs = VERBS.iter().chain(STREAMED).map(|verb| (verb.words(), (verb.fields)()));
        verbs.chain(OTHERS.iter().map(|(words, fields)| ((*words).to_owned(), fields()))).collect()
    }

    #[test]
    fn every_old_name_is_gone_and_leads_to_an_option_that_exists() {
        let all = commands();
        for (old, new) in &RENAMED.options {
            let (words, flag) = old.rsplit_once(' ').unwrap_or(("", old));
            let mut of: Vec<_> =
                all.iter().filter(|(own, _)| words.is_empty() || own == words).collect();
            assert!(!of.is_empty(), "{old}: no such command");
            if let Some(new) = new {
                of.retain(|(_, fields)| takes(fields, new));
                assert!(!of.is_empty(), "{old}: no command takes {new}");
            }
            // An alias of one command may keep a name that the others lost.
            let told = of.iter().filter(|(_, fields)| !takes(fields, flag));
            let told: Vec<_> = told.map(|(own, fields)| renamed(own, flag, fields)).collect();
            let is_told =
                |told: &Option<String>| told.as_ref().is_some_and(|told| told.starts_with("was "));
            assert!(!told.is_empty() && told.iter().all(is_told), "{old}: {told:?}");
        }
        for [old, new] in &RENAMED.commands {
            let verb = verb_of(old).join(" ");
            let of = || all.iter().filter(|(own, _)| verb.is_empty() || *own == verb);
            let is_option = |word: &&String| word.starts_with("--");
            for option in new.iter().filter(is_option) {
                assert!(of().any(|(_, fields)| takes(fields, option)), "{option}");
            }
            let is_gone = |option: &String| of().any(|(_, fields)| !takes(fields, option));
            assert!(old.iter().filter(is_option).any(is_gone), "{old:?}");
            // An entry of `options` comes first when one option is asked for: of several, or of
            // one value, only the arguments as a whole are new.
            let is_value = |word: &String| !word.starts_with("--") && !word.starts_with('{');
            let rest = &old[verb_of(old).len()..];
            if let [option, values @ ..] = rest
                && !values.iter().any(|word| is_option(&word) || is_value(word))
            {
                let hidden = RENAMED.options.contains_key(&format!("{verb} {option}"));
                assert!(!hidden, "{verb} {option} is in both lists");
            }
        }
    }

    #[test]
    fn what_is_typed_is_told() {
        let all = commands();
        let told = |words: &str, flag: &str| {
            let (_, fields) = all.iter().find(|(own, _)| own == words).expect("a command");
            renamed(words, flag, fields).unwrap_or_default()
        };
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
            ("search", "--compat", "--start 28 --evaluation compat=true"),
            ("compress", "--num-tokens", "--calibration DATASET:num_tokens=VALUE"),
            ("compare-net", "--calibration-labels", "--calibration IMAGES:labels=VALUE"),
        ] {
            assert_eq!(told(words, flag), format!("was renamed: {new}"));
        }
        assert_eq!(told("eval", "--rho"), "");
    }
}
