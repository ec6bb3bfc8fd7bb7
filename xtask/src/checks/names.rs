//! Meaningful names of files, modules and types.
//!
//! A module called `utils` collects unrelated code: its name does not describe the contents, and
//! additions to it need no name.

use crate::offence::Offence;
use crate::repository::Repository;
use crate::source::{Source, line_of, words};
use anyhow::Result;

const MODULES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc"];
const TYPE_ENDINGS: &[&str] = &["Manager", "Helper", "Util", "Utils"];

/// Reports files, modules and types with empty names.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let files = repository.files.iter().flat_map(|path| file_offences(path));
    let sources = repository.sources()?;
    Ok(files.chain(sources.iter().flat_map(source_offences)).collect())
}

fn file_offences(path: &str) -> Vec<Offence> {
    path.split('/')
        .map(|part| part.split('.').next().unwrap_or(part))
        .filter(|stem| MODULES.contains(stem))
        .map(|stem| Offence::new(path, format!("`{stem}` says nothing; name what is inside")))
        .collect()
}

fn source_offences(source: &Source) -> Vec<Offence> {
    let code = &source.masked.code;
    let mut offences = Vec::new();
    for keyword in ["mod", "struct", "enum", "trait"] {
        for at in words(code, keyword) {
            let rest = code[at + keyword.len()..].trim_start();
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
            let bad = match keyword {
                "mod" => MODULES.contains(&name),
                _ => TYPE_ENDINGS.iter().any(|ending| name.ends_with(ending)),
            };
            if bad {
                let what = format!("`{name}` says nothing; name what it holds or does");
                offences.push(Offence::at(&source.path, line_of(code, at), what));
            }
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_are_found() {
        for path in ["crates/ops/src/utils.rs", "crates/ops/src/helpers/mod.rs", "tools/common.py"]
        {
            assert_eq!(file_offences(path).len(), 1, "{path}");
        }
        assert_eq!(file_offences("crates/ops/src/common_factor.rs"), []);
    }

    #[test]
    fn modules_and_types_are_found_by_name() {
        let text = "mod helpers { }\nstruct SlotManager;\nenum Fine { A }\ntrait MathUtil {}\n";
        let places: Vec<_> = source_offences(&Source::new("a.rs", text))
            .into_iter()
            .map(|offence| offence.place)
            .collect();
        assert_eq!(places, ["a.rs:1", "a.rs:2", "a.rs:4"]);
    }
}
