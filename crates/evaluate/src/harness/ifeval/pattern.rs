//! Patterns of Python's `re`, in the syntax of `fancy-regex`.
//!
//! Keywords of documents are patterns there. The classes `\w`, `\s` and `\b` have Python's meaning
//! (letters and numbers without marks; four more spaces), a brace that begins no quantifier and
//! the characters `[`, `&` and `~` in a class are themselves, and without regard to case the
//! letters i, I, ı and İ are one.
//!
//! Deviations: flags other than `i`, `m`, `s` and `x`, octal escapes and named characters are
//! errors. Python's other pairs of letters that are equal without regard to case are those of
//! Unicode's simple case folding here.

use fancy_regex::Regex;
use linwright_run::shown;
use std::iter::Peekable;
use std::str::Chars;

/// `\w` of Python, inside a class.
const WORD: &str = r"\p{L}\p{N}_";
/// `\s` of Python, inside a class.
const SPACE: &str = r"\s\x1c-\x1f";
/// The letters that are equal to i without regard to case.
const LETTERS_I: &str = "iI\u{131}\u{130}";

/// A compiled pattern. Errors are the reason only.
///
/// `ignoring_case` is `re.IGNORECASE`, `by_line` is `re.MULTILINE`.
pub(super) fn compiled(source: &str, ignoring_case: bool, by_line: bool) -> Result<Regex, String> {
    let wrong = |reason: String| format!("the pattern \"{}\": {reason}", shown(source));
    let mut out = String::from(match (ignoring_case, by_line) {
        (true, true) => "(?im)",
        (true, false) => "(?i)",
        (false, true) => "(?m)",
        (false, false) => "",
    });
    let rest = source.chars().peekable();
    let mut reader = Reader { rest, ignoring_case, by_line, repeated: 0 };
    while let Some(c) = reader.rest.next() {
        reader.item(c, &mut out).map_err(&wrong)?;
    }
    Regex::new(&out).map_err(|error| wrong(error.to_string()))
}

/// Number of matches that do not overlap. Errors are the reason only.
pub(super) fn count(pattern: &Regex, text: &str) -> Result<usize, String> {
    let mut count = 0;
    for found in pattern.find_iter(text) {
        found.map_err(|error| failed(pattern, &error))?;
        count += 1;
    }
    Ok(count)
}

/// Whether a pattern occurs in a text. Errors are the reason only.
pub(super) fn occurs(pattern: &Regex, text: &str) -> Result<bool, String> {
    pattern.is_match(text).map_err(|error| failed(pattern, &error))
}

fn failed(pattern: &Regex, error: &fancy_regex::Error) -> String {
    format!("the pattern \"{}\": {error}", shown(pattern.as_str()))
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    ignoring_case: bool,
    by_line: bool,
    /// Length of the quantifier behind the last item, with its modifier.
    repeated: usize,
}

