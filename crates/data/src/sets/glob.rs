//! Patterns of names and files, as in Python: `*` matches any text, `?` one character, `[...]` one
//! of a set and `[!...]` one outside of it. In file patterns, `*` does not match a slash, and `**`
//! matches any number of path components.
//!
//! Patterns of tensor and slot names are those of `NameFilter` in `measure`: there, brackets are
//! ordinary characters, since some checkpoints have them in names, and regular expressions are
//! possible. For `*` and `?` in names without slashes, both agree.

/// Whether a whole name matches a pattern, as in Python's `fnmatch`.
#[must_use]
pub fn name_matches(pattern: &str, name: &str) -> bool {
    let letters: Vec<char> = name.chars().collect();
    let is_any = |piece: &Piece| matches!(piece, Piece::Any);
    walk(&pieces(pattern), &letters, is_any, |piece, letter| piece.fits(*letter))
}

/// Whether a file matches a pattern. As in `datasets`, names that begin with a dot, and folders
/// that begin with two underscores, match only if the pattern has as many of them.
pub(super) fn file_matches(pattern: &str, name: &str) -> bool {
    let special = |text: &str| {
        let parts: Vec<&str> = text.split('/').collect();
        let hidden = parts.iter().filter(|part| part.starts_with('.')).count();
        let folders = &parts[..parts.len() - 1];
        (hidden, folders.iter().filter(|part| part.starts_with("__")).count())
    };
    let [mut parts, names]: [Vec<&str>; 2] = [pattern, name].map(|text| text.split('/').collect());
    if parts.last() == Some(&"**") {
        // A file below the folder.
        parts.push("*");
    }
    special(pattern) == special(name) && of_parts(&parts, &names)
}

/// Matches with one kind of wildcard, with backtracking to the last wildcard. `fits` decides
/// whether one element of the pattern matches one of the text.
fn walk<P, T>(
    pattern: &[P],
    text: &[T],
    is_any: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut on) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    while on < text.len() {
        if at < pattern.len() && is_any(&pattern[at]) {
            last = Some((at, on));
            at += 1;
        } else if at < pattern.len() && fits(&pattern[at], &text[on]) {
            (at, on) = (at + 1, on + 1);
        } else if let Some((any, from)) = last {
            last = Some((any, from + 1));
            (at, on) = (any + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(is_any)
}

fn of_parts(pattern: &[&str], names: &[&str]) -> bool {
    walk(pattern, names, |part| *part == "**", |part, name| name_matches(part, name))
}

/// An element of a path component of a pattern.
enum Piece {
    Any,
    One,
    Letter(char),
    Set { letters: Vec<char>, without: bool },
}

impl Piece {
    fn fits(&self, letter: char) -> bool {
        match self {
            Self::Any | Self::One => true,
            Self::Letter(own) => *own == letter,
            Self::Set { letters, without } => in_set(letters, letter) != *without,
        }
    }
}

/// Whether a character is in a set, in which `a-z` is a range.
fn in_set(letters: &[char], letter: char) -> bool {
    let mut at = 0;
    while at < letters.len() {
        if at + 2 < letters.len() && letters[at + 1] == '-' {
            if (letters[at]..=letters[at + 2]).contains(&letter) {
                return true;
            }
            at += 3;
        } else if letters[at] == letter {
            return true;
        } else {
            at += 1;
        }
    }
    false
}

fn pieces(pattern: &str) -> Vec<Piece> {
    let letters: Vec<char> = pattern.chars().collect();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let set = || {
            let without = letters.get(at + 1) == Some(&'!');
            let first = at + 1 + usize::from(without);
            // A leading bracket is a member of the set.
            let end = letters.iter().skip(first + 1).position(|&letter| letter == ']')?;
            Some((letters[first..=first + end].to_vec(), without, first + end + 2))
        };
        match letters[at] {
            '*' => pieces.push(Piece::Any),
            '?' => pieces.push(Piece::One),
            '[' if let Some((letters, without, end)) = set() => {
                pieces.push(Piece::Set { letters, without });
                at = end;
                continue;
            }
            letter => pieces.push(Piece::Letter(letter)),
        }
        at += 1;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_python() {
        for (pattern, name) in [
            ("data/*", "data/train.json"),
            ("ARC-Easy/train-*", "ARC-Easy/train-00000-of-00001.parquet"),
            ("**", "a/b/c.json"),
            ("**/train[-._ 0-9]*", "train.jsonl"),
            ("**/train[-._ 0-9]*", "a/b/train-1.jsonl"),
            ("**/*[-._ 0-9]test[-._ 0-9]*", "a/my_test.json"),
            ("**/test/**", "a/test/b/c.json"),
            ("a/**/c", "a/c"),
            ("?[!b]c*d*", "aacxdyd"),
            ("x[]]y", "x]y"),
            ("a[b", "a[b"),
            (".hidden/*", ".hidden/x"),
            ("[0-9][0-9]", "07"),
        ] {
            assert!(file_matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("data/*", "data/a/train.json"),
            ("data/*", "train.json"),
            ("**/train[-._ 0-9]*", "a/training.jsonl"),
            ("**/test/**", "a/tests/c.json"),
            ("?[!b]c", "abc"),
            ("**", ".git/x"),
            ("**", "__pycache__/x"),
            ("**/test/**", "a/test"),
            ("*", ".x"),
            ("[0-9]", "a"),
            ("a", ""),
        ] {
            assert!(!file_matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn in_names_slashes_and_dots_are_letters() {
        for (pattern, name) in [("arc_*", "arc_easy"), ("*_e*y", "arc_easy"), ("a*", "a/.b")] {
            assert!(name_matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("arc_*", "piqa"), ("a*c", "ac_"), ("arc", "arc_easy")] {
            assert!(!name_matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_made_to_be_slow_are_not() {
        let pattern = "*a".repeat(400) + "b";
        assert!(!name_matches(&pattern, &"a".repeat(4000)));
        assert!(!file_matches(&("**/a/".repeat(300) + "c"), &("a/".repeat(2000) + "b")));
    }
}
