//! Names that other tools give to options and commands of this one.

use super::renamed::{takes, typed};
use super::{Field, Verb, flag_of};

/// Options of other tools, with those that do the same here: of a command the first that it has.
const OPTIONS: [(&str, &[&str]); 20] = [
    ("--E0s", &["--isolated"]),
    (
        "--batch-size",
        &["--training::batch", "--training::batch_tokens", "--evaluation::batch_size"],
    ),
    ("--ctx-size", &["--evaluation::window", "--window"]),
    ("--dt", &["--timestep"]),
    ("--dump", &["--every"]),
    ("--e0s", &["--isolated"]),
    ("--learning-rate", &["--rate"]),
    ("--lr", &["--rate"]),
    ("--max-steps", &["--steps"]),
    ("--num-epochs", &["--epochs"]),
    ("--num-samples", &["--limit"]),
    ("--num-train-epochs", &["--epochs"]),
    ("--outfile", &["--output"]),
    ("--output-dir", &["--output"]),
    ("--output-path", &["--output"]),
    ("--outtype", &["--dtype"]),
    ("--per-device-train-batch-size", &["--training::batch", "--training::batch_tokens"]),
    ("--r-max", &["--architecture::cutoff"]),
    ("--seqlen", &["--calibration:seq_len"]),
    ("--torch-dtype", &["--dtype"]),
];

/// Options of other tools with the share of parameters that is removed.
const REMOVED: [&str; 3] = ["--prune-ratio", "--ratio", "--sparsity"];

/// Commands of other tools, with those that do the same here.
const COMMANDS: [(&str, &[&str]); 7] = [
    ("convert", &["export", "molecule convert"]),
    ("evaluate", &["eval"]),
    ("influence", &["attribute score"]),
    ("lm-eval", &["eval"]),
    ("perplexity", &["eval"]),
    ("quantize", &["export"]),
    ("train", &["train-lm", "train-net", "molecule train", "flow train"]),
];

/// What an option of another tool is called here: `is called --rate here` of `--lr`, in a command
/// with these options.
#[must_use]
pub fn option_elsewhere(flag: &str, fields: &[Field]) -> Option<String> {
    let flag = format!("--{}", flag_of(flag.trim_start_matches('-')));
    if REMOVED.contains(&flag.as_str()) && takes(fields, "--keep") {
        let told = "is the share removed; the share kept is --keep here: 0.8 for 0.2";
        return Some(told.to_owned());
    }
    let (_, here) = OPTIONS.iter().find(|(name, _)| *name == flag)?;
    let here = here.iter().find(|option| takes(fields, option))?;
    Some(format!("is called {} here", typed(here, fields)))
}

/// Commands that do what another tool calls by this name, and those that end with it: `molecule
/// md` of `md`.
#[must_use]
pub fn commands_elsewhere(name: &str, verbs: &[Verb]) -> Vec<String> {
    if let Some((_, here)) = COMMANDS.iter().find(|(other, _)| *other == name) {
        return here.iter().map(|words| (*words).to_owned()).collect();
    }
    let ending = format!(" {name}");
    verbs.iter().map(Verb::words).filter(|words| words.ends_with(&ending)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::VERBS;

    #[test]
    fn names_of_other_tools_lead_to_options_and_commands_that_exist() {
        let options: Vec<Vec<Field>> = VERBS.iter().map(|verb| (verb.fields)()).collect();
        for (flag, here) in OPTIONS {
            for option in here {
                let mut with = options.iter().filter(|fields| takes(fields, option)).peekable();
                assert!(with.peek().is_some(), "{flag}: no command has {option}");
                let is_needed = with.any(|fields| !takes(fields, flag));
                assert!(is_needed, "{flag} is an option of every command that has {option}");
            }
        }
        for (name, here) in COMMANDS {
            assert!(VERBS.iter().all(|verb| verb.words() != name), "{name} is a command");
            for words in here {
                assert!(VERBS.iter().any(|verb| verb.words() == *words), "{name}: no {words}");
            }
        }
        assert!(OPTIONS.is_sorted() && COMMANDS.is_sorted());
    }

    #[test]
    fn what_is_typed_is_told() {
        let told = |words: &str, flag: &str| {
            let verb = VERBS.iter().find(|verb| verb.words() == words).expect("a command");
            option_elsewhere(flag, &(verb.fields)()).unwrap_or_default()
        };
        for (words, flag, expected) in [
            ("train-net", "--lr", "is called --rate here"),
            ("train-net", "--batch-size", "is called --training batch=VALUE here"),
            ("train-lm", "--batch_size", "is called --training batch_tokens=VALUE here"),
            ("compress", "--seqlen", "is called --calibration DATASET:seq_len=VALUE here"),
            ("molecule train", "--r-max", "is called --architecture cutoff=VALUE here"),
            ("train-lm", "--r-max", ""),
            ("compare-net", "--seqlen", ""),
            ("train-net", "--dt", ""),
        ] {
            assert_eq!(told(words, flag), expected, "{words} {flag}");
        }
        assert!(told("prune", "--sparsity").starts_with("is the share removed"));
        assert_eq!(commands_elsewhere("md", VERBS), ["molecule md"]);
        assert_eq!(commands_elsewhere("quantize", VERBS), ["export"]);
    }
}
