//! External text in messages: a file name, an option or a key can be a megabyte long and contain
//! control sequences of a terminal.

use std::fmt::Write;

/// Largest number of characters of a value in a message.
const VALUE: usize = 200;
/// Largest number of characters of a message.
const MESSAGE: usize = 2000;

/// A value in a message: on one line, without control characters and changes of writing direction,
/// and shortened to 200 characters, with its length if it is longer.
pub fn shown(value: &str) -> String {
    cut(value, VALUE, |_| false)
}

/// The message of a parser: each quoted value is shortened as in [`shown`]; line breaks and all
/// other text are kept.
pub fn shown_reason(text: &str) -> String {
    let parts = text.split_inclusive('`').enumerate();
    parts
        .map(|(index, part)| match index % 2 {
            // Text between two quotes is a value.
            1 => shown(part),
            _ => part
                .split_inclusive(['"', '\n'])
                .map(|part| cut(part, VALUE, |c| c == '\n'))
                .collect(),
        })
        .collect()
}

/// A whole message: line breaks are kept, control characters are escaped, and text after 2,000
/// characters is replaced by its length.
pub fn shown_message(text: &str) -> String {
    cut(text, MESSAGE, |c| c == '\n')
}

/// Whether `text` is shown unchanged.
pub fn is_plain(text: &str) -> bool {
    text.chars().nth(VALUE).is_none() && !text.chars().any(steers)
}

/// Lines with control characters escaped, at full length.
pub fn plain_lines(text: &str) -> String {
    cut(text, usize::MAX, |c| c == '\n')
}

/// At most `most` characters of `text` after escaping; characters that are `kept` are not escaped.
fn cut(text: &str, most: usize, kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::new();
    let mut length = 0;
    for c in text.chars() {
        let escaped = steers(c) && !kept(c);
        length += if escaped { c.escape_default().len() } else { 1 };
        if length > most {
            let _ = write!(shown, "… ({} characters)", text.chars().count());
            break;
        }
        if escaped {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character controls a terminal, or invisibly changes the order of text.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_one_line_no_commands_and_an_end() {
        assert_eq!(shown("a\nb\u{7f}c\u{9b}d\u{202e}e"), "a\\nb\\u{7f}c\\u{9b}d\\u{202e}e");
        assert_eq!(shown("ärger 'und' \"\\\" ए"), "ärger 'und' \"\\\" ए");
        let full = "ä".repeat(200);
        assert_eq!(shown(&full), full);
        assert_eq!(shown(&format!("{full}b")), format!("{full}… (201 characters)"));
        let escapes = shown(&"\u{1b}".repeat(100_000));
        assert_eq!(escapes, format!("{}… (100000 characters)", "\\u{1b}".repeat(33)));
    }

    #[test]
    fn a_reason_is_cut_where_it_quotes() {
        let known = "`one`, `two` ".repeat(90);
        let said = format!("unknown field `{}`, expected one of {known}", "x\n".repeat(500));
        let start = format!("unknown field `{}… (1001 characters)", "x\\n".repeat(66) + "x");
        assert!(shown_reason(&said).starts_with(&start), "{}", shown_reason(&said));
        assert!(shown_reason(&said).ends_with(&format!(", expected one of {known}")));
    }

    #[test]
    fn a_message_keeps_its_lines_and_an_ordinary_length() {
        let text = "no such site\n  q\u{1b}[31m, v";
        assert_eq!(shown_message(text), "no such site\n  q\\u{1b}[31m, v");
        let long = "word ".repeat(400);
        assert_eq!(shown_message(&long), long);
        assert_eq!(shown_message(&format!("{long}!")), format!("{long}… (2001 characters)"));
        assert_eq!(plain_lines(&format!("{long}!\u{7}\n")), format!("{long}!\\u{{7}}\n"));
    }

    #[test]
    fn only_short_texts_without_commands_are_plain() {
        assert!(is_plain("--text=ärger"));
        assert!(!is_plain("a\nb") && !is_plain(&"a".repeat(201)));
    }
}
