//! Model families are data: their names occur only in `families/` and in importers.
//!
//! A family name in other code is the beginning of a copied model file. Documentation and tests
//! may name families.

use crate::offence::Offence;
use crate::repository::Repository;
use crate::source::{Source, numbered};
use anyhow::Result;

const FAMILIES: &[&str] =
    &["llama", "qwen", "mistral", "mixtral", "gemma", "gpt2", "gpt_neo", "falcon", "deepseek"];

/// Names of formats and programs that contain a family name, with their meaning.
const FORMATS: &[(&str, &str)] = &[
    ("llama2c", "a file format"),
    ("llama2.c", "the same, in messages"),
    ("llama.cpp", "a program that reads GGUF files"),
    ("llama-cli", "its command"),
    ("llama3", "a kind of rotary scaling in `config.json`"),
];

/// Files that may name families, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/model/src/families/", "the home of family data"),
    (
        "crates/model/src/checkpoint/llama2c",
        "writes the configuration of the one family that its format holds",
    ),
    (
        "crates/model/src/checkpoint/gguf/",
        "architectures of the format and what its files call things, as data",
    ),
    ("crates/model/examples/export_sets.rs", "names of the reference sets that it exports"),
    ("crates/data/src/world/", "people of the little world share some names"),
    ("crates/fuzz/src/targets/", "tokenizers of a family are driven with its own files"),
    ("xtask/src/checks/families.rs", "this list"),
];

/// Reports family names elsewhere.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    Ok(repository.sources()?.iter().flat_map(offences).collect())
}

fn offences(source: &Source) -> Vec<Offence> {
    if ALLOWED.iter().any(|(path, _)| source.path.starts_with(path)) {
        return Vec::new();
    }
    numbered(&source.masked.code_and_literals)
        .filter(|(number, _)| !source.is_test(*number))
        .filter_map(|(number, line)| {
            let formats = FORMATS.iter();
            let line = formats.fold(line.to_lowercase(), |line, (name, _)| line.replace(name, ""));
            let family = FAMILIES.iter().find(|family| line.contains(*family))?;
            let what = format!("names the family `{family}`; ask the family's data instead");
            Some(Offence::at(&source.path, number, what))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        offences(&Source::new(path, text)).len()
    }

    #[test]
    fn names_are_found_in_code_and_strings() {
        assert_eq!(count("crates/compress/src/a.rs", "struct LlamaFit;"), 1);
        assert_eq!(count("crates/model/src/a.rs", "if kind == \"qwen2\" {}"), 1);
    }

    #[test]
    fn families_comments_and_tests_may_name_them() {
        assert_eq!(count("crates/model/src/families/llama.rs", "const LLAMA: u8 = 1;"), 0);
        assert_eq!(count("crates/ops/src/a.rs", "/// As in Llama.\nfn f() {}"), 0);
        assert_eq!(count("crates/model/tests/a.rs", "fn llama() {}"), 0);
        let inside = "#[cfg(test)]\nmod tests {\n    fn llama() {}\n}\n";
        assert_eq!(count("crates/model/src/a.rs", inside), 0);
    }
}
