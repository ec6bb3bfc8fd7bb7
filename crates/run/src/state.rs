//! Files and folders that this program keeps for itself: locks, journals, checkpoints, logs,
//! records, finished pieces.
//!
//! They have known names in directories that others may write to, or that were copied from
//! elsewhere. A link there would redirect a write to another file, and a pipe would block its
//! reader. So they are opened without following a link and without waiting, and anything but a
//! regular file is refused. The directory that a user named may be a link; the folders in it may
//! not.

pub use crate::regular::{edit, exists, open, read, read_text};

use crate::atomic::{AtomicFile, OutputError, Replace};
use crate::input;
use std::fs::{self, File, FileType};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Greatest depth of folders that are copied.
const DEPTH: usize = 16;

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

#[cfg(test)]
mod tests;
