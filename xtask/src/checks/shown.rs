//! Numbers of documents that commands print, where a command takes less than a minute.
//!
//! - `<!-- shown by: COMMAND -->` before a paragraph or a table: each number in it is in what the
//!   command prints, possibly rounded. Text in backquotes is skipped, and quotients are added, as
//!   of records.
//! - A paragraph of `docs/results.md` with numbers and a command in backquotes has such a comment,
//!   or `<!-- numbers from: FILE -->`, or `<!-- not shown: WHY -->`.
//!
//! Commands run as those of the tutorials do, each page in an empty folder with the `recipes` and
//! `testdata` of the repository. After a change of results, the check says which number stands
//! where another one should: run it, and correct the page.

use super::records::{block, numbers_differ};
use super::tutorials::binaries;
use crate::markdown::code_spans;
use crate::offence::Offence;
use crate::repository::Repository;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// The page whose paragraphs with commands all say where their numbers are from.
const RESULTS: &str = "docs/results.md";

/// Reports numbers that their commands do not print.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let pages: Vec<&str> = repository.ending(".md").collect();
    let mut offences = Vec::new();
    let mut asked = Vec::new();
    for page in pages.into_iter().filter(|page| !page.starts_with("benchmarks/record/")) {
        let text = repository.text(page)?;
        if page == RESULTS {
            offences.extend(unmarked(page, &text));
        }
        if !shown(&text).is_empty() {
            asked.push((page, text));
        }
    }
    if !asked.is_empty() {
        let binaries = binaries(repository)?;
        for (page, text) in asked {
            offences.extend(check(page, &text, &repository.root, &binaries)?);
        }
    }
    Ok(offences)
}

/// The commands of comments of this check, with their lines from one on.
fn shown(text: &str) -> Vec<(usize, &str)> {
    let comments = text.lines().enumerate().filter_map(|(index, line)| {
        let command = line.strip_prefix("<!-- shown by: ")?.strip_suffix(" -->")?;
        Some((index + 1, command))
    });
    comments.collect()
}

/// Paragraphs with a command and numbers that do not say where these are from.
fn unmarked(page: &str, text: &str) -> Vec<Offence> {
    let mut offences = Vec::new();
    let (mut start, mut paragraph, mut fenced) = (1, String::new(), false);
    let mut before = "";
    for (index, line) in text.lines().chain([""]).enumerate() {
        fenced ^= line.starts_with("```");
        if !line.trim().is_empty() && !fenced && !line.starts_with("```") {
            if paragraph.is_empty() {
                start = index + 1;
            }
            paragraph = paragraph + line + "\n";
            continue;
        }
        if !paragraph.is_empty() {
            let marks = ["<!-- numbers from: ", "<!-- shown by: ", "<!-- not shown: "];
            let is_marked =
                marks.iter().any(|mark| paragraph.contains(mark) || before.starts_with(mark));
            if quotes(&paragraph) && !is_marked {
                let what = "numbers beside a command, without a comment that says whether it shows \
                            them: `<!-- shown by: COMMAND -->`, `<!-- numbers from: FILE -->`, or \
                            `<!-- not shown: WHY -->`";
                offences.push(Offence::at(page, start, what));
            }
            before = text.lines().nth(start - 1).unwrap_or_default();
            paragraph.clear();
        }
    }
    offences
}

/// Whether a paragraph has a command with arguments, and beside it a number with a point.
fn quotes(paragraph: &str) -> bool {
    let is_command = |span: &&str| {
        let words: Vec<&str> = span.split_whitespace().collect();
        words.len() > 3 && words[0] == "linwright"
    };
    let prose: String = paragraph.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let is_number = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_digit());
        word.contains('.') && word.parse::<f64>().is_ok()
    };
    code_spans(paragraph).iter().any(is_command) && prose.split_whitespace().any(is_number)
}

fn check(page: &str, text: &str, root: &Path, binaries: &Path) -> Result<Vec<Offence>> {
    let folder = tempfile::tempdir().context("cannot make a folder for commands")?;
    for name in ["recipes", "testdata"] {
        std::os::unix::fs::symlink(root.join(name), folder.path().join(name))?;
    }
    let (mut offences, mut printed) = (Vec::new(), BTreeMap::<&str, Result<String, String>>::new());
    let lines: Vec<&str> = text.lines().collect();
    for (line, told) in shown(text) {
        let (command, quotients) = told.split_once("; ").unwrap_or((told, ""));
        let printed = printed.entry(command);
        let printed = printed.or_insert_with(|| output(command, folder.path(), binaries));
        let record = match quotients {
            "" => "its output".to_owned(),
            quotients => format!("its output; {quotients}"),
        };
        let read = |_: &str| printed.clone();
        if let Err(what) = numbers_differ(&block(&lines[line..]), &record, &read) {
            offences.push(Offence::at(page, line, format!("`{command}`: {what}")));
        }
    }
    Ok(offences)
}

/// What a command prints, on both streams.
fn output(command: &str, folder: &Path, binaries: &Path) -> Result<String, String> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(binaries.to_owned()).chain(std::env::split_paths(&inherited));
    let path = std::env::join_paths(folders).map_err(|error| error.to_string())?;
    let done = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(folder)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run `{command}`: {error}"))?;
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    match done.status.success() {
        true => Ok(printed),
        false => Err(format!("`{command}` ended with {}\n{printed}", done.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for name in ["recipes", "testdata"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        let all = check("docs/results.md", text, root.path(), root.path()).unwrap();
        all.into_iter().map(|offence| offence.to_string()).collect()
    }

    #[test]
    fn a_number_that_a_command_does_not_print_is_told_with_the_nearest() {
        let page = |number: &str| {
            format!("<!-- shown by: echo 2.0251 30.3 -->\n\nIt is {number}, not `9.9`.\n")
        };
        assert_eq!(found(&page("2.025")), [""; 0]);
        let told = found(&page("2.017"));
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("docs/results.md:1: `echo 2.0251 30.3`: 2.017 is not in"),
            "{told:?}"
        );
        assert!(told[0].contains("the nearest there is 2.0251"), "{told:?}");
        assert!(found(&page("2.025").replace("echo", "exit 3; echo"))[0].contains("ended with"));
    }

    #[test]
    fn numbers_beside_a_command_say_where_they_are_from() {
        let text = "Text.\n\n`linwright compare pocket --keep 0.4` gives 2.017.\n";
        assert_eq!(unmarked(RESULTS, text).len(), 1);
        for mark in ["numbers from: a.md", "shown by: linwright", "not shown: old"] {
            let text = text.replacen("`linwright", &format!("<!-- {mark} -->\n\n`linwright"), 1);
            assert_eq!(unmarked(RESULTS, &text), [], "{mark}");
            assert_eq!(unmarked(RESULTS, &text.replace(" -->\n\n", " -->\n")), [], "{mark}");
        }
        for harmless in
            ["`linwright report` gives 2.017.\n", "`linwright compare pocket --keep 0.4`\n"]
        {
            assert_eq!(unmarked(RESULTS, harmless), []);
        }
    }
}
