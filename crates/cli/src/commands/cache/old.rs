//! Caches of earlier versions, which are only listed and removed.

use crate::failure::Failure;
use crate::host::variable;
use linwright::jobs::source::cache_home_of;
use linwright::report::number::bytes;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Folders of earlier versions in the user's cache, and the suffixes of their files.
const OLD: [(&str, &str); 2] = [("components", ".safetensors"), ("spectra", ".spectrum")];

/// Digits of the digest that starts the name of a file.
const DIGITS: usize = 64;

/// One folder of an earlier version.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    files: Vec<PathBuf>,
    bytes: u64,
}

/// The caches that have files.
pub(super) fn caches() -> Vec<Cache> {
    let Some(home) = cache_home_of(&variable) else { return Vec::new() };
    let found = |(name, end): (&str, &str)| in_folder(home.join("linwright").join(name), end);
    OLD.into_iter().map(found).filter(|cache| !cache.files.is_empty()).collect()
}

/// Files of a folder with names from earlier versions.
fn in_folder(folder: PathBuf, end: &str) -> Cache {
    let mut cache = Cache { folder, files: Vec::new(), bytes: 0 };
    // The target of a link may belong to others.
    if cache.folder.is_symlink() {
        return cache;
    }
    for entry in std::fs::read_dir(&cache.folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| is_old(name, end));
        if let Ok(data) = entry.metadata()
            && data.is_file()
            && is_ours
        {
            cache.bytes += data.len();
            cache.files.push(entry.path());
        }
    }
    cache.files.sort();
    cache
}

fn is_old(name: &str, end: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_hexdigit).count();
    digits == DIGITS && name[digits..].starts_with('-') && name.ends_with(end)
}

impl Cache {
    pub(super) fn json(&self) -> Value {
        json!({"directory": self.folder, "files": self.files.len(), "bytes": self.bytes})
    }

    pub(super) fn in_words(&self) -> String {
        let (folder, files) = (self.folder.display(), self.files.len());
        format!("{folder}: {files} files of an earlier version, {}", bytes(self.bytes))
    }

    /// Removes the files, and the folder if nothing else is in it.
    pub(super) fn remove(&self) -> Result<(), Failure> {
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error: std::io::Error| Failure::io(&path, &error)
        };
        for file in &self.files {
            std::fs::remove_file(file).map_err(failed(file))?;
        }
        match std::fs::remove_dir(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::DirectoryNotEmpty => {
                Err(failed(&self.folder)(error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_earlier_versions_are_old() {
        let digest = "0f".repeat(32);
        assert!(is_old(&format!("{digest}-v1.safetensors"), ".safetensors"));
        assert!(is_old(&format!("{digest}-BF16-3x2.spectrum"), ".spectrum"));
        for name in ["model.safetensors", &digest, &format!("{digest}.safetensors")] {
            assert!(!is_old(name, ".safetensors"), "{name}");
        }
        assert!(!is_old(&format!("{digest}a-v1.safetensors"), ".safetensors"));
    }
}
