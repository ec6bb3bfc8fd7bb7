//! The embedded files of the built-in model, and the directory that they are unpacked to.
//!
//! Readers of models and texts, also in other programs, work on directories and files, so the files
//! are unpacked once into the cache; later runs compare them with the embedded ones, byte by byte,
//! and replace different ones. If the cache cannot be written, they are unpacked to a temporary
//! directory for one run, which is removed on drop; that of a killed run is removed by the next
//! one.

use super::PocketError;
use linwright_data::world::bytes_sha256;
use linwright_run::atomic::{AtomicDir, OutputError};
use linwright_run::state;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Names and contents of files.
type Files<'a> = &'a [(&'a str, &'a [u8])];

#[cfg(feature = "pocket")]
macro_rules! carried {
    ($($name:literal),* $(,)?) => {
        Some(&[$(($name, include_bytes!(concat!("../../../../assets/pocket/", $name)).as_slice())),*])
    };
}

/// All files of `assets/pocket`.
#[cfg(feature = "pocket")]
static FILES: Option<Files<'static>> = carried![
    "README.md",
    "SHA256SUMS",
    "calibration.jsonl",
    "config.json",
    "facts.jsonl",
    "generation_config.json",
    "model.safetensors",
    "stories-test.jsonl",
    "stories-validation.jsonl",
    "tokenizer.json",
    "tokenizer_config.json",
    "world.json",
];
#[cfg(not(feature = "pocket"))]
static FILES: Option<Files<'static>> = None;

/// Files whose hash is part of the directory's name: the checksums represent all others.
const NAMING: [&str; 2] = ["README.md", "SHA256SUMS"];

/// A directory with the files of the built-in model.
#[derive(Debug)]
pub struct Unpacked {
    path: PathBuf,
    for_now: Option<(AtomicDir, OutputError)>,
}

impl Unpacked {
    /// Its path: model, tokenizer, texts and questions.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The reason why the directory is temporary; `None` if it is in the cache.
    #[must_use]
    pub fn why_not_kept(&self) -> Option<&OutputError> {
        self.for_now.as_ref().map(|(_, why)| why)
    }
}

/// Unpacks the built-in model below `cache`, the cache directory of the user, or, if there is none
/// or it cannot be written, in a temporary directory.
///
/// # Errors
/// [`PocketError::NotCarried`] without the feature `pocket`, [`PocketError::Unpack`] if neither
/// directory can be written.
pub fn unpack(cache: Option<&Path>) -> Result<Unpacked, PocketError> {
    unpack_files(FILES, cache, &std::env::temp_dir())
}

fn unpack_files(
    files: Option<Files<'_>>,
    cache: Option<&Path>,
    scratch: &Path,
) -> Result<Unpacked, PocketError> {
    let files = files.ok_or(PocketError::NotCarried)?;
    let why = match cache.map(|cache| keep(files, cache)) {
        Some(Ok(path)) => return Ok(Unpacked { path, for_now: None }),
        Some(Err(why)) => why,
        None => {
            let reason =
                io::Error::new(io::ErrorKind::NotFound, "no variable names a cache directory");
            OutputError::io("find", Path::new("XDG_CACHE_HOME or HOME"), reason)
        }
    };
    match unpack_for_now(files, scratch) {
        Ok(folder) => Ok(Unpacked { path: folder.path().to_owned(), for_now: Some((folder, why)) }),
        Err(source) => Err(PocketError::Unpack { why: why.to_string(), source }),
    }
}

/// Updates the directory in the cache.
fn keep(files: Files<'_>, cache: &Path) -> Result<PathBuf, OutputError> {
    let naming = files.iter().filter(|(name, _)| NAMING.contains(name));
    let naming: Vec<u8> = naming.flat_map(|(_, content)| content.iter().copied()).collect();
    // The folder of the program may be a link to a larger disk.
    let root = cache.join("linwright");
    let below = Path::new("pocket").join(&bytes_sha256(&naming)[..16]);
    let folder = root.join(&below);
    let made = fs::create_dir_all(&root).and_then(|()| state::make_folder(&root, &below));
    made.map_err(|error| OutputError::io("create", &folder, error))?;
    for (name, content) in files {
        let path = folder.join(name);
        if state::read(&path, content.len() as u64).is_ok_and(|found| found == *content) {
            continue;
        }
        state::write(&path, content)?;
    }
    Ok(folder)
}

