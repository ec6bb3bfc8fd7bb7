//! A directory of files with their checksums, which appears complete or not at all.

use crate::FileError;
use crate::writer::{Hashed, WriteError};
use linwright_run::atomic::AtomicDir;
use linwright_run::input;
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::path::Path;

/// One file of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFile {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// File of a written directory with times and machine: the only file that differs when the same job
/// is run again.
pub const MEASURED: &str = "measured.json";

/// File of a written directory with the hashes of the others.
const SUMS: &str = "SHA256SUMS";
/// Bytes that are hashed at a time.
const PIECE: usize = 1 << 20;

/// Compares a file with the list of hashes next to it that [`DirWriter::checksums`] wrote. A file
/// without a list, or that it does not name, is not read.
///
/// # Errors
/// [`FileError::Changed`], and errors of the system.
pub fn check_listed(path: &Path) -> Result<(), FileError> {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else { return Ok(()) };
    let sums = path.with_file_name(SUMS);
    let list = match input::read_text(&sums, input::MAX_SETTINGS_BYTES) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FileError::read(&sums)(error)),
    };
    let listed = list.lines().find_map(|line| {
        let (hash, of) = line.split_once("  ")?;
        (of == name).then_some(hash)
    });
    let Some(listed) = listed else { return Ok(()) };
    let failed = FileError::read(path);
    let mut file = match input::open(path) {
        Ok(file) => file,
        Err(error) => return Err(failed(error)),
    };
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => hash.update(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    match crate::hex(&hash.finalize()) == listed {
        true => Ok(()),
        false => Err(FileError::Changed { path: path.into(), list: SUMS }),
    }
}

/// An unfinished directory and the files written so far.
#[derive(Debug)]
pub struct DirWriter {
    /// The directory.
    pub target: AtomicDir,
    /// What was written.
    pub files: Vec<SavedFile>,
}

impl DirWriter {
    /// Starts with an empty directory.
    #[must_use]
    pub fn new(target: AtomicDir) -> Self {
        Self { target, files: Vec::new() }
    }

    /// Renames the directory to its target.
    ///
    /// # Errors
    /// [`FileError::Output`].
    pub fn commit(self) -> Result<(), FileError> {
        Ok(self.target.commit()?)
    }

    /// Writes a file at once.
    ///
    /// # Errors
    /// [`FileError::Output`].
    pub fn text(&mut self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        self.stream::<FileError>(name, |out| Ok(out.write_all(bytes)?))
    }

    /// Writes a file as a stream.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written, and errors of `content`.
    pub fn stream<E: From<FileError>>(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> Result<(), WriteError<E>>,
    ) -> Result<(), E> {
        let (mut sha256, mut refused) = (String::new(), None);
        let written = self.target.write(name, |out| {
            let mut hashed = Hashed::new(out);
            match content(&mut hashed) {
                Ok(()) => sha256 = hashed.finish(),
                Err(WriteError::Io(error)) => return Err(error),
                Err(WriteError::Content(error)) => {
                    refused = Some(error);
                    return Err(io::Error::other("the content was rejected"));
                }
            }
            Ok(())
        });
        if let Some(error) = refused {
            return Err(error);
        }
        let bytes = written.map_err(FileError::from)?;
        self.files.push(SavedFile { name: name.into(), bytes, sha256 });
        Ok(())
    }

    /// Writes the list of hashes in the format of `sha256sum --check`, without that of
    /// [`MEASURED`], which differs from run to run.
    ///
    /// # Errors
    /// [`FileError::Output`].
    pub fn checksums(&mut self) -> Result<(), FileError> {
        let line = |file: &SavedFile| format!("{}  {}\n", file.sha256, file.name);
        let files = self.files.iter().filter(|file| file.name != MEASURED);
        let list: String = files.map(line).collect();
        self.target.write(SUMS, |out| out.write_all(list.as_bytes()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_compared_with_the_list_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let mut writer = DirWriter::new(AtomicDir::create(&target, false).unwrap());
        // More than a piece.
        writer.text("a.bin", &vec![7; PIECE + 3]).unwrap();
        writer.checksums().unwrap();
        writer.commit().unwrap();
        let path = target.join("a.bin");
        check_listed(&path).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, &bytes).unwrap();
        let error = check_listed(&path).unwrap_err().to_string();
        for word in ["a.bin", SUMS, "damaged or changed"] {
            assert!(error.contains(word), "{error}");
        }
        fs::write(target.join("b.bin"), "not listed").unwrap();
        check_listed(&target.join("b.bin")).unwrap();
        fs::remove_file(target.join(SUMS)).unwrap();
        check_listed(&path).unwrap();
    }
}
