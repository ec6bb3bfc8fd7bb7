//! Behaviour of Python's text methods, where Rust's differ.

/// Whether Python's `str` methods and patterns treat a character as white space. They include four
/// control characters that Unicode's property leaves out.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// `text.strip()`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `text.split()`.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|piece| !piece.is_empty())
}

/// `text.isupper()`: at least one letter with case, and all of those in upper case.
pub(super) fn is_upper(text: &str) -> bool {
    text.chars().any(char::is_uppercase)
        && !text.chars().any(|c| c.is_lowercase() || is_title_case(c))
}

/// `text.islower()`.
pub(super) fn is_lower(text: &str) -> bool {
    text.chars().any(char::is_lowercase)
        && !text.chars().any(|c| c.is_uppercase() || is_title_case(c))
}

/// Whether a character has Unicode's category Lt.
fn is_title_case(c: char) -> bool {
    matches!(
        c,
        '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}'
            | '\u{1f88}'..='\u{1f8f}'
            | '\u{1f98}'..='\u{1f9f}'
            | '\u{1fa8}'..='\u{1faf}'
            | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_stripped_and_split_as_in_python() {
        assert_eq!(strip("\u{1f}\u{a0} a b\n\x1c"), "a b");
        assert_eq!(pieces(" a\x1db \n c").collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn case_is_that_of_letters_with_case() {
        assert!(is_upper("A1!") && is_upper("ÉCOLE 日本") && is_lower("é-1"));
        assert!(!is_upper("12") && !is_upper("Ab") && !is_upper("A\u{1c5}"));
        assert!(!is_lower("") && !is_lower("aB") && !is_lower("日本"));
    }
}
