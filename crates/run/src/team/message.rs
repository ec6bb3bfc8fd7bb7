//! The one format of messages that members of a team write into their folder.
//!
//! `LWTEAM`, the version, the job with its number of shards, and the subject, each after a space;
//! the number of bytes; a line feed; the bytes; the SHA-256 of everything before. So a message that
//! was changed, truncated or swapped is distinguished from the expected one.

use crate::{Fingerprint, Shard, state};
use sha2::{Digest, Sha256};
use std::io::{self, ErrorKind};
use std::path::Path;

const MAGIC: &str = "LWTEAM 1";
/// Bytes of the digest at the end.
const DIGEST: usize = 32;
/// Largest size of a message in bytes: more than the memory of any machine, so it excludes only
/// nonsense.
const MOST_BYTES: u64 = 1 << 44;

/// Content of a file with the name of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The message.
    Whole(Vec<u8>),
    /// There is none.
    Nothing,
    /// The reason why the file is not the expected one.
    Damaged(String),
}

/// Everything before the number of bytes: the job and the subject of the message.
pub(super) fn head(job: &Fingerprint, shard: Shard, what: &str) -> String {
    format!("{MAGIC} {} {} {what} ", job.0, shard.count())
}

/// The bytes of a file for a message.
pub(super) fn sealed(head: &str, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(head.len() + 21 + message.len() + DIGEST);
    bytes.extend(head.as_bytes());
    bytes.extend(format!("{}\n", message.len()).as_bytes());
    bytes.extend(message);
    let digest = Sha256::digest(&bytes);
    bytes.extend(digest);
    bytes
}

/// What an error of opening means.
fn missing_or_damaged(error: io::Error) -> io::Result<Found> {
    let kind = error.kind();
    // A folder, a link or a pipe in its place.
    let is_other = matches!(kind, ErrorKind::IsADirectory | ErrorKind::InvalidInput);
    match kind == ErrorKind::NotFound {
        true => Ok(Found::Nothing),
        false if is_other => Ok(Found::Damaged(error.to_string())),
        false => Err(error),
    }
}

/// Reads the message with this head.
///
/// # Errors
/// Errors of the operating system that say nothing about the message.
pub(super) fn read(path: &Path, head: &str) -> io::Result<Found> {
    match state::read(path, MOST_BYTES) {
        Ok(bytes) => Ok(match opened(bytes, head) {
            Ok(message) => Found::Whole(message),
            Err(reason) => Found::Damaged(reason.to_owned()),
        }),
        Err(error) => missing_or_damaged(error),
    }
}

/// The message in the bytes of a file.
fn opened(mut bytes: Vec<u8>, head: &str) -> Result<Vec<u8>, &'static str> {
    let start = bytes.len().checked_sub(DIGEST).ok_or("it is too short")?;
    if Sha256::digest(&bytes[..start])[..] != bytes[start..] {
        return Err("its checksum differs, so it was changed");
    }
    bytes.truncate(start);
    let rest = bytes.strip_prefix(head.as_bytes()).ok_or("it is not the one that its name says")?;
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or("it has no length")?;
    let length = std::str::from_utf8(&rest[..end]).ok().and_then(|text| text.parse().ok());
    let payload = head.len() + end + 1;
    if length != Some(bytes.len() - payload) {
        return Err("its length differs from the one it declares");
    }
    bytes.drain(..payload);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> [String; 4] {
        let job = |name: &str| Fingerprint::of(&[("job", &name)]);
        let of = |count| Shard::new(0, count).unwrap();
        [
            head(&job("a"), of(2), "piece 0-1-0"),
            head(&job("b"), of(2), "piece 0-1-0"),
            head(&job("a"), of(3), "piece 0-1-0"),
            head(&job("a"), of(2), "piece 0-1-1"),
        ]
    }

    #[test]
    fn a_message_reads_back_and_no_other_in_its_place() {
        let [own, others @ ..] = heads();
        for message in [&b""[..], b"message", &[0; 1000]] {
            assert_eq!(opened(sealed(&own, message), &own), Ok(message.to_vec()));
            for other in &others {
                let error = opened(sealed(other, message), &own).unwrap_err();
                assert!(error.contains("not the one"), "{error}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let [own, ..] = heads();
        let whole = sealed(&own, b"message");
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                assert!(opened(changed, &own).is_err(), "bit {bit} of byte {at}");
            }
            assert!(opened(whole[..at].to_vec(), &own).is_err(), "cut at {at}");
        }
        assert!(opened([&whole[..], b"\0"].concat(), &own).is_err());
        // Sealed again by somebody who did not count.
        let long = [own.as_bytes(), b"6\nmessage"].concat();
        let long = [&long[..], &Sha256::digest(&long)[..]].concat();
        assert_eq!(opened(long, &own), Err("its length differs from the one it declares"));
    }
}
