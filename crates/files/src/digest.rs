//! Content digests.
//!
//! Tensors have BLAKE3 digests: gigabytes are hashed when a model is loaded, and on processors
//! without SHA instructions SHA-256 would dominate the load time. Output files still have SHA-256
//! digests (`SHA256SUMS`), which standard tools can verify.

/// Digest of bytes.
pub fn of(bytes: &[u8]) -> [u8; 32] {
    blake3::hash(bytes).into()
}

/// Digest of a sequence of digests.
#[derive(Default)]
pub struct Digest(blake3::Hasher);

impl Digest {
    /// Adds the digest of the next content.
    pub fn add(&mut self, digest: &[u8; 32]) {
        self.0.update(digest);
    }

    /// The digest of all of them.
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
