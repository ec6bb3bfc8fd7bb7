//! Regular files that are opened without following a link and without waiting.

use crate::input;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file for reading.
///
/// # Errors
/// Errors of the operating system; [`io::ErrorKind::IsADirectory`] for a folder and
/// [`io::ErrorKind::InvalidInput`] for a link, pipe, socket or device.
pub fn open(path: &Path) -> io::Result<File> {
    let file = opened(path, OpenOptions::new().read(true))?;
    input::observed(path, file.metadata()?.len());
    Ok(file)
}

/// Opens a file for reading and for writing in place; creates it if there is none.
///
/// # Errors
/// As [`open`], and [`io::ErrorKind::InvalidInput`] for a file with a second name (hard link): it
/// may be shared with another place.
pub fn edit(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = opened(path, options.create(true).truncate(false).read(true).write(true))?;
    match names_of(&file.metadata()?) {
        0 | 1 => Ok(file),
        names => {
            let reason =
                format!("it has {names} names (hard links), expected one; remove this one");
            Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
        }
    }
}

/// Bytes of a file of at most `most` bytes.
///
/// # Errors
/// As [`open`], and [`io::ErrorKind::FileTooLarge`].
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    input::content(open(path)?, most)
}

/// Text of a file of at most `most` bytes.
///
/// # Errors
/// As [`read`], and [`io::ErrorKind::InvalidData`] for bytes that are not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    input::text(read(path, most)?)
}

/// Whether anything has this name, including a dangling link.
#[must_use]
pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Rejects an existing entry that is not a regular file.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(data) => check_file(data.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn check_file(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let error = match kind.is_dir() {
        true => io::ErrorKind::IsADirectory,
        false => io::ErrorKind::InvalidInput,
    };
    let found = input::name_of(kind);
    let reason = format!("it is {found}, expected a file that linwright wrote; remove it");
    Err(io::Error::new(error, reason))
}

/// Opens a regular file. The type is checked before, since opening a device can have side effects,
/// and after, since the file may be replaced meanwhile.
fn opened(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    check(path)?;
    let file = input::unwaiting(options, false).open(path);
    // The error for a link that appeared meanwhile would not mention it.
    let file = file.map_err(|error| check(path).err().unwrap_or(error))?;
    check_file(file.metadata()?.file_type())?;
    Ok(file)
}

/// Whether an open file still has this name: it may have been removed before it was locked.
#[cfg(unix)]
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |data: Metadata| (data.dev(), data.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(ours), Ok(theirs)) => id(ours) == id(theirs),
        _ => false,
    }
}

#[cfg(not(unix))]
pub(crate) fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(unix)]
fn names_of(data: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(data)
}

#[cfg(not(unix))]
fn names_of(_: &Metadata) -> u64 {
    1
}
