//! Texts from files, in messages.

/// The text on one line and at most so many letters long: what a terminal would take for a command is
/// written as an escape.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    let mut shown: String = text.chars().take(most).map(plain).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_no_control_characters_and_an_end() {
        assert_eq!(one_line("a\nb\u{7f}c\u{9b}d", 9), "a\\nb\\u{7f}c\\u{9b}d");
        assert_eq!(one_line("ärger", 5), "ärger");
        assert_eq!(one_line("ärger", 3), "ärg…");
    }
}
