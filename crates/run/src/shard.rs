//! Shards: the parts into which several processes divide the work of one run.

use crate::shown;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One of `count` equal shares of a run's work, written `index/count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Shard {
    index: usize,
    count: usize,
}

/// An invalid shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard \"{found}\": {reason}; expected i/N with 0 <= i < N, such as 0/4", found = shown(found))]
pub struct ShardError {
    /// The text.
    pub found: String,
    /// The violated condition.
    pub reason: &'static str,
}

/// Largest number of shards of a run: each is a process.
const MOST: usize = 1 << 16;

impl Shard {
    /// The whole work.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Share `index`, from 0, of `count` shares.
    ///
    /// # Errors
    /// [`ShardError`] unless `index < count`, and there are at most 65536.
    pub fn new(index: usize, count: usize) -> Result<Self, ShardError> {
        let reason = match count {
            0 => "there are no shards",
            _ if count > MOST => "there are more than 65536 shards",
            _ if index >= count => "the index is not less than the number of shards",
            _ => return Ok(Self { index, count }),
        };
        Err(ShardError { found: format!("{index}/{count}"), reason })
    }

    /// The number of this share, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }

    /// The number of shares.
    #[must_use]
    pub fn count(self) -> usize {
        self.count
    }

    /// Whether it is the whole work.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether a piece of the work, counted from 0, belongs to this share. Every piece belongs to
    /// one share; neighbours belong to different ones, so that shares of sorted work are similar in
    /// size.
    #[must_use]
    pub fn owns(self, piece: usize) -> bool {
        piece % self.count == self.index
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let failed = |reason| ShardError { found: text.to_owned(), reason };
        let (index, count) = text.split_once('/').ok_or_else(|| failed("it has no slash"))?;
        // `parse` also accepts a sign.
        let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => part.parse().map_err(|_| failed("its two numbers are not in range")),
            false => Err(failed("it is not two whole numbers")),
        };
        let (index, count) = (number(index)?, number(count)?);
        Self::new(index, count).map_err(|error| failed(error.reason))
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl TryFrom<String> for Shard {
    type Error = ShardError;

    fn try_from(text: String) -> Result<Self, ShardError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_belongs_to_one_shard() {
        for count in 1..6 {
            for piece in 0..20 {
                let shards = (0..count).map(|index| Shard::new(index, count).unwrap());
                assert_eq!(shards.filter(|shard| shard.owns(piece)).count(), 1);
            }
        }
        assert!(Shard::WHOLE.is_whole() && (0..9).all(|piece| Shard::WHOLE.owns(piece)));
        assert!(!Shard::new(0, 2).unwrap().is_whole());
    }

    #[test]
    fn shards_read_back_from_their_text() {
        for text in ["0/1", "3/4", "0/1000"] {
            let shard: Shard = text.parse().unwrap();
            assert_eq!(shard.to_string(), text);
            let json = serde_json::to_string(&shard).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Shard>(&json).unwrap(), shard);
        }
    }

    #[test]
    fn what_is_no_shard_is_refused() {
        let huge = format!("0/{}0", usize::MAX);
        for (text, reason) in [
            ("", "no slash"),
            ("2", "no slash"),
            ("0/0", "no shards"),
            ("2/2", "not less"),
            ("-1/2", "whole numbers"),
            ("+1/2", "whole numbers"),
            ("1/2/3", "whole numbers"),
            ("/2", "not in range"),
            (&huge, "in range"),
            ("1 /2", "whole numbers"),
        ] {
            let error = text.parse::<Shard>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("such as 0/4"), "{text}: {error}");
            assert!(serde_json::from_value::<Shard>(text.into()).is_err(), "{text}");
        }
    }
}
