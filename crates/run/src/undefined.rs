//! Numbers that may be undefined, which JSON writes as null.

use crate::Ordered;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Numbers of which some may be undefined.
pub trait MayBeUndefined: Sized {
    /// The same with null for what is undefined.
    type Nullable: DeserializeOwned;

    /// The same with NaN for null.
    fn defined(nullable: Self::Nullable) -> Self;
}

impl MayBeUndefined for f64 {
    type Nullable = Option<Self>;

    fn defined(nullable: Option<Self>) -> Self {
        nullable.unwrap_or(Self::NAN)
    }
}

impl<const N: usize> MayBeUndefined for [f64; N]
where
    [Option<f64>; N]: DeserializeOwned,
{
    type Nullable = [Option<f64>; N];

    fn defined(nullable: [Option<f64>; N]) -> Self {
        nullable.map(f64::defined)
    }
}

impl MayBeUndefined for Vec<f64> {
    type Nullable = Vec<Option<f64>>;

    fn defined(nullable: Vec<Option<f64>>) -> Self {
        nullable.into_iter().map(f64::defined).collect()
    }
}

impl MayBeUndefined for Ordered<f64> {
    type Nullable = Ordered<Option<f64>>;

    fn defined(nullable: Ordered<Option<f64>>) -> Self {
        nullable.map(f64::defined)
    }
}

/// Reads numbers with NaN for null, for `#[serde(deserialize_with = "..")]`.
///
/// # Errors
/// Those of the format.
pub fn or_nan<'de, T: MayBeUndefined, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::Nullable::deserialize(from).map(T::defined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Serialize, Deserialize)]
    struct Found {
        #[serde(deserialize_with = "or_nan")]
        ratio: f64,
        #[serde(deserialize_with = "or_nan")]
        range: [f64; 2],
        #[serde(deserialize_with = "or_nan")]
        all: Vec<f64>,
    }

    #[test]
    fn undefined_numbers_are_null_and_read_back_as_nan() {
        let found =
            Found { ratio: f64::INFINITY, range: [0.5, f64::NAN], all: vec![f64::NAN, 2.0] };
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(text, r#"{"ratio":null,"range":[0.5,null],"all":[null,2.0]}"#);
        let again: Found = serde_json::from_str(&text).unwrap();
        assert!(again.ratio.is_nan() && again.range[1].is_nan() && again.all[0].is_nan());
        assert_eq!((again.range[0], again.all[1]), (0.5, 2.0));
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert!(
            serde_json::from_str::<Found>(r#"{"ratio": "?", "range": [], "all": []}"#).is_err()
        );
    }
}
