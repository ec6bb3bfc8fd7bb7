//! The one format of finished pieces.
//!
//! `LWPIECE` and a line feed, the version (u32), kind and fingerprint, each with its length (u32),
//! the length of the payload (u64), all little-endian, the payload, and the SHA-256 of everything
//! before. The format of the payload depends on the kind: JSON, safetensors, numbers.

use crate::Fingerprint;
use crate::atomic::OutputError;
use crate::state;
use sha2::{Digest, Sha256};
use std::fs::{File, FileTimes};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::SystemTime;

const MAGIC: &[u8; 8] = b"LWPIECE\n";
const VERSION: u32 = 1;
/// Bytes of the digest at the end.
pub(super) const DIGEST: usize = 32;

/// Identifies a finished piece: its kind, and the fingerprint of everything it depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceKey {
    kind: &'static str,
    fingerprint: Fingerprint,
}

impl PieceKey {
    /// Key of a piece.
    ///
    /// # Panics
    /// If the kind is not one word of lower-case letters, or the fingerprint was not made by
    /// [`Fingerprint::of`]: both become parts of a path.
    #[must_use]
    #[track_caller]
    pub fn new(kind: &'static str, fingerprint: Fingerprint) -> Self {
        assert!(super::is_kind(kind), "{kind:?} is not a kind of a piece");
        assert!(fingerprint.is_valid(), "{fingerprint:?} is not a fingerprint");
        Self { kind, fingerprint }
    }

    /// Kind of the piece.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Fingerprint of everything it depends on.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Offset of the payload in the file of a piece, a multiple of the alignment for content that
    /// is read in place.
    #[must_use]
    pub fn payload_start(&self) -> usize {
        self.head().len() + 8
    }

    /// Everything before the length of the payload.
    fn head(&self) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        for word in [self.kind, &self.fingerprint.0] {
            head.extend((word.len() as u32).to_le_bytes());
            head.extend(word.as_bytes());
        }
        head
    }
}

/// Content of a file of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The payload, verified.
    Whole(Vec<u8>),
    /// There is no file.
    Nothing,
    /// The reason why the file is not this piece.
    Damaged(String),
}

/// Writes a piece atomically. Returns the bytes of the file.
pub(super) fn write(path: &Path, key: &PieceKey, payload: &[&[u8]]) -> Result<u64, OutputError> {
    let mut head = key.head();
    let length: u64 = payload.iter().map(|part| part.len() as u64).sum();
    head.extend(length.to_le_bytes());
    let mut hash = Sha256::new();
    hash.update(&head);
    payload.iter().for_each(|part| hash.update(part));
    let digest = hash.finalize();
    let mut parts: Vec<&[u8]> = vec![&head];
    parts.extend(payload);
    parts.push(&digest);
    state::write_parts(path, &parts)?;
    Ok((head.len() + DIGEST) as u64 + length)
}

/// Reads and verifies a piece. With `touch`, the file remembers this use.
///
/// # Errors
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

/// Errors of the operating system that say nothing about the piece.
pub(super) fn read(path: &Path, key: &PieceKey, touch: bool) -> io::Result<Found> {
    let file = match state::open(path) {
        Ok(file) => file,
        Err(error) => return missing_or_damaged(error),
    };
    let found = match verified(&file, key)? {
        Ok(payload) => Found::Whole(payload),
        Err(reason) => return Ok(Found::Damaged(reason)),
    };
    if touch {
        // Only eviction needs it, and a read-only store has none.
        drop(file.set_times(FileTimes::new().set_modified(SystemTime::now())));
    }
    Ok(found)
}

/// The payload of a file, or the reason why it has none.
fn verified(mut file: &File, key: &PieceKey) -> io::Result<Result<Vec<u8>, String>> {
    let bytes = file.metadata()?.len();
    let head = key.head();
    let short = || Ok(Err(format!("it has only {bytes} bytes")));
    let around = (head.len() + 8 + DIGEST) as u64;
    if bytes < around {
        return short();
    }
    let mut start = vec![0; head.len() + 8];
    if !filled(file.read_exact(&mut start))? {
        return short();
    }
    let (own, length) = start.split_at(head.len());
    if own[..MAGIC.len()] != MAGIC[..] {
        return Ok(Err("it is not a finished piece".to_owned()));
    }
    let version = own[MAGIC.len()..].first_chunk::<4>().copied().map(u32::from_le_bytes);
    if let Some(version) = version.filter(|&version| version != VERSION) {
        return Ok(Err(format!("its format has version {version}, expected {VERSION}")));
    }
    if own != head {
        return Ok(Err("it is not the piece that its name says".to_owned()));
    }
    let length = length.first_chunk::<8>().copied().map_or(0, u64::from_le_bytes);
    // The size is compared before memory is allocated.
    if length != bytes - around {
        let found = bytes - around;
        return Ok(Err(format!("it has {found} bytes of content, expected {length}")));
    }
    let length = usize::try_from(length).map_err(|_| ErrorKind::OutOfMemory)?;
    let mut payload = Vec::new();
    payload.try_reserve_exact(length).map_err(|_| ErrorKind::OutOfMemory)?;
    file.take(length as u64).read_to_end(&mut payload)?;
    let mut digest = [0; DIGEST];
    if payload.len() != length || !filled(file.read_exact(&mut digest))? {
        return short();
    }
    let mut hash = Sha256::new();
    hash.update(&start);
    hash.update(&payload);
    if hash.finalize()[..] != digest[..] {
        return Ok(Err("its checksum differs, so the file was changed".to_owned()));
    }
    Ok(Ok(payload))
}

/// Whether a read filled its buffer; a file that ends too early is not an error of the operating
/// system.
fn filled(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
