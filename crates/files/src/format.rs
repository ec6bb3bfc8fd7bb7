//! The formats of weight files, one parser each: from the bytes of a file to its [`Header`].
//!
//! A new format is a file with a function `&[u8] -> Result<Header, FileFault>` and a line in each
//! function here.

use super::fault::FileFault;
use super::header::Header;
use super::{pickle, safetensors, zip};
use std::path::Path;

/// What a GGUF file begins with.
pub const GGUF_MAGIC: [u8; 4] = *b"GGUF";

/// How a weight file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A header of JSON, then tensors side by side.
    Safetensors,
    /// What `torch.save` writes: a zip archive of a pickle and storages.
    TorchZip,
    /// What `torch.save` wrote before version 1.6: pickles, then storages.
    TorchLegacy,
    /// A whole model in one file, which is no file of tensors for this purpose.
    Gguf,
}

impl Format {
    /// The format of a file of this name that begins with these bytes. The name counts only where
    /// the bytes do not tell.
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

    /// Reads and checks the header of a file of which `bytes` is the whole. Nothing is allocated
    /// that the size of the file does not justify.
    ///
    /// # Errors
    /// [`FileFault`] if anything in it is not as the format asks for.
    pub fn parse(self, bytes: &[u8]) -> Result<Header, FileFault> {
        match self {
            Self::Safetensors => safetensors::parse(bytes),
            Self::TorchZip => pickle::parse_zip(bytes),
            Self::TorchLegacy => pickle::parse_legacy(bytes),
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
        // A header of 640 bytes begins as a pickle does.
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
