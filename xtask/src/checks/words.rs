//! Words and turns of translated prose, listed in docs/style.md with their replacements.
//!
//! Each has an upper bound of its occurrences in comments, messages, help and documents: the number
//! when the list was made. Lower the bound when occurrences disappear.

use crate::markdown::{code_spans, table};
use crate::offence::Offence;
use crate::repository::Repository;
use crate::source::{Source, numbered};
use anyhow::{Context, Result};

const LIST: &str = "docs/style.md";
const HEADER: &[&str] = &["Turn", "Write", "At most"];

/// Documents of other times, pages that quote the words, and sentences that models learn.
const EXEMPT: &[&str] =
    &["CHANGELOG.md", "docs/adr/", LIST, "docs/glossary.md", "crates/data/src/world/facts.rs"];

/// Largest number of places named by one violation.
const NAMED: usize = 40;

/// One line of the list.
#[derive(Debug)]
struct Turn {
    /// Its forms, each a sequence of words in lower case.
    forms: Vec<Vec<String>>,
    /// What to write instead.
    replacement: String,
    /// Largest number of occurrences.
    most: usize,
}

/// A word of prose in lower case with its place; none between sentences, clauses and texts.
type Word = Option<(String, String)>;

/// Reports turns that occur more often than their bound.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let turns = list(&repository.text(LIST)?)?;
    let mut prose = Vec::new();
    for source in repository.sources()?.iter().filter(|source| !is_exempt(&source.path)) {
        prose.extend(source_prose(source));
    }
    for path in repository.ending(".md").filter(|path| is_document(path)) {
        prose.extend(document_prose(path, &repository.text(path)?));
    }
    Ok(offences(&turns, &prose))
}

fn is_document(path: &str) -> bool {
    let folder = ["docs/", "recipes/", "crates/"].iter().any(|folder| path.starts_with(folder));
    (folder || !path.contains('/')) && !is_exempt(path)
}

fn is_exempt(path: &str) -> bool {
    EXEMPT.iter().any(|exempt| path.starts_with(exempt))
}

/// The list of the page on style.
fn list(page: &str) -> Result<Vec<Turn>> {
    let table = table(page, HEADER).with_context(|| format!("{LIST}: no table {HEADER:?}"))?;
    let turn = |row: &Vec<String>| {
        let [turn, replacement, most, ..] = row.as_slice() else {
            anyhow::bail!("{LIST}: a row of fewer than three cells: {row:?}");
        };
        let words = |form: &str| form.split_whitespace().map(str::to_lowercase).collect();
        let forms: Vec<Vec<String>> = code_spans(turn).into_iter().map(words).collect();
        anyhow::ensure!(!forms.is_empty(), "{LIST}: a turn without backquotes: {turn}");
        let most = most.parse().with_context(|| format!("{LIST}: bound of {turn}: {most}"))?;
        Ok(Turn { forms, replacement: replacement.clone(), most })
    };
    table.iter().skip(1).map(turn).collect()
}

fn offences(turns: &[Turn], prose: &[Word]) -> Vec<Offence> {
    let offence = |turn: &Turn| {
        let mut places: Vec<&str> =
            turn.forms.iter().flat_map(|form| occurrences(form, prose)).collect();
        let name = turn.forms.first().map(|form| form.join(" "))?;
        let Turn { most, replacement, .. } = turn;
        (places.len() > *most).then(|| {
            let count = places.len();
            places.sort_unstable();
            places.truncate(NAMED);
            Offence::new(
                LIST,
                format!(
                    "`{name}`: {count} occurrences, at most {most}; write {replacement} ({})",
                    places.join(", ")
                ),
            )
        })
    };
    turns.iter().filter_map(offence).collect()
}

/// The places of a sequence of words.
fn occurrences<'a>(form: &[String], prose: &'a [Word]) -> Vec<&'a str> {
    let is_here = |window: &&[Word]| {
        window
            .iter()
            .zip(form)
            .all(|(word, wanted)| word.as_ref().is_some_and(|(word, _)| word == wanted))
    };
    let windows = prose.windows(form.len().max(1)).filter(is_here);
    windows.filter_map(|window| window[0].as_ref().map(|(_, place)| place.as_str())).collect()
}

