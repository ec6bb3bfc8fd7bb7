//! The directory of a zip archive, and archives with uncompressed entries.
//!
//! Only what weight files need is supported: entries without encryption, in one file, with 64-bit
//! records. Compressed ones are listed for callers that can decompress them, and rejected
//! otherwise. The central directory at the end lists the entries; each local header must agree with
//! it, and no two entries may overlap, so that every reader sees the same content. Checksums are
//! not verified: that would be another pass over all weights. Source: PKWARE, APPNOTE.TXT, sections
//! 4.3 and 4.5.

mod archive;

pub use archive::zip_archive;
pub(crate) use archive::{Written, archive};

use crate::{FileFault, PickleFault};
use linwright_run::shown;
use std::ops::Range;

/// Magic bytes of a zip archive.
pub(crate) const MAGIC: [u8; 4] = *b"PK\x03\x04";
const DIRECTORY_ENTRY: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
/// Sizes of the records without their variable parts.
const LOCAL_BYTES: usize = 30;
const ENTRY_BYTES: usize = 46;
const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_BYTES: usize = 20;
/// Longest comment after the end record.
const COMMENT_BYTES: usize = u16::MAX as usize;
/// Number of the only supported compression method.
const DEFLATE: u16 = 8;
/// Value of a 32-bit field whose number is in the 64-bit extra field.
const SEE_64: u32 = u32::MAX;

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    /// Its relative path.
    pub name: &'a str,
    /// Its content, as a byte range of the archive.
    pub bytes: Range<usize>,
    /// Size after decompression, if it is compressed with deflate.
    pub inflated: Option<u64>,
}

/// Errors of zip archives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZipFault {
    /// A missing end record.
    #[error("no end record of a zip archive was found; the file is truncated")]
    NoEnd,
    /// A damaged record of the directory, or one that points out of the file.
    #[error("the zip directory is damaged: {what}")]
    Directory {
        /// The record, and what is wrong.
        what: &'static str,
    },
    /// A compressed or encrypted entry.
    #[error(
        "zip entry \"{name}\" is {how}; expected stored entries, as torch.save and numpy.savez write them", name = shown(name)
    )]
    Packed {
        /// The entry.
        name: String,
        /// How it is stored.
        how: &'static str,
    },
    /// A name that is not a plain relative path.
    #[error("zip entry \"{name}\" has no plain relative name; such a file is hostile or damaged", name = shown(name))]
    Name {
        /// The name.
        name: String,
    },
    /// Two entries of one name.
    #[error("zip entry \"{name}\" is there twice; the file is damaged", name = shown(name))]
    Twice {
        /// The name.
        name: String,
    },
    /// An entry that ends beyond the directory, or whose local header differs.
    #[error("zip entry \"{name}\" {what}; the file is truncated or damaged", name = shown(name))]
    Entry {
        /// The entry.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// Two entries that share bytes.
    #[error("zip entries \"{first}\" and \"{second}\" overlap", first = shown(first), second = shown(second))]
    Overlap {
        /// The entry that starts first.
        first: String,
        /// The other.
        second: String,
    },
    /// An archive that 32-bit records cannot hold.
    #[error("the archive would have more than 4 GiB or 65,535 entries; write safetensors instead")]
    Large,
}

/// Names and contents of the files in a zip archive, in the order of its directory; `bytes` is the
/// whole archive. Directories among the entries are left out.
///
/// # Errors
/// A damaged archive, and one with compressed or encrypted entries.
pub fn archived_files(bytes: &[u8]) -> Result<Vec<(&str, &[u8])>, FileFault> {
    let entries = entries(bytes).map_err(PickleFault::from)?;
    let files = entries.into_iter().filter(|entry| !entry.name.ends_with('/'));
    Ok(files.map(|entry| (entry.name, &bytes[entry.bytes])).collect())
}

