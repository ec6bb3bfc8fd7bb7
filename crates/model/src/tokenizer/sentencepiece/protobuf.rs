//! Parser of the protocol buffer wire format, as far as SentencePiece models use it.
//!
//! A message is a sequence of fields. A field is a varint `8 n + w`, where n is the field number
//! and w the wire type, followed by the value. Nothing is copied, and lengths are checked against
//! the bytes.

/// A malformed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Offset in the file.
    pub(super) at: usize,
    pub(super) found: String,
    pub(super) expected: &'static str,
}

/// A value by wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stored<'a> {
    Varint(u64),
    Fixed64,
    Bytes(Message<'a>),
    Fixed32(u32),
}

/// A message: its bytes and their offset in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) number: u64,
    value: Stored<'a>,
    at: usize,
}

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next field, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, Fault> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let at = self.at;
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Stored::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Stored::Fixed64
            }
            2 => {
                let length = self.varint()?;
                let at = self.at;
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                Stored::Bytes(Self { bytes: self.take(length)?, at })
            }
            5 => {
                let mut word = [0; 4];
                word.copy_from_slice(self.take(4)?);
                Stored::Fixed32(u32::from_le_bytes(word))
            }
            other => {
                let found = format!("a field of wire type {other}");
                return Err(Fault { at, found, expected: "wire type 0, 1, 2 or 5" });
            }
        };
        match key >> 3 {
            0 => Err(Fault { at, found: "a field with number 0".into(), expected: "1 or more" }),
            number => Ok(Some(Field { number, value, at })),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let Some((head, tail)) = self.bytes.split_at_checked(count) else {
            return Err(Fault {
                at: self.at,
                found: format!("{} bytes up to the end of the message", self.bytes.len()),
                expected: "as many as given by their length; is the file truncated?",
            });
        };
        self.bytes = tail;
        self.at += count;
        Ok(head)
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let at = self.at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 127);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(Fault { at, found: "a number of more than 64 bits".into(), expected: "at most 64" })
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Field<'a> {
    /// An unsigned integer, an enum or a boolean.
    pub(super) fn number_value(&self) -> Result<u64, Fault> {
        match self.value {
            Stored::Varint(value) => Ok(value),
            _ => Err(self.stored_otherwise("a whole number")),
        }
    }

    /// A signed integer; negative ones have ten bytes.
    pub(super) fn signed(&self) -> Result<i64, Fault> {
        Ok(self.number_value()?.cast_signed())
    }

    /// A boolean.
    pub(super) fn truth(&self) -> Result<bool, Fault> {
        Ok(self.number_value()? != 0)
    }

    /// A 32-bit float.
    pub(super) fn float(&self) -> Result<f32, Fault> {
        match self.value {
            Stored::Fixed32(bits) => Ok(f32::from_bits(bits)),
            _ => Err(self.stored_otherwise("a number of four bytes")),
        }
    }

    /// A nested message, or bytes.
    pub(super) fn message(&self) -> Result<Message<'a>, Fault> {
        match self.value {
            Stored::Bytes(message) => Ok(message),
            _ => Err(self.stored_otherwise("bytes with their length")),
        }
    }

    /// A string.
    pub(super) fn text(&self) -> Result<String, Fault> {
        let message = self.message()?;
        match std::str::from_utf8(message.bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(Fault {
                at: message.at + error.valid_up_to(),
                found: "bytes that are not UTF-8".into(),
                expected: "UTF-8 text",
            }),
        }
    }

    /// An error about the value of this field.
    pub(super) fn fault(&self, found: String, expected: &'static str) -> Fault {
        Fault { at: self.at, found, expected }
    }

    fn stored_otherwise(&self, expected: &'static str) -> Fault {
        let found = match self.value {
            Stored::Varint(_) => "a whole number",
            Stored::Fixed64 => "a number of eight bytes",
            Stored::Bytes(_) => "bytes with their length",
            Stored::Fixed32(_) => "a number of four bytes",
        };
        self.fault(format!("{found} in field {}", self.number), expected)
    }
}
