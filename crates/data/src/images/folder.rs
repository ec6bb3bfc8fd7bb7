//! Folders of PNG files: one sub-folder for each class, or files without classes.
//!
//! Classes are the sub-folders and images the files, both sorted by name byte for byte, so that
//! `10` comes before `2`. Names that begin with a dot are ignored; any other unexpected entry is an
//! error.

use super::{ImageError, MAX_CLASSES, invalid};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The files of a folder.
pub(super) struct Listing {
    /// Path of each file, its name in the folder, and its class.
    pub(super) files: Vec<Listed>,
    pub(super) class_names: Vec<String>,
}

/// One file.
pub(super) struct Listed {
    pub(super) path: PathBuf,
    /// Name with that of the class, for the digest of the set.
    pub(super) name: String,
    pub(super) class: Option<u32>,
}

/// Lists a folder.
pub(super) fn list(folder: &Path) -> Result<Listing, ImageError> {
    let (folders, files): (Vec<_>, Vec<_>) =
        entries(folder)?.into_iter().partition(|(path, _)| path.is_dir());
    let mut listing = Listing { files: Vec::new(), class_names: Vec::new() };
    if folders.is_empty() {
        listing.add(folder, files, None)?;
        return Ok(listing);
    }
    if let Some((path, _)) = files.first() {
        let reason = "is next to folders of classes; move it into one of them, or away";
        return Err(invalid(path, reason));
    }
    if folders.len() > MAX_CLASSES as usize {
        let found = folders.len();
        let reason = format!("has {found} folders, expected at most {MAX_CLASSES} classes");
        return Err(invalid(folder, reason));
    }
    for (class, (path, name)) in (0..).zip(folders) {
        listing.add(&path, entries(&path)?, Some(class))?;
        listing.class_names.push(name.to_string_lossy().into_owned());
    }
    Ok(listing)
}

impl Listing {
    /// Adds the files of one class.
    fn add(
        &mut self,
        folder: &Path,
        files: Vec<(PathBuf, OsString)>,
        class: Option<u32>,
    ) -> Result<(), ImageError> {
        if files.is_empty() {
            return Err(invalid(folder, "is an empty folder, expected .png files"));
        }
        for (path, name) in files {
            let extension = path.extension().unwrap_or_default();
            if !extension.eq_ignore_ascii_case("png") || path.is_dir() {
                let reason = "is not a .png file; convert it, or move it away";
                return Err(invalid(&path, reason));
            }
            let name = name.to_string_lossy();
            let name = match (class, folder.file_name()) {
                (Some(_), Some(class)) => format!("{}/{name}", class.to_string_lossy()),
                (Some(_), None) | (None, _) => name.into_owned(),
            };
            self.files.push(Listed { path, name, class });
        }
        Ok(())
    }
}

/// Paths and names in a folder, sorted, without hidden ones.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, OsString)>, ImageError> {
    let failed = |source| ImageError::Read { path: folder.to_owned(), source };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            entries.push((folder.join(&name), name));
        }
    }
    entries.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
    Ok(entries)
}
