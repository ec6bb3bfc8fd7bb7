//! A Rust file as the checks see it.

use crate::lexer::{Masked, is_word, mask};
use std::ops::RangeInclusive;

/// A Rust file: its path, its text without comments, and which of its lines are tests.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path relative to the root of the repository.
    pub(crate) path: String,
    /// The text as it is.
    pub(crate) text: String,
    /// The text, with comments or literals blanked.
    pub(crate) masked: Masked,
    test_lines: Vec<RangeInclusive<usize>>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// Line of its `fn`, from one.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace that are neither blank nor comment.
    pub(crate) code_lines: usize,
}

impl Source {
    /// Reads the structure of a file.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let masked = mask(text);
        let test_lines = if is_test_path(path) {
            std::iter::once(1..=text.lines().count()).collect()
        } else {
            test_modules(&masked.code)
        };
        Self { path: path.to_owned(), text: text.to_owned(), masked, test_lines }
    }

    /// Whether the line, from one, belongs to tests.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// Lines of code outside tests: neither blank nor comment.
    pub(crate) fn code_lines(&self) -> usize {
        numbered(&self.masked.code_and_literals)
            .filter(|(number, line)| !line.trim().is_empty() && !self.is_test(*number))
            .count()
    }

    /// Every function that has a body, tests included.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let code = &self.masked.code;
        words(code, "fn").filter_map(|at| self.function_at(at)).collect()
    }

    fn function_at(&self, at: usize) -> Option<Function> {
        let code = &self.masked.code;
        let after = code[at + 2..].trim_start();
        let is_name = |c: char| c.is_alphanumeric() || "_$#".contains(c);
        let name: String = after.chars().take_while(|&c| is_name(c)).collect();
        let open = body_start(code, at).filter(|_| !name.is_empty())?;
        let (first, last) = (line_of(code, at), line_of(code, matching_brace(code, open)));
        let code_lines = numbered(&self.masked.code_and_literals)
            .filter(|(number, line)| (first..=last).contains(number) && !line.trim().is_empty())
            .count();
        Some(Function { name, line: first, code_lines })
    }
}

/// Lines with their numbers, from one.
pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Where `word` occurs in `text`, not as a part of a longer word.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).is_some_and(|i| is_word(bytes[i]));
        let after = bytes.get(at + word.len()).is_some_and(|&byte| is_word(byte));
        !before && !after
    })
}

/// Whether a file holds nothing but tests.
fn is_test_path(path: &str) -> bool {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.trim_end_matches(".rs");
    folders.split('/').any(|folder| folder == "tests")
        || stem == "tests"
        || stem.ends_with("_tests")
}

/// Lines of `#[cfg(test)] mod name { … }`.
fn test_modules(code: &str) -> Vec<RangeInclusive<usize>> {
    code.match_indices("#[cfg(test)]")
        .filter_map(|(at, _)| {
            let open = body_start(code, at)?;
            words(&code[at..open], "mod").next()?;
            Some(line_of(code, at)..=line_of(code, matching_brace(code, open)))
        })
        .collect()
}

/// The first `{` after `at` that is not inside brackets; none if a `;` comes first.
fn body_start(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, byte) in code[at..].bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at + offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The `}` that closes the `{` at `open`; the end of the text if none does.
fn matching_brace(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (offset, byte) in code[open..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return open + offset,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The line, from one, that the byte at `at` is on.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
//! Module.

/// Doc.
fn one(x: [u8; 3]) -> u8
where
    u8: Copy,
{
    // why

    x[0]
}

trait T {
    fn declared(&self);
}

#[cfg(test)]
mod tests {
    fn inside() {}
}
";

    #[test]
    fn functions_are_measured_without_comments_and_blanks() {
        let functions = Source::new("src/a.rs", SAMPLE).functions();
        let one = Function { name: "one".into(), line: 4, code_lines: 6 };
        assert_eq!(functions[0], one);
        assert_eq!(functions[1].name, "inside");
        assert_eq!(functions.len(), 2);
    }

    #[test]
    fn tests_do_not_count_as_code() {
        let source = Source::new("src/a.rs", SAMPLE);
        assert_eq!(source.code_lines(), 9);
        assert!(!source.is_test(16) && source.is_test(17) && source.is_test(20));
    }

    #[test]
    fn test_files_are_tests_from_the_first_line() {
        for path in ["crates/a/tests/main.rs", "src/tests.rs", "src/read_tests.rs"] {
            assert!(Source::new(path, "fn f() {}\n").is_test(1), "{path}");
        }
        assert!(!Source::new("src/attests.rs", "fn f() {}\n").is_test(1));
    }

    #[test]
    fn a_test_module_in_another_file_hides_nothing_here() {
        let source = Source::new("src/a.rs", "#[cfg(test)]\nmod tests;\n\nfn f() {}\n");
        assert_eq!(source.code_lines(), 3);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("unsafe_code unsafe un_unsafe", "unsafe").collect::<Vec<_>>(), [12]);
    }
}