/// Unpacks into a directory that is never committed, so it is removed on drop.
fn unpack_for_now(files: Files<'_>, scratch: &Path) -> Result<AtomicDir, OutputError> {
    let mut folder = AtomicDir::create(&scratch.join("linwright-pocket"), false)?;
    for (name, content) in files {
        folder.write(name, |out| out.write_all(content))?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SMALL: Files<'static> = &[("SHA256SUMS", b"sums"), ("a.txt", b"a"), ("b.txt", b"bb")];

    fn names(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn holds_all(folder: &Path) -> bool {
        SMALL.iter().all(|(name, content)| fs::read(folder.join(name)).unwrap() == *content)
    }

    #[test]
    fn the_folder_is_kept_and_put_right() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("home/.cache");
        let unpack = || unpack_files(Some(SMALL), Some(&cache), Path::new("/nowhere")).unwrap();
        let first = unpack();
        assert!(first.why_not_kept().is_none() && holds_all(first.path()));
        assert!(first.path().starts_with(cache.join("linwright/pocket")), "{first:?}");
        let written = |name: &str| first.path().join(name).metadata().unwrap().modified().unwrap();
        let times = ["a.txt", "b.txt"].map(written);
        fs::write(first.path().join("b.txt"), "b?").unwrap();
        fs::remove_file(first.path().join("SHA256SUMS")).unwrap();
        assert_eq!(unpack().path(), first.path());
        assert!(holds_all(first.path()));
        assert_eq!(written("a.txt"), times[0], "what is right is left alone");
        assert_eq!(names(first.path()).len(), SMALL.len());
    }

    #[test]
    fn without_a_cache_the_folder_is_there_for_one_run() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let scratch = dir.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        for (cache, word) in
            [(None, "XDG_CACHE_HOME"), (Some(dir.path().join("file/cache")), "file/cache")]
        {
            let unpacked = unpack_files(Some(SMALL), cache.as_deref(), &scratch).unwrap();
            assert!(unpacked.path().starts_with(&scratch) && holds_all(unpacked.path()));
            let why = unpacked.why_not_kept().unwrap().to_string();
            assert!(why.contains(word), "{why}");
            drop(unpacked);
            assert_eq!(names(&scratch), BTreeSet::new());
        }
    }

    #[test]
    fn where_nothing_can_be_written_both_reasons_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = unpack_files(Some(SMALL), Some(&file.join("cache")), &file).unwrap_err();
        let said = error.to_string();
        for word in ["file/cache", "linwright-pocket", "XDG_CACHE_HOME", "TMPDIR"] {
            assert!(said.contains(word), "{word} in {said}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_the_cache_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let kept = unpack_files(Some(SMALL), Some(dir.path()), dir.path()).unwrap();
        let path = kept.path().join("a.txt");
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let unpacked = unpack_files(Some(SMALL), Some(dir.path()), dir.path()).unwrap();
        let why = unpacked.why_not_kept().unwrap().to_string();
        assert!(holds_all(unpacked.path()) && why.contains("is a pipe"), "{why}");
    }

    #[test]
    fn a_build_without_the_model_says_how_to_get_it() {
        let error = unpack_files(None, None, Path::new("/nowhere")).unwrap_err();
        assert!(matches!(error, PocketError::NotCarried));
        let said = error.to_string();
        assert!(said.contains("--features pocket") && said.contains("train-lm"), "{said}");
    }

    #[cfg(feature = "pocket")]
    #[test]
    fn every_file_of_the_assets_is_carried_and_in_the_checksums() {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/pocket");
        let files = FILES.unwrap();
        let carried: BTreeSet<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(carried, names(&assets));
        let sums = fs::read_to_string(assets.join("SHA256SUMS")).unwrap();
        let lines: BTreeSet<&str> = sums.lines().collect();
        for (name, content) in files.iter().filter(|(name, _)| !NAMING.contains(name)) {
            let line = format!("{}  {name}", bytes_sha256(content));
            assert!(lines.contains(line.as_str()), "{line} in {sums}");
        }
    }
}