/// The entries of an archive in the order of the directory; `bytes` is the whole file.
pub(crate) fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, ZipFault> {
    let all = all_entries(bytes)?;
    match all.iter().find(|entry| entry.inflated.is_some()) {
        Some(packed) => Err(ZipFault::Packed { name: packed.name.into(), how: "compressed" }),
        None => Ok(all),
    }
}

/// The same, with compressed entries.
pub(crate) fn all_entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, ZipFault> {
    let directory = directory(bytes)?;
    let mut places: Vec<(Range<usize>, Entry<'_>)> = Vec::new();
    let mut at = directory.start;
    for _ in 0..directory.count {
        let damaged = ZipFault::Directory { what: "an entry is cut off" };
        let end = directory.end;
        let record = bytes.get(at..end).and_then(Record::read).ok_or(damaged)?;
        at += record.length;
        places.push(record.entry(&bytes[..directory.start])?);
    }
    if at != directory.end {
        return Err(ZipFault::Directory { what: "it has another length than its entries" });
    }
    check_apart(&mut places)?;
    Ok(places.into_iter().map(|(_, entry)| entry).collect())
}

/// Offset of the directory, and number of entries.
struct Directory {
    start: usize,
    end: usize,
    count: u64,
}

fn directory(bytes: &[u8]) -> Result<Directory, ZipFault> {
    let last = bytes.len().checked_sub(END_BYTES).ok_or(ZipFault::NoEnd)?;
    let is_end = |at: &usize| {
        let comment = u16_at(bytes, at + 20).map(usize::from);
        bytes[*at..].starts_with(&END) && comment == Some(last - at)
    };
    let end = (last.saturating_sub(COMMENT_BYTES)..=last).rev().find(is_end);
    let end = end.ok_or(ZipFault::NoEnd)?;
    let damaged = |what| ZipFault::Directory { what };
    let locator = end.checked_sub(LOCATOR_BYTES).filter(|at| bytes[*at..].starts_with(&LOCATOR_64));
    let fields = match locator {
        Some(locator) => {
            let wrong = damaged("its 64-bit end record is missing");
            let place = u64_at(bytes, locator + 8).and_then(|at| usize::try_from(at).ok());
            let record = place.and_then(|at| bytes[..locator].get(at..)).ok_or(wrong.clone())?;
            if record.len() < END_64_BYTES || !record.starts_with(&END_64) {
                return Err(wrong);
            }
            (u32_at(record, 16), u64_at(record, 32), u64_at(record, 40), u64_at(record, 48))
        }
        None => (
            u16_at(bytes, end + 6).map(u32::from),
            u16_at(bytes, end + 10).map(u64::from),
            u32_at(bytes, end + 12).map(u64::from),
            u32_at(bytes, end + 16).map(u64::from),
        ),
    };
    let (Some(disk), Some(count), Some(size), Some(start)) = fields else {
        return Err(damaged("the end record is cut off"));
    };
    if disk != 0 {
        return Err(damaged("it is spread over several files"));
    }
    let stop = start.checked_add(size).filter(|stop| *stop <= end as u64);
    match stop {
        // Both are at most the length of a slice.
        Some(stop) => Ok(Directory { start: start as usize, end: stop as usize, count }),
        None => Err(damaged("it ends beyond the end record")),
    }
}

/// A record of the directory.
struct Record<'a> {
    flags: u16,
    method: u16,
    packed: u64,
    size: u64,
    offset: u64,
    name: &'a [u8],
    /// Size of the whole record.
    length: usize,
}

