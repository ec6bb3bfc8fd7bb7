//! The names of contents.
//!
//! Tensors are named by BLAKE3: gigabytes go through it when a model is loaded, and without
//! instructions for it in the processor SHA-256 takes longer than all else together. Files that we
//! write are named by SHA-256 all the same (`SHA256SUMS`), which everybody can check.

/// Names bytes.
pub fn of(bytes: &[u8]) -> [u8; 32] {
    blake3::hash(bytes).into()
}

/// Names a sequence of names.
#[derive(Default)]
pub struct Digest(blake3::Hasher);

impl Digest {
    /// Adds the name of the next content.
    pub fn add(&mut self, digest: &[u8; 32]) {
        self.0.update(digest);
    }

    /// The name of all of them.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_blake3() {
        // The first test vector of the paper's reference implementation: no bytes.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(crate::hex(&of(b"")), empty);
        let mut both = Digest::default();
        both.add(&of(b"a"));
        both.add(&of(b"b"));
        assert_eq!(both.finish(), of(&[of(b"a"), of(b"b")].concat()));
    }
}
