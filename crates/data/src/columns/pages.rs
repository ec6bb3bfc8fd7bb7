//! Sizes of the pages of a column, from their headers alone.
//!
//! A header is a structure in the compact protocol of Thrift (apache/thrift,
//! doc/specs/thrift-compact-protocol.md) with the fields of `PageHeader` in apache/parquet-format,
//! src/main/thrift/parquet.thrift: field 2 is the uncompressed size of the page, field 3 its size
//! in the file; in the structures 5, 7 and 8, field 1 is the number of values.

/// Greatest depth of structures; a header has three.
const MAX_DEPTH: usize = 8;

/// Totals over the pages of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    /// Uncompressed size of all pages in bytes.
    pub(super) bytes: u64,
    /// Uncompressed size of the largest page in bytes.
    pub(super) largest: u64,
    /// Number of values in all pages.
    pub(super) values: u64,
}

impl Pages {
    pub(super) fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.values = self.values.saturating_add(other.values);
        self.largest = self.largest.max(other.largest);
    }
}

/// Reads the page headers of a column.
pub(super) fn walk(mut chunk: &[u8]) -> Result<Pages, String> {
    let mut pages = Pages::default();
    while !chunk.is_empty() {
        let mut header = Header { rest: chunk, unpacked: None, packed: None, values: 0 };
        header.structure(0, None).ok_or("a page without a readable header")?;
        let size = |size: Option<i64>| size.and_then(|size| usize::try_from(size).ok());
        let (unpacked, packed) =
            size(header.unpacked).zip(size(header.packed)).ok_or("a page without sizes")?;
        let values =
            u64::try_from(header.values).map_err(|_| "a page with a negative number of values")?;
        pages.add(&Pages { bytes: unpacked as u64, largest: unpacked as u64, values });
        chunk = header.rest.get(packed..).ok_or("a page that is longer than its column")?;
    }
    Ok(pages)
}

/// Reads a header from the start of bytes.
struct Header<'a> {
    rest: &'a [u8],
    unpacked: Option<i64>,
    packed: Option<i64>,
    values: i64,
}

impl Header<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A zigzag-encoded integer.
    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Reads a structure; `field` is its field number in the header, `None` for the header itself.
    fn structure(&mut self, depth: usize, field: Option<i64>) -> Option<()> {
        if depth == MAX_DEPTH {
            return None;
        }
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            let (step, kind) = (i64::from(head >> 4), head & 0x0f);
            if kind == 0 {
                return Some(());
            }
            id = if step == 0 { self.integer()? } else { id + step };
            match (field, id, kind) {
                (None, 2, 4..=6) => self.unpacked = Some(self.integer()?),
                (None, 3, 4..=6) => self.packed = Some(self.integer()?),
                (Some(5 | 7 | 8), 1, 4..=6) => self.values = self.integer()?,
                (None, id, 12) => self.structure(depth + 1, Some(id))?,
                _ => self.pass(kind, depth)?,
            }
        }
    }

    /// Skips a value.
    fn pass(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            // Booleans are encoded in the type itself.
            1 | 2 => Some(()),
            3 => self.skip(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                // Every element takes at least one byte, booleans too.
                if length > self.rest.len() as u64 {
                    return None;
                }
                (0..length).try_for_each(|_| match head & 0x0f {
                    1 | 2 => self.skip(1),
                    12 => self.structure(depth + 1, Some(0)),
                    kind => self.pass(kind, depth + 1),
                })
            }
            12 => self.structure(depth + 1, Some(0)),
            // Maps, and unknown types.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data page of 3 values: type 0, 100 bytes uncompressed, 4 in the file.
    const PAGE: [u8; 13] = [0x15, 0, 0x15, 0xc8, 1, 0x15, 8, 0x2c, 0x15, 6, 0, 0, 9];

    #[test]
    fn sizes_are_read_from_headers() {
        let page = [&PAGE[..], &[9, 9, 9]].concat();
        let want = Pages { bytes: 100, largest: 100, values: 3 };
        assert_eq!(walk(&page).unwrap(), want);
        let twice = walk(&[&page[..], &page].concat()).unwrap();
        assert_eq!(twice, Pages { bytes: 200, largest: 100, values: 6 });
        assert_eq!(walk(&[]).unwrap(), Pages::default());
    }

    #[test]
    fn broken_headers_are_refused() {
        for (bytes, want) in [
            (&PAGE[..12], "longer than its column"),
            (&PAGE[..9], "without a readable header"),
            (&[0x15, 0, 0][..], "without sizes"),
            (&[0x15, 0, 0x15, 1, 0x15, 8, 0][..], "without sizes"),
            (&[0x1c; 40][..], "without a readable header"),
            (&[0x18, 0xff, 0xff, 0xff, 0x7f][..], "without a readable header"),
            (&[0xff; 30][..], "without a readable header"),
        ] {
            let reason = walk(bytes).unwrap_err();
            assert!(reason.contains(want), "{bytes:?}: {reason:?} lacks {want:?}");
        }
    }
}
