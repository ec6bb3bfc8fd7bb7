//! The text of single tokens.

use super::{Tokenizer, TokenizerError};

/// What a decoder writes for bytes that are no character.
const REPLACEMENT: char = '\u{FFFD}';

impl Tokenizer {
    /// The text of one token as it stands inside of a text, for lists of tokens: with the space
    /// before it, special tokens by their names. Of a token that is a part of a character the bytes
    /// are told, `bytes:\xe2\x80`, as servers of OpenAI's protocol do; of one that the tokenizer
    /// does not have, its number in angles.
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

/// The bytes of a token that is written byte by byte: `<0xE2>`, or in the alphabet of GPT-2.
fn bytes_of(token: &str) -> Option<Vec<u8>> {
    let hex = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        return Some(vec![byte]);
    }
    token.chars().map(byte_of).collect()
}

/// The byte of a character of GPT-2's alphabet: printable ones stand for themselves, the others for
/// those from U+0100 on, in order.
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
