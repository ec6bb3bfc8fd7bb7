//! Sizes in one text: `keep=0.8`, `rank=64`, `rho=0.5`, `energy=0.9`, `rate=9`, `mp`.

use super::bounds;
use linwright_compress::{Size, Unit};
use linwright_run::shown;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;

/// The unit without a number.
const EDGE: &str = "mp";

/// A size as options hold it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeText(pub Size);

/// The size that is given: by `--size`, `--keep` or `--rank`.
pub(in crate::jobs) fn size_of(
    size: Option<SizeText>,
    keep: Option<f64>,
    rank: Option<usize>,
) -> Option<Size> {
    size.map(|size| size.0).or(keep.map(Size::Keep)).or(rank.map(Size::Rank))
}

impl SizeText {
    /// A size from its text.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub fn read(text: &str) -> Result<Self, String> {
        let (unit, number) = match text.split_once('=') {
            Some((unit, number)) => (unit.trim(), Some(number.trim())),
            None => (text.trim(), None),
        };
        let unit = match unit.replace('-', "_").as_str() {
            EDGE => Some(Unit::MarchenkoPastur),
            word => Unit::ALL.into_iter().find(|own| own.name() == word),
        };
        let expected = "expected keep=SHARE, rank=N, rho=SHARE, energy=SHARE, rate=RATE or mp";
        let wrong = || format!("{}: {expected}", shown(text));
        let share = || {
            let number = number.and_then(|number| number.parse::<f64>().ok());
            number.filter(|number| number.is_finite()).ok_or_else(wrong)
        };
        let size = match unit.ok_or_else(wrong)? {
            Unit::Keep => Size::Keep(share()?),
            Unit::Rho => Size::Rho(share()?),
            Unit::Energy => Size::Energy(share()?),
            Unit::Rate => Size::Rate(share()?),
            Unit::Rank => {
                let rank = number.and_then(|number| number.parse().ok());
                Size::Rank(rank.filter(|rank| *rank <= bounds::FEATURES).ok_or_else(wrong)?)
            }
            Unit::MarchenkoPastur if number.is_none() => Size::MarchenkoPastur,
            Unit::MarchenkoPastur => return Err(wrong()),
        };
        size.check().map_err(|error| error.to_string())?;
        Ok(Self(size))
    }
}

/// The sizes of a list: a number without a unit has the unit before it, `rate=9.9,9`.
pub(super) fn split(text: &str) -> impl Iterator<Item = String> {
    let mut unit = None;
    text.split(',').map(move |part| match part.trim().split_once('=') {
        Some((word, _)) => {
            unit = Some(word);
            part.trim().to_owned()
        }
        None => match unit.filter(|_| part.trim().parse::<f64>().is_ok()) {
            Some(unit) => format!("{unit}={}", part.trim()),
            None => part.trim().to_owned(),
        },
    })
}

impl Serialize for SizeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unit = self.0.unit().name();
        match self.0 {
            Size::Keep(x) | Size::Rho(x) | Size::Energy(x) | Size::Rate(x) => {
                serializer.collect_str(&format_args!("{unit}={x}"))
            }
            Size::Rank(rank) => serializer.collect_str(&format_args!("{unit}={rank}")),
            Size::MarchenkoPastur => serializer.serialize_str(EDGE),
        }
    }
}

impl<'de> Deserialize<'de> for SizeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            // As in plans: `{keep: 0.8}`.
            Value::Object(map) => {
                map.iter().map(|(unit, number)| format!("{unit}={number}")).collect()
            }
            other => other.to_string(),
        };
        Self::read(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for SizeText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "x-pairs": true, "examples": ["rank=3"]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_unit_and_a_number_and_reads_back() {
        for (text, size) in [
            ("keep=0.8", Size::Keep(0.8)),
            ("rank=64", Size::Rank(64)),
            ("rho=0.5", Size::Rho(0.5)),
            ("energy=0.9", Size::Energy(0.9)),
            ("rate=9.9", Size::Rate(9.9)),
            ("mp", Size::MarchenkoPastur),
        ] {
            assert_eq!(SizeText::read(text).map(|read| read.0), Ok(size));
            assert_eq!(serde_json::to_value(SizeText(size)).unwrap(), text);
            assert_eq!(serde_json::from_value::<SizeText>(text.into()).unwrap().0, size);
        }
        let split: Vec<String> = split("rate=9.9, 9,mp,keep=0.5,0.25").collect();
        assert_eq!(split, ["rate=9.9", "rate=9", "mp", "keep=0.5", "keep=0.25"]);
        let map: SizeText = serde_json::from_value(serde_json::json!({"rank": 3})).unwrap();
        assert_eq!(map.0, Size::Rank(3));
        for wrong in [
            "",
            "keep",
            "keep=",
            "kept=0.5",
            "rank=0.5",
            "mp=3",
            "keep=nan",
            "rate=11",
            "rank=4294967296",
        ] {
            assert!(SizeText::read(wrong).is_err(), "{wrong}");
        }
    }
}
