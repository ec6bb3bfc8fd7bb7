//! Files that carry the digest of all of their bytes.
//!
//! The JSON text at the head of such a file has `"sha256":"HEX"`: the SHA-256 of the whole file in
//! which [`BLANK`] stands for HEX. So a file of any format with JSON at its head, such as
//! safetensors, can be sealed and remains valid.

use sha2::{Digest, Sha256};
use std::ops::Range;

/// The name of the digest.
pub const KEY: &str = "sha256";
/// Placeholder for the digest until it is known, and for its computation.
pub const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Bytes of the head of a safetensors file: eight for its length, and the header itself.
#[must_use]
pub fn head_of(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk::<8>().map_or(0, |length| u64::from_le_bytes(*length));
    usize::try_from(length).unwrap_or(usize::MAX).saturating_add(8).min(bytes.len())
}

/// Where the digest is in a head.
fn place(head: &[u8]) -> Option<Range<usize>> {
    let before = format!("\"{KEY}\":\"");
    // Quotes are escaped within strings, so no string has these bytes.
    let start = head.windows(before.len()).position(|bytes| bytes == before.as_bytes())?;
    let place = start + before.len()..start + before.len() + BLANK.len();
    let is_digest = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    head.get(place.clone()).filter(|bytes| is_digest(bytes)).map(|_| place)
}

fn digest(head: &[u8], place: &Range<usize>, rest: impl FnOnce(&mut dyn FnMut(&[u8]))) -> String {
    let mut hash = Sha256::new();
    hash.update(&head[..place.start]);
    hash.update(BLANK);
    hash.update(&head[place.end..]);
    rest(&mut |bytes| hash.update(bytes));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the digest into a head that has [`BLANK`] under [`KEY`]; `rest` gives all bytes that
/// follow the head in the file.
///
/// # Panics
/// If the head has no place for it.
#[track_caller]
pub fn seal(head: &mut [u8], rest: impl FnOnce(&mut dyn FnMut(&[u8]))) {
    let Some(place) = place(head) else { panic!("a head without a place for its digest") };
    let digest = digest(head, &place, rest);
    head[place].copy_from_slice(digest.as_bytes());
}

/// Compares the digest of a file, its head and the rest, with the one in the head.
///
/// # Errors
/// The reason why it is not the file that was written.
pub fn check(head: &[u8], rest: &[u8]) -> Result<(), String> {
    let Some(place) = place(head) else {
        return Err("it has no digest of its bytes".into());
    };
    let found = digest(head, &place, |add| add(rest));
    match found.as_bytes() == &head[place] {
        true => Ok(()),
        false => Err("its bytes have another digest, so the file was changed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(content: &[u8]) -> (Vec<u8>, usize) {
        let text =
            format!("{{\"about\":\"a \\\"sha256\\\":\\\" in a text\",\"{KEY}\":\"{BLANK}\"}}");
        let mut head = text.into_bytes();
        seal(&mut head, |add| content.chunks(7).for_each(add));
        let length = head.len();
        head.extend_from_slice(content);
        (head, length)
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let (file, length) = sealed(b"some numbers in a row");
        check(&file[..length], &file[length..]).expect("as it was written");
        for at in 0..file.len() {
            for bit in [1, 0x20, 0x80] {
                let mut changed = file.clone();
                changed[at] ^= bit;
                // Upper case is the same digest in other letters, and no other content.
                let (head, rest) = changed.split_at(length);
                assert!(check(head, rest).is_err(), "byte {at}, bit {bit}");
            }
        }
        assert!(check(&file[..length], &file[length..file.len() - 1]).is_err());
        assert!(check(b"{}", b"").expect_err("has none").contains("no digest"));
    }
}
