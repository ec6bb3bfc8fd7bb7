//! Weight file formats, one parser each: from the bytes of a file to its [`Header`].
//!
//! A new format is a file with a function `&[u8] -> Result<Header, FileFault>` and a line in each
//! function here.

use super::fault::FileFault;
use super::header::{GGUF_MAGIC, Header};
use super::{pickle, safetensors, zip};
use std::path::Path;

/// Format of a weight file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// safetensors: a JSON header, then the tensors.
    Safetensors,
    /// `torch.save`: a zip archive of a pickle and storages.
    TorchZip,
    /// `torch.save` before PyTorch 1.6: pickles, then storages.
    TorchLegacy,
    /// GGUF: a whole model in one file, whose tensors are not read separately.
    Gguf,
}

impl Format {
    /// Format of a file, from its first bytes or, if they are ambiguous, from its name.
    #[must_use]
    pub fn of(path: &Path, bytes: &[u8]) -> Self {
        let extension = path.extension().and_then(|extension| extension.to_str());
        if bytes.starts_with(&GGUF_MAGIC) {
            Self::Gguf
        } else if extension == Some("safetensors") || safetensors::looks_like(bytes) {
            Self::Safetensors
        } else if bytes.starts_with(&zip::MAGIC) {
            Self::TorchZip
        } else if bytes.starts_with(&pickle::LEGACY_START)
            || matches!(extension, Some("bin" | "pt" | "pth" | "ckpt"))
        {
            Self::TorchLegacy
        } else {
            Self::Safetensors
        }
    }

    /// Parses and checks the header of a file; `bytes` is the whole file. Allocations are bounded
    /// by the size of the file.
    ///
    /// # Errors
    /// [`FileFault`] if the header is invalid.
    pub fn parse(self, bytes: &[u8]) -> Result<Header, FileFault> {
        match self {
            Self::Safetensors => safetensors::parse(bytes),
            Self::TorchZip => Ok(pickle::parse_zip(bytes)?),
            Self::TorchLegacy => Ok(pickle::parse_legacy(bytes)?),
            Self::Gguf => Err(FileFault::Gguf),
        }
    }

    /// An entry of the object that `torch.save` wrote, as JSON; none if there is no such entry, or
    /// the format has none. No code is executed: an object that is not a number, text, list or dict
    /// is replaced by a description.
    ///
    /// # Errors
    /// As [`Format::parse`].
    pub fn entry(self, bytes: &[u8], name: &str) -> Result<Option<serde_json::Value>, FileFault> {
        match self {
            Self::TorchZip => Ok(pickle::entry_of_zip(bytes, name)?),
            Self::TorchLegacy => Ok(pickle::entry_of_legacy(bytes, name)?),
            Self::Safetensors => Ok(None),
            Self::Gguf => Err(FileFault::Gguf),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_and_then_the_name() {
        let safetensors = [&[2u8, 0, 0, 0, 0, 0, 0, 0][..], b"{}"].concat();
        // A safetensors header of 640 bytes begins like a pickle.
        let like_a_pickle = [&[0x80u8, 2, 0, 0, 0, 0, 0, 0][..], b"{"].concat();
        for (name, bytes, format) in [
            ("a.safetensors", &b"PK\x03\x04"[..], Format::Safetensors),
            ("a.bin", &safetensors, Format::Safetensors),
            ("a.bin", &like_a_pickle, Format::Safetensors),
            ("a", b"PK\x03\x04", Format::TorchZip),
            ("a", &pickle::LEGACY_START, Format::TorchLegacy),
            ("a.pth", b"anything else", Format::TorchLegacy),
            ("a", b"anything else", Format::Safetensors),
            ("a", b"GGUF\x03", Format::Gguf),
            ("a.safetensors", b"GGUF", Format::Gguf),
        ] {
            assert_eq!(Format::of(Path::new(name), bytes), format, "{name} {bytes:?}");
        }
    }
}
