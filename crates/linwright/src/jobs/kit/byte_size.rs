//! Numbers of bytes with units.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// A number of bytes: a whole number with a decimal or binary unit, such as `8GB` or `500MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl std::str::FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            other => {
                return Err(format!("unknown unit {other}; expected B, KB, MB, GB, KiB, MiB, GiB"));
            }
        };
        let count: u64 =
            digits.parse().map_err(|_| "expected a whole number and a unit".to_owned())?;
        match count.checked_mul(unit) {
            Some(bytes) if bytes > 0 => Ok(Self(bytes)),
            _ => Err("expected at least one byte, and fewer than 2^64".into()),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ByteSize {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "examples": ["8GB"]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        let parse = |text: &str| text.parse::<ByteSize>().map(|size| size.0);
        assert_eq!(parse("5GB"), Ok(5_000_000_000));
        assert_eq!(parse("2GiB"), Ok(1 << 31));
        assert_eq!(parse("1000"), Ok(1000));
        for wrong in ["", "GB", "1.5GB", "0", "5XB", "-1", "18446744073709551615GB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