/// The prose of a Rust file outside tests: comments, then texts.
fn source_prose(source: &Source) -> Vec<Word> {
    let (text, masked) = (&source.text, &source.masked);
    let comments = difference(text, &masked.code_and_literals);
    let texts = difference(&masked.code_and_literals, &masked.code);
    let mut prose = Vec::new();
    for part in [comments, texts] {
        for (number, line) in numbered(&part).filter(|(number, _)| !source.is_test(*number)) {
            push(&mut prose, line, &format!("{}:{number}", source.path));
        }
        prose.push(None);
    }
    prose
}

/// What the second text blanks in the first; the rest is blank.
fn difference(whole: &str, blanked: &str) -> String {
    let bytes = whole.bytes().zip(blanked.bytes());
    let kept = bytes.map(|(byte, other)| if byte == b'\n' || byte != other { byte } else { b' ' });
    String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
}

/// The prose of a document, without fenced blocks.
fn document_prose(path: &str, text: &str) -> Vec<Word> {
    let (mut prose, mut inside) = (Vec::new(), false);
    for (number, line) in numbered(text) {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            push(&mut prose, line, &format!("{path}:{number}"));
        }
    }
    prose.push(None);
    prose
}

/// Adds the words of a line. A blank line and punctuation at a word separate; marks of comments and
/// of continued texts do not. A text of one word and an argument of a format are names, not prose.
fn push(prose: &mut Vec<Word>, line: &str, place: &str) {
    let is_mark = |token: &str| matches!(token, "//" | "///" | "//!" | "\\" | ">" | "*");
    if line.split_whitespace().all(is_mark) {
        prose.push(None);
    }
    for token in line.split_whitespace().filter(|token| !is_mark(token)) {
        let token = token.trim_matches('*');
        let word = token.trim_matches(|c: char| !c.is_alphanumeric());
        let (before, after) = token.split_once(word).unwrap_or(("", ""));
        if !before.is_empty() || word.is_empty() {
            prose.push(None);
        }
        let is_name =
            before.ends_with(['"', '`']) && after.starts_with(['"', '`']) || before.ends_with('{');
        if !word.is_empty() && !is_name {
            prose.push(Some((word.to_lowercase(), place.to_owned())));
        }
        if !after.is_empty() {
            prose.push(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| Turn | Write | At most |
|---|---|---|
| `so many`, `as many as` | the number | 0 |
| `told` | reported | 1 |
";

    fn found(prose: &[Word]) -> Vec<String> {
        let offences = offences(&list(PAGE).unwrap(), prose);
        offences.into_iter().map(|offence| offence.what).collect()
    }

    #[test]
    fn turns_are_found_across_lines_of_comments_and_texts() {
        let text = "/// The errors of so\n/// many rows, as many\n\n// as\nfn f() {\n    \
            g(\"this is told\", \"rows of So \\\n    many\");\n}\n";
        let found = found(&source_prose(&Source::new("crates/a/src/a.rs", text)));
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = "`so many`: 2 occurrences, at most 0; write the number";
        assert!(found[0].starts_with(expected), "{found:?}");
        assert!(found[0].contains("(crates/a/src/a.rs:1, crates/a/src/a.rs:6)"), "{found:?}");
    }

    #[test]
    fn the_bound_is_the_largest_number_without_a_violation() {
        let page = |text: &str| found(&document_prose("docs/a.md", text));
        assert_eq!(page("It is told.\n"), Vec::<String>::new());
        assert!(
            page("It is told,\n\nand **told** again.\n")[0].contains("docs/a.md:1, docs/a.md:3")
        );
    }

    #[test]
    fn names_code_output_and_tests_do_not_count() {
        let text = "fn told(so: u8, many: u8) {\n    f(\"told\", \"{told} {told:?}\");\n}\n\
            #[cfg(test)]\nmod tests {\n    // told, told\n}\n";
        assert_eq!(found(&source_prose(&Source::new("a.rs", text))), Vec::<String>::new());
        let page = "```console\ntold so many\n```\nThe field `told` is so. Many are `told`.\n";
        assert_eq!(found(&document_prose("docs/a.md", page)), Vec::<String>::new());
    }

    #[test]
    fn pages_of_other_times_are_exempt() {
        for (path, counts) in
            [("README.md", true), ("docs/math.md", true), ("docs/adr/1.md", false)]
        {
            assert_eq!(is_document(path), counts, "{path}");
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error() {
        for page in ["", "| Turn | Write | At most |\n|---|---|---|\n| `a` | b | many |\n"] {
            assert!(list(page).is_err(), "{page}");
        }
    }
}
