//! No large or binary files in git, except in `testdata/` and `assets/`.

use crate::offence::Offence;
use crate::repository::Repository;
use anyhow::{Context, Result};

/// Largest file in bytes outside the folders for data.
const MAX_BYTES: usize = 200 * 1024;
const DATA_FOLDERS: &[&str] = &["testdata/", "assets/"];

/// Reports large and binary files.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Offence>> {
    let mut offences = Vec::new();
    for path in &repository.files {
        let is_data = path.split_inclusive('/').any(|part| DATA_FOLDERS.contains(&part));
        if !is_data {
            let bytes = std::fs::read(repository.root.join(path));
            offences.extend(offence(path, &bytes.with_context(|| format!("cannot read {path}"))?));
        }
    }
    Ok(offences)
}

fn offence(path: &str, bytes: &[u8]) -> Option<Offence> {
    if bytes.len() > MAX_BYTES {
        let what = format!("{} bytes, at most {MAX_BYTES}; data belongs in testdata/", bytes.len());
        return Some(Offence::new(path, what));
    }
    let binary = bytes.contains(&0) || std::str::from_utf8(bytes).is_err();
    binary.then(|| Offence::new(path, "binary file; data belongs in testdata/ or assets/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_binary_files_are_found() {
        assert!(offence("a.txt", &vec![b'a'; MAX_BYTES + 1]).is_some());
        assert!(offence("a.bin", &[1, 0, 2]).is_some());
        assert!(offence("a.bin", &[0xff, 0xfe]).is_some());
        assert!(offence("a.txt", "größe".as_bytes()).is_none());
    }

    #[test]
    fn data_folders_may_hold_them() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("crates/a/testdata")).unwrap();
        std::fs::create_dir_all(dir.path().join("src")).unwrap();
        let files = ["crates/a/testdata/x", "src/y"].map(String::from).to_vec();
        files.iter().for_each(|path| std::fs::write(dir.path().join(path), [0]).unwrap());
        let root = dir.path().to_owned();
        let offences = run(&Repository { root, files }).unwrap();
        assert_eq!(offences[0].place, "src/y");
        assert_eq!(offences.len(), 1);
    }
}
