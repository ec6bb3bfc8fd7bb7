//! A cursor over the bytes of a file; every read is checked against the remaining bytes.

use crate::gguf::fault::ContainerFault;
use std::fmt;

/// The item being read, formatted only for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// The first fields of the file.
    Header,
    /// The name of the key with this index.
    Key(u64),
    /// The value of a key.
    Value(&'a str),
    /// The name of the tensor with this index.
    TensorName(u64),
    /// The entry of a tensor.
    Tensor(&'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("the header"),
            Self::Key(index) => write!(f, "the name of key {index}"),
            Self::Value(key) => write!(f, "the value of key {key}"),
            Self::TensorName(index) => write!(f, "the name of tensor {index}"),
            Self::Tensor(name) => write!(f, "the entry of tensor {name}"),
        }
    }
}

/// A position in the bytes of a whole file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes from the start of the file.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// Fails unless at least `count` items of this size can follow. Must precede every allocation
    /// for a count from the file.
    pub(crate) fn expect(
        &self,
        count: u64,
        size: u64,
        place: Place<'_>,
    ) -> Result<(), ContainerFault> {
        let (wanted, left) = (count.saturating_mul(size), self.left());
        if wanted > left {
            let (place, at) = (place.to_string(), self.at as u64);
            return Err(ContainerFault::Truncated { place, at, wanted, left });
        }
        Ok(())
    }

    pub(crate) fn take(
        &mut self,
        count: u64,
        place: Place<'_>,
    ) -> Result<&'a [u8], ContainerFault> {
        self.expect(count, 1, place)?;
        // At most the length of a slice, by the check above.
        let bytes = &self.bytes[self.at..self.at + count as usize];
        self.at += bytes.len();
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        place: Place<'_>,
    ) -> Result<[u8; N], ContainerFault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, place)?);
        Ok(array)
    }

    pub(crate) fn u32(&mut self, place: Place<'_>) -> Result<u32, ContainerFault> {
        self.array(place).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, place: Place<'_>) -> Result<u64, ContainerFault> {
        self.array(place).map(u64::from_le_bytes)
    }

    /// A string with its length before it.
    pub(crate) fn text(&mut self, place: Place<'_>) -> Result<&'a str, ContainerFault> {
        let length = self.u64(place)?;
        let at = self.at as u64;
        let bytes = self.take(length, place)?;
        std::str::from_utf8(bytes)
            .map_err(|_| ContainerFault::NotText { place: place.to_string(), at })
    }
}
