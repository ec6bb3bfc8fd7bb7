//! Forbidden words: skipped tests, stubs, and exceptions from rules without exceptions.

use crate::offence::Offence;
use crate::repository::Repository;
use crate::source::{Source, line_of};
use anyhow::Result;

/// Words in code, and what to do instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("#[ignore", "a test that does not run proves nothing; make it quick or delete it"),
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("clippy::too_many_arguments", "six is enough; group the arguments in a struct"),
];

/// Reports forbidden words, and crates without the workspace's lints.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let mut offences: Vec<Offence> = repository.sources()?.iter().flat_map(in_source).collect();
    for path in repository.ending("/Cargo.toml") {
        offences.extend(in_manifest(path, &repository.text(path)?));
    }
    Ok(offences)
}

fn in_source(source: &Source) -> Vec<Offence> {
    let code = &source.masked.code;
    let find = |(text, what): &(&str, &str)| {
        let hits = code.match_indices(text);
        let offence =
            |(at, _)| Offence::at(&source.path, line_of(code, at), format!("`{text}`: {what}"));
        hits.map(offence).collect::<Vec<_>>()
    };
    FORBIDDEN.iter().flat_map(find).collect()
}

fn in_manifest(path: &str, text: &str) -> Option<Offence> {
    let inherits = text.contains("[lints]\nworkspace = true");
    let what = "does not take the workspace's lints; add [lints] workspace = true";
    (!inherits).then(|| Offence::new(path, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_found() {
        for (text, _) in FORBIDDEN {
            let source = Source::new("a.rs", &format!("\n{text}\n"));
            assert_eq!(in_source(&source)[0].place, "a.rs:2", "{text}");
        }
    }

    #[test]
    fn comments_and_strings_may_name_them() {
        let source = Source::new("a.rs", "// #[ignore]\nlet a = \"todo!\";\n");
        assert_eq!(in_source(&source), []);
    }

    #[test]
    fn a_crate_without_lints_is_found() {
        assert!(in_manifest("a/Cargo.toml", "[package]\nname = \"a\"\n").is_some());
        assert!(in_manifest("a/Cargo.toml", "[lints]\nworkspace = true\n").is_none());
    }
}
