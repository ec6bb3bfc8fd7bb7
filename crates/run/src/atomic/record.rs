//! The record of the files written into a directory, by which the directory is recognised.
//!
//! A directory is replaced only if all of its files were written by this program. Each written
//! directory contains a hidden file `.linwright`: a first line that describes it, then the path of
//! every file, one per line.

use super::OutputError;
use crate::regular;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
#[cfg(test)]
use std::path::PathBuf;

/// Name of the record.
pub(super) const RECORD: &str = ".linwright";

/// Its first line.
const FIRST: &str =
    "Files that linwright wrote here; --force replaces this directory if it holds no others.";

/// Size limit of a record, in bytes.
const RECORD_BYTES: u64 = 1 << 24;

/// Greatest depth of folders that are searched.
const DEPTH: usize = 16;

/// Writes the record of all files below `directory`.
pub(super) fn write(directory: &Path) -> io::Result<()> {
    let mut files = BTreeSet::new();
    list(directory, Path::new(""), DEPTH, &mut |path, _| {
        files.insert(path.to_string_lossy().into_owned());
        Ok(())
    })?;
    let mut record = fs::File::create_new(directory.join(RECORD))?;
    writeln!(record, "{FIRST}")?;
    for file in files {
        writeln!(record, "{file}")?;
    }
    record.sync_all()
}

/// Why the directory may not be replaced; `None` if it is empty, or all of its files were written
/// here.
pub(super) fn objection(directory: &Path) -> io::Result<Option<String>> {
    if fs::read_dir(directory)?.next().is_none() {
        return Ok(None);
    }
    let Some(known) = read(directory)? else {
        return Ok(Some("is not empty and was not written by linwright".into()));
    };
    let mut foreign = None;
    let looked = list(directory, Path::new(""), DEPTH, &mut |path, data| {
        let is_known = data.is_file() && known.contains(path.to_string_lossy().as_ref());
        if is_known || path == Path::new(RECORD) {
            return Ok(());
        }
        foreign = Some(path.to_owned());
        Err(io::ErrorKind::Other.into())
    });
    match (foreign, looked) {
        (Some(path), _) => {
            Ok(Some(format!("holds {}, which linwright did not write", path.display())))
        }
        (None, looked) => looked.map(|()| None),
    }
}

/// Files in the record; `None` if there is no record.
fn read(directory: &Path) -> io::Result<Option<BTreeSet<String>>> {
    let Ok(record) = regular::open(&directory.join(RECORD)) else { return Ok(None) };
    let mut text = String::new();
    if record.take(RECORD_BYTES).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    let mut lines = text.lines();
    let is_ours = lines.next() == Some(FIRST);
    Ok(is_ours.then(|| lines.map(str::to_owned).collect()))
}

/// Calls `found` with the path of every file below `root`, and of every empty folder.
fn list(
    root: &Path,
    folder: &Path,
    depth: usize,
    found: &mut dyn FnMut(&Path, &fs::Metadata) -> io::Result<()>,
) -> io::Result<()> {
    let mut is_empty = true;
    for entry in fs::read_dir(root.join(folder))? {
        is_empty = false;
        let path = folder.join(entry?.file_name());
        let data = root.join(&path).symlink_metadata()?;
        if data.is_dir() && depth > 0 {
            list(root, &path, depth - 1, found)?;
        } else {
            found(&path, &data)?;
        }
    }
    if is_empty && !folder.as_os_str().is_empty() {
        found(folder, &root.join(folder).symlink_metadata()?)?;
    }
    Ok(())
}

/// Checks, before any work, that a directory can be written at `path`: its parent is a directory,
/// and the path does not exist. With `force`, it may be a directory that is empty or contains only
/// files written here; never a file, a link or a device.
///
/// # Errors
/// [`OutputError`].
pub fn check_directory(path: &Path, force: bool) -> Result<(), OutputError> {
    super::place(path)?;
    let Ok(data) = path.symlink_metadata() else { return Ok(()) };
    if !force {
        return Err(OutputError::Exists { path: path.to_path_buf() });
    }
    let not_ours = |reason| Err(OutputError::NotOurs { path: path.to_path_buf(), reason });
    if data.is_symlink() {
        return not_ours("is a link".into());
    }
    if !data.is_dir() {
        return not_ours("is not a directory".into());
    }
    match objection(path) {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => not_ours(reason),
        Err(error) => Err(OutputError::io("look into", path, error)),
    }
}

/// Checks, before any work, that a file can be written at `path`: its parent is a directory, and
/// the path does not exist. With `force`, it may be a file that `is_ours` recognises as written
/// here. A pipe or a terminal is written to directly.
///
/// # Errors
/// [`OutputError`].
pub fn check_file(
    path: &Path,
    force: bool,
    is_ours: impl FnOnce(&Path) -> bool,
) -> Result<(), OutputError> {
    super::place(path)?;
    let Ok(data) = path.symlink_metadata() else { return Ok(()) };
    if super::is_stream(path) {
        return Ok(());
    }
    let not_ours = |reason: &str| {
        Err(OutputError::NotOurs { path: path.to_path_buf(), reason: reason.into() })
    };
    if data.is_dir() {
        return not_ours("is a directory");
    }
    if !force {
        return Err(OutputError::Exists { path: path.to_path_buf() });
    }
    if data.is_symlink() {
        return not_ours("is a link");
    }
    if !data.is_file() {
        return not_ours("is not a file");
    }
    if is_ours(path) { Ok(()) } else { not_ours("was not written by linwright") }
}

/// Removes a directory that contains only files written here; any other stays.
pub(super) fn remove_ours(directory: &Path) -> io::Result<()> {
    let is_directory = directory.symlink_metadata()?.is_dir();
    if is_directory && objection(directory)?.is_none() {
        fs::remove_dir_all(directory)?;
    }
    Ok(())
}

/// Path of the record in a directory.
#[cfg(test)]
pub(super) fn path_in(directory: &Path) -> PathBuf {
    directory.join(RECORD)
}
