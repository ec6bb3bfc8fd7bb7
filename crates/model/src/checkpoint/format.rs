//! The formats of weight files, one parser each: from the bytes of a file to its [`Header`].
//!
//! A new format is a file with a function `&[u8] -> Result<Header, FileFault>` and a line in each
//! function here.

use super::fault::FileFault;
use super::header::Header;
use super::safetensors;
use std::path::Path;

/// How a weight file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A header of JSON, then tensors side by side.
    Safetensors,
}

impl Format {
    /// The format of a file of this name that begins with these bytes.
    #[must_use]
    pub fn of(path: &Path, bytes: &[u8]) -> Self {
        let _ = (path, bytes);
        Self::Safetensors
    }

    /// Reads and checks the header of a file of which `bytes` is the whole. Nothing is allocated
    /// that the size of the file does not justify.
    ///
    /// # Errors
    /// [`FileFault`] if anything in it is not as the format asks for.
    pub fn parse(self, bytes: &[u8]) -> Result<Header, FileFault> {
        match self {
            Self::Safetensors => safetensors::parse(bytes),
        }
    }
}
