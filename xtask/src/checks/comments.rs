//! Width of comments, which rustfmt does not change.

use crate::offence::Offence;
use crate::repository::Repository;
use crate::source::Source;
use anyhow::Result;

/// Largest width of a comment line, equal to `max_width` in rustfmt.toml.
const COLUMNS: usize = 100;

/// Reports too wide comments.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    Ok(repository.sources()?.iter().flat_map(offences).collect())
}

fn offences(source: &Source) -> Vec<Offence> {
    let lines = source.text.lines().enumerate();
    let wide = lines.filter(|(_, line)| line.trim_start().starts_with("//"));
    let wide = wide.map(|(index, line)| (index + 1, line.chars().count()));
    wide.filter(|&(_, columns)| columns > COLUMNS)
        .map(|(line, columns)| {
            let what = format!("a comment of {columns} columns, at most {COLUMNS}; wrap it");
            Offence::at(&source.path, line, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Offence> {
        offences(&Source::new("src/a.rs", text))
    }

    #[test]
    fn a_wide_comment_is_found_by_its_characters() {
        let comment = |length: usize| format!("fn f() {{}}\n    /// {}\n", "ä".repeat(length));
        assert_eq!(found(&comment(COLUMNS - 8)), []);
        let offences = found(&comment(COLUMNS - 7));
        assert_eq!(offences[0].place, "src/a.rs:2");
        assert!(offences[0].what.contains("101 columns"), "{offences:?}");
    }

    #[test]
    fn wide_code_is_left_to_rustfmt() {
        assert_eq!(found(&format!("const A: &str = \"{}\"; // a\n", "x".repeat(COLUMNS))), []);
    }
}