impl Reader<'_> {
    /// Translates the item that begins with `c`.
    fn item(&mut self, c: char, out: &mut String) -> Result<(), String> {
        let before = std::mem::take(&mut self.repeated);
        match c {
            '\\' => return self.escape(out),
            '[' => return self.class(out),
            '(' => return self.group(out),
            '{' => self.brace(out),
            '}' => out.push_str(r"\}"),
            '*' | '+' | '?' => {
                self.repeated = 1;
                out.push(c);
            }
            // Also before a line break at the end.
            '$' if !self.by_line => out.push_str(r"(?=\n?\z)"),
            _ if self.ignoring_case && LETTERS_I.contains(c) => {
                out.push('[');
                out.push_str(LETTERS_I);
                out.push(']');
            }
            _ => out.push(c),
        }
        if self.repeated > 0 && before > 0 {
            // `?` makes a quantifier lazy and `+` possessive, once.
            if before > 1 || !matches!(c, '?' | '+') {
                return Err("an item is repeated several times".into());
            }
            self.repeated = 2;
        }
        Ok(())
    }

    /// An escape outside a class.
    fn escape(&mut self, out: &mut String) -> Result<(), String> {
        let c = self.rest.next().ok_or("ends with a \\")?;
        match c {
            'w' => out.push_str(&format!("[{WORD}]")),
            'W' => out.push_str(&format!("[^{WORD}]")),
            's' => out.push_str(&format!("[{SPACE}]")),
            'S' => out.push_str(&format!("[^{SPACE}]")),
            'b' => {
                out.push_str(&format!("(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))"));
            }
            'B' => {
                out.push_str(&format!("(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))"));
            }
            'A' => out.push_str(r"\A"),
            'Z' => out.push_str(r"\z"),
            'd' | 'D' | '1'..='9' => out.extend(['\\', c]),
            _ => self.character(c, out)?,
        }
        Ok(())
    }

    /// An escape that means one character, anywhere.
    fn character(&mut self, c: char, out: &mut String) -> Result<(), String> {
        let digits = match c {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => {
                match c {
                    'n' | 't' | 'r' => out.extend(['\\', c]),
                    'f' => out.push_str(r"\x0c"),
                    'v' => out.push_str(r"\x0b"),
                    'a' => out.push_str(r"\x07"),
                    _ if c.is_ascii_alphanumeric() => {
                        return Err(format!("\\{c} is not supported"));
                    }
                    _ if c.is_ascii_punctuation() || c == ' ' => out.extend(['\\', c]),
                    _ => out.push(c),
                }
                return Ok(());
            }
        };
        let code: String = self.rest.by_ref().take(digits).collect();
        if code.len() != digits || !code.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!(
                "\\{c} needs {digits} hexadecimal digits, found \"{}\"",
                shown(&code)
            ));
        }
        out.push_str(&format!(r"\x{{{code}}}"));
        Ok(())
    }

    /// A class, from behind its bracket.
    fn class(&mut self, out: &mut String) -> Result<(), String> {
        out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            out.push('^');
        }
        let mut is_first = true;
        // Whether a hyphen here would be the middle of a range.
        let mut may_be_range = false;
        loop {
            let c = self.rest.next().ok_or("a class is not closed")?;
            match c {
                ']' if !is_first => {
                    out.push(']');
                    return Ok(());
                }
                '\\' => {
                    let c = self.rest.next().ok_or("ends with a \\")?;
                    match c {
                        'w' => out.push_str(WORD),
                        's' => out.push_str(SPACE),
                        'W' => out.push_str(&format!("[^{WORD}]")),
                        'S' => out.push_str(&format!("[^{SPACE}]")),
                        'd' | 'D' => out.extend(['\\', c]),
                        'b' => out.push_str(r"\x08"),
                        _ => self.character(c, out)?,
                    }
                    may_be_range = !matches!(c, 'w' | 's' | 'W' | 'S' | 'd' | 'D');
                }
                '-' if may_be_range && self.rest.peek().is_some_and(|&next| next != ']') => {
                    out.push('-');
                    may_be_range = false;
                    is_first = false;
                    continue;
                }
                _ => {
                    let ends_range = out.ends_with('-') && !out.ends_with("\\-");
                    let begins_range = self.rest.peek() == Some(&'-');
                    if self.ignoring_case && LETTERS_I.contains(c) && !ends_range && !begins_range {
                        out.push_str(LETTERS_I);
                    } else if c.is_ascii_punctuation() {
                        out.extend(['\\', c]);
                    } else {
                        out.push(c);
                    }
                    may_be_range = !ends_range;
                }
            }
            is_first = false;
        }
    }

    /// The beginning of a group, from behind its parenthesis.
    fn group(&mut self, out: &mut String) -> Result<(), String> {
        out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        if self.rest.next_if_eq(&'#').is_some() {
            out.pop();
            return match self.rest.find(|&c| c == ')') {
                Some(_) => Ok(()),
                None => Err("a comment is not closed".into()),
            };
        }
        let begin = out.len();
        out.push('?');
        for c in self.rest.by_ref() {
            out.push(c);
            let is_end = match c {
                ')' => true,
                ':' | '=' | '!' | '>' => !out[begin..].starts_with("?P="),
                _ => false,
            };
            if is_end {
                return Ok(());
            }
        }
        Err("a group is not closed".into())
    }

    /// A quantifier, or else a brace.
    fn brace(&mut self, out: &mut String) {
        let mut ahead = self.rest.clone();
        let body: String = ahead.by_ref().take_while(|&c| c != '}').take(24).collect();
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let quantifier = match body.split_once(',') {
            Some(("", "")) => Some("*".to_owned()),
            Some(("", most)) if is_number(most) => Some(format!("{{0,{most}}}")),
            Some((least, most)) if is_number(least) && is_number(most) => {
                Some(format!("{{{body}}}"))
            }
            None if !body.is_empty() && is_number(&body) => Some(format!("{{{body}}}")),
            _ => None,
        };
        let is_closed = self.rest.clone().nth(body.chars().count()) == Some('}');
        match quantifier.filter(|_| is_closed) {
            Some(quantifier) => {
                self.repeated = 1;
                out.push_str(&quantifier);
                self.rest.nth(body.chars().count());
            }
            None => out.push_str(r"\{"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> usize {
        count(&compiled(pattern, true, false).unwrap(), text).unwrap()
    }

    #[test]
    fn patterns_match_as_in_python() {
        for (pattern, text, want) in [
            ("cat", "Cat CATS", 2),
            (r"\bcat\b", "cat. concat cat", 2),
            // A mark is not part of a word in Python.
            (r"\bhe\b", "he\u{301}llo", 1),
            ("\\w+", "a\u{301}b", 2),
            ("c{", "c{ c", 1),
            ("c{2}", "ccc", 1),
            ("ac{,2}d", "ad accd acccd", 2),
            ("x{1,", "x{1,", 1),
            ("title", "T\u{130}TLE t\u{131}tle", 2),
            ("[ai]t", "IT \u{130}t", 2),
            ("[a-c&&b[]", "a & [ ] d", 3),
            ("[]x]", "]x", 2),
            ("[x-]", "-x", 2),
            (r"[\w.]+", "a.b c", 2),
            (r"a\.b", "a.b axb", 1),
            (r"a\-b\ c", "a-b c", 1),
            ("(?:a|b)c", "ac bc", 2),
            ("(?P<x>i)(?P=x)", "ii", 1),
            ("a(?#remark)b", "ab", 1),
            ("end$", "end\n", 1),
            (r"\x41\u0042", "AB", 1),
            (r"\s", "\x1c\u{a0}", 2),
            ("(?<=a)b", "ab bb", 1),
            ("a+?b*", "aab", 2),
            ("a{1,2}+", "aaa", 2),
        ] {
            assert_eq!(found(pattern, text), want, "{pattern} in {text:?}");
        }
        let lines = compiled("a$", false, true).unwrap();
        assert_eq!(count(&lines, "a\na b\na").unwrap(), 2);
    }

    #[test]
    fn damaged_patterns_are_errors() {
        for pattern in [
            "(",
            "[a",
            "a\\",
            "*",
            "(?",
            "(?#",
            r"\x4",
            r"\q",
            "(?P<",
            "(a{99999999}){99999999}",
            "a**",
            "a{2}{3}",
            "a+?+",
        ] {
            let error = compiled(pattern, true, false).unwrap_err();
            assert!(error.contains("the pattern"), "{pattern}: {error}");
        }
        let endless = compiled(r"^(?:(a+)\1?)+$", false, false).unwrap();
        assert!(occurs(&endless, &("a".repeat(64) + "c")).is_err());
    }
}
