//! Files and folders that this program keeps for itself: locks, journals, checkpoints, logs,
//! records, finished pieces.
//!
//! They have known names in directories that others may write to, or that were copied from
//! elsewhere. A link there would redirect a write to another file, and a pipe would block its
//! reader. So they are opened without following a link and without waiting, and anything but a
//! regular file is refused. The directory that a user named may be a link; the folders in it may
//! not.

use crate::atomic::{AtomicFile, OutputError, Replace};
use crate::input;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Greatest depth of folders that are copied.
const DEPTH: usize = 16;

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

/// Writes a file atomically; only a regular file is replaced.
///
/// # Errors
/// [`OutputError`]; an existing file is then unchanged.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    write_parts(path, &[bytes])
}

/// As [`write()`], for content in several parts, so that long parts need not be joined.
///
/// # Errors
/// [`OutputError`]; an existing file is then unchanged.
pub fn write_parts(path: &Path, parts: &[&[u8]]) -> Result<(), OutputError> {
    let mut file = AtomicFile::create(path, Replace::State)?;
    parts.iter().try_for_each(|part| file.write(part))?;
    file.commit()
}

/// Whether anything has this name, including a dangling link.
#[must_use]
pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Path of a file or folder below a directory. It need not exist.
///
/// # Errors
/// [`io::ErrorKind::NotADirectory`] if anything between them is not a folder, or a link to one, and
/// errors of the system.
pub fn inside(root: &Path, below: impl AsRef<Path>) -> io::Result<PathBuf> {
    let below = below.as_ref();
    walk(root, below, |_| Ok(()))?;
    if let Some(parent) = below.parent() {
        walk(root, parent, |folder| match folder.symlink_metadata() {
            Ok(data) => check_folder(folder, data.file_type()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })?;
    }
    Ok(root.join(below))
}

/// Creates a folder below an existing directory, and all folders between them.
///
/// # Errors
/// As [`inside`].
pub fn make_folder(root: &Path, below: impl AsRef<Path>) -> io::Result<PathBuf> {
    walk(root, below.as_ref(), |folder| {
        fs::create_dir(folder).or_else(|error| match folder.symlink_metadata() {
            Ok(data) => check_folder(folder, data.file_type()),
            Err(_) => Err(error),
        })
    })?;
    Ok(root.join(below))
}

/// Copies a file, or a folder with its content, to an unused name. The copy appears complete or not
/// at all.
///
/// # Errors
/// As [`open`] for anything in it that is not a regular file or folder, and errors of the system.
pub fn copy(from: &Path, to: &Path) -> Result<(), OutputError> {
    crate::atomic::place_whole(to, |partial| copy_below(from, partial, DEPTH))
}

fn copy_below(from: &Path, to: &Path, depth: usize) -> Result<(), OutputError> {
    let failed = |action, path: &Path, error| OutputError::io(action, path, error);
    let kind = from.symlink_metadata().map_err(|e| failed("look at", from, e))?.file_type();
    if !kind.is_dir() {
        let mut source = open(from).map_err(|e| failed("copy", from, e))?;
        let mut copy = File::create_new(to).map_err(|e| failed("create", to, e))?;
        let copied = io::copy(&mut source, &mut copy).and_then(|_| copy.sync_all());
        return copied.map_err(|e| failed("write", to, e));
    }
    if depth == 0 {
        let reason = io::Error::other(format!("its folders are more than {DEPTH} deep"));
        return Err(failed("copy", from, reason));
    }
    fs::create_dir(to).map_err(|e| failed("create", to, e))?;
    for entry in fs::read_dir(from).map_err(|e| failed("list", from, e))? {
        let name = entry.map_err(|e| failed("list", from, e))?.file_name();
        copy_below(&from.join(&name), &to.join(&name), depth - 1)?;
    }
    Ok(())
}

/// Calls `at` with each folder from the first below `root` down to `below`.
fn walk(root: &Path, below: &Path, mut at: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut folder = root.to_owned();
    for part in below.components() {
        if !matches!(part, Component::Normal(_)) {
            let reason = format!("{} leads out of {}", below.display(), root.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        folder.push(part);
        at(&folder)?;
    }
    Ok(())
}

fn check_folder(folder: &Path, kind: FileType) -> io::Result<()> {
    if kind.is_dir() {
        return Ok(());
    }
    let (found, folder) = (input::name_of(kind), folder.display());
    let reason = format!("{folder} is {found}, expected a folder that linwright made; remove it");
    Err(io::Error::new(io::ErrorKind::NotADirectory, reason))
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
    let id = |data: fs::Metadata| (data.dev(), data.ino());
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

#[cfg(test)]
mod tests;
