//! Test: the program accepts every command in the documentation.

use crate::command_line::Cli;
use clap::{CommandFactory, FromArgMatches};
use std::path::{Path, PathBuf};

/// The README and the pages under `docs`, except decision records, which describe the past.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|name| name == "md")).collect();
    pages.push(root.join("README.md"));
    pages
}

/// The lines of a page's shell blocks, joined where a backslash continues them.
fn shell_lines(page: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut is_shell, mut goes_on) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            (is_shell, goes_on) = (line == "```sh", false);
            continue;
        }
        if !is_shell {
            continue;
        }
        let part = line.trim().trim_end_matches('\\');
        match lines.last_mut().filter(|_| goes_on) {
            Some(last) => last.push_str(part),
            None => lines.push(part.to_owned()),
        }
        goes_on = line.ends_with('\\');
    }
    lines
}

/// Splits a line into words as a shell does, up to a pipe or redirection; quotes keep spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') => words.push(String::new()),
            (None, '>' | '|' | ';' | '&') => break,
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_documented_command_is_taken() {
    let mut taken = 0;
    for path in pages() {
        let page = std::fs::read_to_string(&path).unwrap();
        for line in shell_lines(&page) {
            // The values of shell variables are unknown here.
            if !(line == "linwright" || line.starts_with("linwright ")) || line.contains('$') {
                continue;
            }
            let parsed = Cli::command().try_get_matches_from(words(&line));
            if let Err(said) = parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
                assert!(!said.use_stderr(), "{}: {line}\n{said}", path.display());
            }
            taken += 1;
        }
    }
    assert!(taken > 30, "{taken} commands found");
}

#[test]
fn quotes_continuations_and_pipes_are_read_as_a_shell_does() {
    let page = "```sh\nlinwright eval a \\\n  --samples '{\"a\": [0]}' > out\n```\n```\nlinwright x\n```\n";
    let lines = shell_lines(page);
    assert_eq!(lines.len(), 1);
    assert_eq!(words(&lines[0]), ["linwright", "eval", "a", "--samples", "{\"a\": [0]}"]);
}
