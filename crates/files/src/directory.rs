//! A directory of files with their checksums, which appears whole or not at all.

use crate::FileError;
use crate::writer::{Hashed, WriteError};
use linwright_run::atomic::AtomicDir;
use std::io::{self, Write};

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

/// File of a written directory with times and machine: all that differs when the same job is run
/// again.
pub const MEASURED: &str = "measured.json";

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

    /// Writes a file in one go.
    ///
    /// # Errors
    /// [`FileError::Output`].
    pub fn text(&mut self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        self.stream::<FileError>(name, |out| Ok(out.write_all(bytes)?))
    }

    /// Writes a file as a stream.
    ///
    /// # Errors
    /// [`FileError`] if the file cannot be written, and what `content` fails with.
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
                    return Err(io::Error::other("the content was refused"));
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
        self.target.write("SHA256SUMS", |out| out.write_all(list.as_bytes()))?;
        Ok(())
    }
}