impl<'a> Record<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        if !bytes.starts_with(&DIRECTORY_ENTRY) {
            return None;
        }
        let [name, extra, comment] = [28, 30, 32].map(|at| u16_at(bytes, at).map(usize::from));
        let (name, extra) = (ENTRY_BYTES + name?, extra?);
        let length = name + extra + comment?;
        let narrow = [24, 20, 42].map(|at| u32_at(bytes, at));
        let wide = wide_fields(bytes.get(name..name + extra)?);
        let mut wide = wide.chunks_exact(8);
        let mut fields = [0; 3];
        for (field, narrow) in fields.iter_mut().zip(narrow) {
            *field = match narrow? {
                // 64-bit fields appear in this order, only those that do not fit in 32 bits.
                SEE_64 => u64_at(wide.next()?, 0)?,
                value => u64::from(value),
            };
        }
        bytes.get(..length)?;
        let [size, packed, offset] = fields;
        Some(Self {
            flags: u16_at(bytes, 8)?,
            method: u16_at(bytes, 10)?,
            packed,
            size,
            offset,
            name: bytes.get(ENTRY_BYTES..name)?,
            length,
        })
    }

    /// The entry, and its byte range with the local header. `bytes` end at the directory.
    fn entry(&self, bytes: &[u8]) -> Result<(Range<usize>, Entry<'a>), ZipFault> {
        let shown = || shown(&String::from_utf8_lossy(self.name));
        let name = str::from_utf8(self.name).ok().filter(|name| is_plain(name));
        let name = name.ok_or_else(|| ZipFault::Name { name: shown() })?;
        let is_deflated = self.method == DEFLATE;
        if !(is_deflated || (self.method == 0 && self.packed == self.size)) {
            return Err(ZipFault::Packed { name: shown(), how: "compressed" });
        }
        if self.flags & 1 != 0 {
            return Err(ZipFault::Packed { name: shown(), how: "encrypted" });
        }
        let wrong = |what| ZipFault::Entry { name: shown(), what };
        let start = usize::try_from(self.offset).ok();
        let local = start.and_then(|start| bytes.get(start..));
        let (Some(start), Some(local)) = (start, local) else {
            return Err(wrong("starts beyond the directory"));
        };
        let [named, extra] = [26, 28].map(|at| u16_at(local, at).map(usize::from));
        let (Some(named), Some(extra)) = (named, extra) else {
            return Err(wrong("has no local header"));
        };
        let same = local.get(LOCAL_BYTES..LOCAL_BYTES + named) == Some(self.name);
        if !local.starts_with(&MAGIC) || !same || u16_at(local, 8) != Some(self.method) {
            return Err(wrong("has another local header"));
        }
        let first = start + LOCAL_BYTES + named + extra;
        let end = usize::try_from(self.packed).ok().and_then(|size| first.checked_add(size));
        let inflated = is_deflated.then_some(self.size);
        match end.filter(|end| *end <= bytes.len()) {
            Some(end) => Ok((start..end, Entry { name, bytes: first..end, inflated })),
            None => Err(wrong("ends beyond the directory")),
        }
    }
}

/// The 64-bit fields of a record's extra fields, if any.
fn wide_fields(mut extra: &[u8]) -> &[u8] {
    while let (Some(id), Some(size)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let Some(field) = extra.get(4..4 + usize::from(size)) else { break };
        if id == 1 {
            return field;
        }
        extra = &extra[4 + field.len()..];
    }
    &[]
}

/// Whether a name is a relative path without `..`.
fn is_plain(name: &str) -> bool {
    let odd = |part: &str| part == ".." || part == ".";
    !name.is_empty()
        && !name.starts_with('/')
        && !name.contains(['\\', '\0', ':'])
        && !name.split('/').any(odd)
}

/// Checks that names are unique and that no two entries overlap.
fn check_apart(places: &mut [(Range<usize>, Entry<'_>)]) -> Result<(), ZipFault> {
    places.sort_by(|(_, a), (_, b)| a.name.cmp(b.name));
    if let Some([(_, a), _]) = places.array_windows().find(|[(_, a), (_, b)]| a.name == b.name) {
        return Err(ZipFault::Twice { name: shown(a.name) });
    }
    places.sort_by_key(|(range, _)| range.start);
    for [(range, a), (next, b)] in places.array_windows() {
        if next.start < range.end {
            let [first, second] = [a, b].map(|entry| shown(entry.name));
            return Err(ZipFault::Overlap { first, second });
        }
    }
    Ok(())
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}
