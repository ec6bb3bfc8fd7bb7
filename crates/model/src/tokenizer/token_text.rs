//! The text of single tokens.

use super::{Tokenizer, TokenizerError};

/// The replacement character, which decoders write for invalid UTF-8.
const REPLACEMENT: char = '\u{FFFD}';

impl Tokenizer {
    /// The text of one token inside a text, for lists of tokens: with its leading space, special
    /// tokens by their names. A token that is part of a character is written as its bytes,
    /// `bytes:\xe2\x80`, as OpenAI's API does; an unknown id as a number in angle brackets.
    ///
    /// # Errors
    /// [`TokenizerError::Invalid`] if the decoder fails.
    pub fn token_text(&self, id: u32) -> Result<String, TokenizerError> {
        let Some(token) = self.inner.id_to_token(id) else { return Ok(format!("<{id}>")) };
        // At the start of a text some decoders drop a space.
        let text = match self.encode("a", false)?.last() {
            Some(&before) => {
                let (start, both) =
                    (self.decode(&[before], false)?, self.decode(&[before, id], false)?);
                match both.strip_prefix(&start) {
                    Some(rest) => rest.to_owned(),
                    None => self.decode(&[id], false)?,
                }
            }
            None => self.decode(&[id], false)?,
        };
        if !text.contains(REPLACEMENT) {
            return Ok(text);
        }
        let Some(bytes) = bytes_of(&token) else { return Ok(token) };
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
            let bytes = error.as_bytes().iter().map(|byte| format!("\\x{byte:02x}"));
            format!("bytes:{}", bytes.collect::<String>())
        }))
    }
}

/// The bytes of a token in byte notation: `<0xE2>`, or in the alphabet of GPT-2.
fn bytes_of(token: &str) -> Option<Vec<u8>> {
    let hex = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        return Some(vec![byte]);
    }
    token.chars().map(byte_of).collect()
}

/// The byte of a character in GPT-2's alphabet: printable bytes are themselves, the others follow
/// from U+0100 on, in order.
fn byte_of(character: char) -> Option<u8> {
    let printable = |byte: &u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    match u8::try_from(character) {
        Ok(byte) => printable(&byte).then_some(byte),
        Err(_) => {
            let nth = (character as usize).checked_sub(256)?;
            (0..=255).filter(|byte| !printable(byte)).nth(nth)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_from_both_ways_of_writing_them() {
        assert_eq!(bytes_of("<0xE2>"), Some(vec![0xE2]));
        // U+0120 stands for the space, U+0100 for the zero byte, U+0143 for the soft hyphen.
        assert_eq!(bytes_of("\u{120}a\u{e2}\u{100}\u{143}"), Some(vec![b' ', b'a', 0xE2, 0, 173]));
        assert_eq!(bytes_of("\u{4e00}"), None);
        assert_eq!(byte_of('\u{144}'), None);
        assert_eq!(byte_of(' '), None);
    }
}
