//! Separates code, literals and comments of a Rust file.
//!
//! Not a parser: it implements just enough of the lexical grammar (nested comments, raw strings,
//! lifetimes versus character literals) for checks that search words and count lines.

/// A file with parts blanked out. Both texts keep all line breaks, so line numbers agree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Masked {
    /// Without comments and contents of literals.
    pub(crate) code: String,
    /// Without comments.
    pub(crate) code_and_literals: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Literal,
    Comment,
}

/// Splits a Rust file into its kinds of text.
pub(crate) fn mask(text: &str) -> Masked {
    let bytes = text.as_bytes();
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = token(bytes, at);
        let end = end.min(bytes.len());
        kinds[at..end].fill(kind);
        at = end;
    }
    let blank = |hidden: &[Kind]| {
        let kept = bytes
            .iter()
            .zip(&kinds)
            .map(|(&byte, kind)| if byte != b'\n' && hidden.contains(kind) { b' ' } else { byte });
        String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
    };
    Masked {
        code: blank(&[Kind::Comment, Kind::Literal]),
        code_and_literals: blank(&[Kind::Comment]),
    }
}

/// Kind and end of the token that starts at `at`.
fn token(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = &bytes[at..];
    let starts_word = at == 0 || !is_word(bytes[at - 1]);
    if rest.starts_with(b"//") {
        let length = rest.iter().position(|&byte| byte == b'\n');
        (Kind::Comment, at + length.unwrap_or(rest.len()))
    } else if rest.starts_with(b"/*") {
        (Kind::Comment, block_comment_end(bytes, at))
    } else if let Some(end) = raw_string_end(bytes, at).filter(|_| starts_word) {
        (Kind::Literal, end)
    } else if rest[0] == b'"' {
        (Kind::Literal, quoted_end(bytes, at, b'"'))
    } else if rest[0] == b'\'' && is_character(rest) {
        (Kind::Literal, quoted_end(bytes, at, b'\''))
    } else {
        (Kind::Code, at + 1)
    }
}

/// Whether a byte can be inside an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn block_comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// End of `r"…"`, `r#"…"#` and their byte and C forms, if one starts here.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let prefix =
        [&b"r"[..], b"br", b"cr"].into_iter().find(|prefix| bytes[at..].starts_with(prefix))?;
    let open = at + prefix.len();
    let hashes = bytes[open..].iter().take_while(|&&byte| byte == b'#').count();
    if bytes.get(open + hashes) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(vec![b'#'; hashes]).collect();
    let body = open + hashes + 1;
    let length = bytes[body..].windows(close.len()).position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| body + length + close.len()))
}

fn quoted_end(bytes: &[u8], open: usize, quote: u8) -> usize {
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Whether the quote at the start begins a character literal rather than a lifetime.
fn is_character(rest: &[u8]) -> bool {
    let width = match rest.get(1) {
        None => return false,
        Some(b'\\') => return true,
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        Some(_) => 1,
    };
    rest.get(1 + width) == Some(&b'\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let masked = mask(text);
        assert_eq!(masked.code.lines().count(), text.lines().count());
        masked.code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_go() {
        assert_eq!(code("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(code("a /// b \"open\nc"), "a c");
    }

    #[test]
    fn strings_go_and_stay() {
        let text = r##"f("// no", r#"a " b"#, b"\" x", 'q') // yes"##;
        assert_eq!(code(text), "f( , , b , )");
        let kept = mask(text).code_and_literals;
        assert!(kept.contains("// no") && kept.contains("a \" b") && !kept.contains("yes"));
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(
            code("fn f<'a>(x: &'a str) -> char { '}' }"),
            "fn f<'a>(x: &'a str) -> char { }"
        );
        assert_eq!(code(r"let q = ['\'', 'é', '→', '\u{1F600}']; x"), "let q = [ , , , ]; x");
    }

    #[test]
    fn raw_identifiers_and_words_that_end_in_r_are_code() {
        assert_eq!(code(r##"r#fn(); bar"x"; y"##), "r#fn(); bar ; y");
    }

    #[test]
    fn unfinished_text_ends_with_the_file() {
        assert_eq!(code("a \"b"), "a");
        assert_eq!(code("a /* b"), "a");
        assert_eq!(code("a r#\"b"), "a");
    }
}
