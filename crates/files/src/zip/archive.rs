//! Archives of uncompressed entries, as PyTorch and numpy write them.

use super::{DIRECTORY_ENTRY, END, MAGIC, ZipFault};

/// Numbers begin at multiples of this, which needs an extra field before them.
const ALIGNMENT: usize = 64;
/// Identifier of that field, which readers skip; PyTorch has the same.
const PADDING: [u8; 2] = *b"FB";
/// Bytes of the identifier and size of an extra field.
const FIELD_BYTES: usize = 4;
/// Version of the format that a reader needs, with neither compression nor 64-bit records.
const NEEDED: u16 = 10;
/// First of January 1980, so that the same content has the same bytes.
const DATE: u16 = 0x21;

/// A file of an archive that is written.
pub(crate) struct Written<'a> {
    /// Its relative path.
    pub name: String,
    /// Its content.
    pub bytes: &'a [u8],
}

/// The bytes of an archive with these files, in this order.
///
/// # Errors
/// [`ZipFault::Large`] for more than four gigabytes, which 32-bit records cannot hold.
pub(crate) fn archive(files: &[Written<'_>]) -> Result<Vec<u8>, ZipFault> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for file in files {
        let offset = narrow(out.len())?;
        let record = record(file, narrow(file.bytes.len())?);
        let plain = out.len() + super::LOCAL_BYTES + file.name.len() + FIELD_BYTES;
        let padding = plain.next_multiple_of(ALIGNMENT) - plain;
        out.extend(MAGIC);
        out.extend(&record);
        out.extend(((FIELD_BYTES + padding) as u16).to_le_bytes());
        out.extend(file.name.as_bytes());
        out.extend(PADDING);
        out.extend((padding as u16).to_le_bytes());
        out.resize(out.len() + padding, b'Z');
        out.extend(file.bytes);
        directory.extend(DIRECTORY_ENTRY);
        directory.extend(NEEDED.to_le_bytes());
        directory.extend(&record);
        // No extra field, comment, disk or attributes.
        directory.extend([0; 12]);
        directory.extend(offset.to_le_bytes());
        directory.extend(file.name.as_bytes());
    }
    let (start, size) = (narrow(out.len())?, narrow(directory.len())?);
    let count = u16::try_from(files.len()).map_err(|_| ZipFault::Large)?;
    out.extend(directory);
    out.extend(END);
    out.extend([0; 4]);
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    Ok(out)
}

/// Common part of both records of a file, up to the length of its name.
fn record(file: &Written<'_>, size: u32) -> Vec<u8> {
    let mut record = Vec::new();
    // Version, flags, method (stored), time.
    for field in [NEEDED, 0, 0, 0, DATE] {
        record.extend(field.to_le_bytes());
    }
    record.extend(crc32(file.bytes).to_le_bytes());
    record.extend(size.to_le_bytes());
    record.extend(size.to_le_bytes());
    record.extend((file.name.len() as u16).to_le_bytes());
    record
}

fn narrow(size: usize) -> Result<u32, ZipFault> {
    u32::try_from(size).ok().filter(|size| *size < super::SEE_64).ok_or(ZipFault::Large)
}

/// The bytes of an archive with these files by name, uncompressed, in this order.
///
/// # Errors
/// [`ZipFault::Large`] for more than four gigabytes.
pub fn zip_archive(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, ZipFault> {
    let written = files.iter().map(|(name, bytes)| Written { name: name.clone(), bytes });
    archive(&written.collect::<Vec<_>>())
}

/// The checksum of zip archives: the polynomial of ISO 3309, reflected.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    let table: [u32; 256] =
        std::array::from_fn(|byte| (0..8).fold(byte as u32, |crc, _| step(crc)));
    let next = |crc: u32, byte: &u8| (crc >> 8) ^ table[usize::from((crc as u8) ^ byte)];
    !bytes.iter().fold(!0, next)
}

#[cfg(test)]
mod tests {
    use super::super::archived_files;
    use super::*;

    #[test]
    fn a_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn an_archive_has_its_files() {
        let files: Vec<(String, Vec<u8>)> = vec![
            ("a/one".into(), vec![1]),
            ("a/two".into(), vec![7; 100]),
            ("none".into(), vec![]),
        ];
        let bytes = zip_archive(&files).unwrap();
        let found = archived_files(&bytes).unwrap();
        let found: Vec<_> = found.into_iter().map(|(n, b)| (n.to_owned(), b.to_vec())).collect();
        assert_eq!(found, files);
        assert!(archived_files(&archive(&[]).unwrap()).unwrap().is_empty());
    }
}
