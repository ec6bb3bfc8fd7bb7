//! Signatures: the invariant part of a result.

/// Fields with text from the source code, which shows where an error arose.
const TELLING: [&str; 10] = [
    "what",
    "within",
    "why",
    "opcode",
    "reason",
    "expected",
    "how",
    "field",
    "fields",
    "supported",
];

/// The structure of a result as printed by `Debug`: names of types, variants and fields, and texts
/// of distinguishing fields, without numbers and quoted words.
#[must_use]
pub fn signature(debug: &str) -> String {
    let mut shape = String::new();
    let mut field = String::new();
    let mut rest = debug;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let (text, after) = quoted(rest);
            if TELLING.contains(&field.as_str()) {
                shape.push_str(&plain(text));
            }
            rest = after;
        } else if first.is_ascii_digit() {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
            shape.push('#');
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            if after.starts_with(':') {
                word.clone_into(&mut field);
            }
            shape.push_str(word);
            rest = after;
        } else {
            // Lists of all lengths are equal.
            if !matches!(first, ' ' | ',' | '-') {
                shape.push(first);
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    while let Some(at) = shape.find("##") {
        shape.remove(at);
    }
    shape
}

/// A quoted text, and the rest after it.
fn quoted(text: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or((&text[1..], ""), |(end, _)| (&text[1..end], &text[end + 1..]))
}

/// A message without numbers and quoted words that belong to one input: its lower-case words up to
/// the first quotation.
fn plain(message: &str) -> String {
    let is_ours = |word: &&str| !word.contains(['"', '`', '\'', '\\']);
    let is_word = |word: &&str| {
        word.chars().all(|c| c.is_ascii_lowercase() || matches!(c, ',' | ';' | ':' | '(' | ')'))
    };
    let words: Vec<&str> =
        message.split(' ').take_while(is_ours).filter(is_word).take(12).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_and_places_stay() {
        let shape = |what: &str, name: &str, at: u32| {
            signature(&format!("Pickle(Call {{ at: {at}, name: {name:?}, what: {what:?} }})"))
        };
        assert_eq!(shape("has 3 of it", "a\"b", 7), shape("has 4 of it", "c", 12345));
        assert_ne!(shape("has 3 of it", "a", 7), shape("has none", "a", 7));
        assert_eq!(shape("unknown field `a b`", "", 1), shape("unknown field `c`", "", 1));
        assert_eq!(signature("[1, 2, 3]"), signature("[1]"));
        assert_eq!(signature("\"open"), "");
    }
}
