//! Names that other tools give to options and commands of this one.

use super::Verb;
use super::flag_of;
use super::renamed::{key_of, typed};

/// Options of other tools, with those that do the same here: of a command the first that it has.
const OPTIONS: [(&str, &[&str]); 24] = [
    ("--E0s", &["--isolated"]),
    ("--batch-size", &["--training::batch", "--evaluation::batch_size"]),
    ("--ctx-size", &["--evaluation::window", "--window"]),
    ("--cutoff", &["--architecture::cutoff"]),
    ("--dt", &["--timestep"]),
    ("--dump", &["--every"]),
    ("--e0s", &["--isolated"]),
    ("--learning-rate", &["--rate"]),
    ("--lr", &["--rate"]),
    ("--max-steps", &["--steps"]),
    ("--nsamples", &["--calibration::num_tokens"]),
    ("--num-epochs", &["--epochs"]),
    ("--num-samples", &["--calibration::num_tokens", "--limit"]),
    ("--num-train-epochs", &["--epochs"]),
    ("--outfile", &["--output"]),
    ("--output-dir", &["--output"]),
    ("--output-path", &["--output"]),
    ("--outtype", &["--dtype"]),
    ("--per-device-train-batch-size", &["--training::batch"]),
    ("--r-max", &["--architecture::cutoff"]),
    ("--ratio", &["--keep"]),
    ("--seqlen", &["--calibration::seq_len"]),
    ("--sparsity", &["--keep"]),
    ("--torch-dtype", &["--dtype"]),
];

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

/// What an option of another tool is called here: `is called --rate here` of `--lr`. `has` says
/// whether the command has an option of this key.
#[must_use]
pub fn option_elsewhere(flag: &str, has: &dyn Fn(&str) -> bool) -> Option<String> {
    let flag = format!("--{}", flag_of(flag.trim_start_matches('-')));
    let (_, here) = OPTIONS.iter().find(|(name, _)| *name == flag)?;
    let here = here.iter().find(|option| has(&key_of(option)))?;
    Some(format!("is called {} here", typed(here)))
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
        let has = |verb: &Verb, key: &str| (verb.fields)().iter().any(|f| f.is_called(key));
        for (flag, here) in OPTIONS {
            for option in here {
                let with: Vec<&Verb> =
                    VERBS.iter().filter(|verb| has(verb, &key_of(option))).collect();
                assert!(!with.is_empty(), "{flag}: no command has {option}");
                let own = with.iter().any(|verb| !has(verb, &key_of(flag)));
                assert!(own, "{flag} is an option of every command that has {option}");
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
        let told = |flag: &str| option_elsewhere(flag, &|key| key == "rate" || key == "training");
        assert_eq!(told("--lr").as_deref(), Some("is called --rate here"));
        assert_eq!(told("--batch-size").as_deref(), Some("is called --training batch=VALUE here"));
        assert_eq!(told("--dt"), None);
        assert_eq!(commands_elsewhere("md", VERBS), ["molecule md"]);
        assert_eq!(commands_elsewhere("quantize", VERBS), ["export"]);
    }
}
