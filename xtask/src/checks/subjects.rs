//! Subjects of commits: `area: what`, imperative, at most 72 characters.
//!
//! Checked for the commits since the rule was made, where git's history has them.

use crate::offence::Offence;
use crate::process::{complaint, output};
use crate::repository::Repository;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// The last commit before the rule.
const BEFORE: &str = "4c65ddd5ac50";

const CHARACTERS: usize = 72;

/// First words of descriptions, where an order begins with a verb.
const NOT_VERBS: &[&str] = &[
    "a", "all", "an", "each", "every", "how", "it", "no", "one", "some", "that", "the", "these",
    "this", "what", "when", "where", "which", "why",
];

/// Reports subjects of commits that break the rule.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    check(&repository.root, BEFORE)
}

fn check(root: &Path, before: &str) -> Result<Vec<Offence>> {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(root).args(args);
        command
    };
    // A shallow clone does not have the commit, and a rewritten history does not contain it.
    if complaint(&mut git(&["merge-base", "--is-ancestor", before, "HEAD"]))?.is_some() {
        println!("subjects: no commit checked, since the history does not contain {before}");
        return Ok(Vec::new());
    }
    let range = format!("{before}..HEAD");
    let subjects = output(&mut git(&["log", "--no-merges", "--format=%h %s", &range]))?;
    Ok(subjects.lines().filter_map(offence).collect())
}

/// The violation of a line of an abbreviated hash and a subject.
fn offence(line: &str) -> Option<Offence> {
    let (commit, subject) = line.split_once(' ')?;
    let reason = fault(subject)?;
    Some(Offence::new(commit, format!("{reason}: {subject}")))
}

fn fault(subject: &str) -> Option<String> {
    let characters = subject.chars().count();
    if characters > CHARACTERS {
        return Some(format!("a subject of {characters} characters, at most {CHARACTERS}"));
    }
    let is_area = |area: &str| {
        let names = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        area.split(", ").all(|name| !name.is_empty() && name.chars().all(names))
    };
    let Some((_, what)) = subject.split_once(": ").filter(|(area, _)| is_area(area)) else {
        return Some("expected `area: what`, with the crate or folder as the area".into());
    };
    let verb = what.split_whitespace().next().unwrap_or_default();
    let is_order = verb.starts_with(|c: char| c.is_ascii_lowercase()) && !NOT_VERBS.contains(&verb);
    (!is_order).then(|| format!("expected an order, such as \"add\", not \"{verb}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_that_break_the_rule_are_named() {
        for (subject, reason) in [
            ("wip", "`area: what`"),
            ("Ops: add a product", "`area: what`"),
            ("ops, : add a product", "`area: what`"),
            ("ops: what clippy asks for", "not \"what\""),
            ("ops: Add a product", "not \"Add\""),
            (&format!("ops: add {}", "x".repeat(64)), "73 characters"),
        ] {
            let fault = fault(subject).unwrap_or_default();
            assert!(fault.contains(reason), "{subject}: {fault}");
        }
        assert_eq!(fault(&format!("ops, tensor: add {}", "x".repeat(55))), None);
    }

    #[test]
    fn commits_after_the_given_one_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"];
            let mut command = Command::new("git");
            output(command.current_dir(dir.path()).args(identity).args(args)).unwrap()
        };
        git(&["init", "-q"]);
        for subject in ["before", "ops: add a product", "the second"] {
            git(&["commit", "-q", "--allow-empty", "-m", subject]);
        }
        let before = git(&["rev-parse", "HEAD~2"]);
        let offences = check(dir.path(), before.trim()).unwrap();
        assert_eq!(offences.len(), 1, "{offences:?}");
        assert!(offences[0].what.ends_with(": the second"), "{offences:?}");
        assert_eq!(check(dir.path(), "0123456789abcdef").unwrap(), []);
    }
}
