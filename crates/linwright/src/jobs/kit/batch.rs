//! Batch sizes.

use linwright_evaluate::RunOptions;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// Most thousands of tokens.
const MAX_THOUSANDS: u32 = 1_000_000;

/// Size of a batch: `auto`, or thousands of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchSize {
    /// The default of evaluation.
    #[default]
    Auto,
    /// Thousands of tokens, from 1 to 1,000,000.
    Thousands(u32),
}

impl BatchSize {
    /// The size in tokens.
    #[must_use]
    pub fn tokens(self) -> usize {
        match self {
            Self::Auto => RunOptions::default().max_batch_tokens,
            Self::Thousands(thousands) => thousands as usize * 1000,
        }
    }
}

impl std::str::FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(thousands @ 1..=MAX_THOUSANDS) => Ok(Self::Thousands(thousands)),
            _ => Err("expected auto, or thousands of tokens from 1 to 1000000".to_owned()),
        }
    }
}

impl Serialize for BatchSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Thousands(thousands) => serializer.collect_str(thousands),
        }
    }
}

impl<'de> Deserialize<'de> for BatchSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for BatchSize {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BatchSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "examples": ["16"]})
    }
}
