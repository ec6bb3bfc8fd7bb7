//! Indices of examples.

use linwright_run::shown;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// More examples than any set has.
const MOST: usize = 1_000_000_000;

/// Indices of examples from zero, as ranges such as `0-99,120`; ascending, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indices(Vec<(usize, usize)>);

impl Indices {
    /// Reads ranges.
    ///
    /// # Errors
    /// What is wrong with them, for a message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse().ok().filter(|index| *index < MOST);
            let (Some(first), Some(last)) = (number(first), number(last)) else {
                let part = shown(part);
                let expected =
                    format!("expected indices from zero such as 7 or 0-99, below {MOST}");
                return Err(format!("\"{part}\": {expected}"));
            };
            if first > last {
                return Err(format!("{part}: the range ends before it begins"));
            }
            if ranges.last().is_some_and(|(_, before)| *before >= first) {
                return Err(format!("{part}: expected ascending ranges with each index once"));
            }
            ranges.push((first, last));
        }
        Ok(Self(ranges))
    }

    /// The largest index.
    #[must_use]
    pub fn last(&self) -> usize {
        self.0.last().map_or(0, |(_, last)| *last)
    }

    /// Whether an index is among them.
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= index);
        after > 0 && self.0[after - 1].1 >= index
    }

    /// The first common index of two choices of the same examples, of which there are `all`, and
    /// how many are common; without indices, a choice has all. `None` if none is common.
    #[must_use]
    pub fn common(choices: [Option<&Self>; 2], all: usize) -> Option<[usize; 2]> {
        let end = |choice: &Option<&Self>| choice.map_or(all, |indices| indices.last() + 1);
        let end = choices.iter().map(end).min().unwrap_or(0);
        let in_both = |index: &usize| {
            choices.iter().all(|choice| choice.is_none_or(|indices| indices.contains(*index)))
        };
        let mut common = (0..end).filter(in_both);
        common.next().map(|first| [first, 1 + common.count()])
    }

    /// All indices, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }
}

impl fmt::Display for Indices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { "," })?;
            match first == last {
                true => write!(f, "{first}")?,
                false => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for Indices {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'a> Deserialize<'a> for Indices {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

/// Takes a text, or a number, as YAML reads a single index.
struct Reader;

impl Visitor<'_> for Reader {
    type Value = Indices;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("indices from zero such as 0-99,120")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Indices, E> {
        Indices::parse(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, index: u64) -> Result<Indices, E> {
        self.visit_str(&index.to_string())
    }

    fn visit_i64<E: Error>(self, index: i64) -> Result<Indices, E> {
        self.visit_str(&index.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_written() {
        for (text, last, count) in [("0-99", 99, 100), ("3", 3, 1), ("0, 2-4,9", 9, 5)] {
            let indices = Indices::parse(text).unwrap();
            assert_eq!((indices.last(), indices.iter().count()), (last, count), "{text}");
            assert_eq!(Indices::parse(&indices.to_string()).unwrap(), indices);
            let listed: Vec<usize> = (0..120).filter(|index| indices.contains(*index)).collect();
            assert_eq!(listed, indices.iter().collect::<Vec<_>>());
        }
        let read: Indices = serde_saphyr::from_str("7").unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), [7]);
        assert_eq!(serde_json::to_value(&read).unwrap(), "7");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (text, expected) in [
            ("", "expected indices from zero"),
            ("a-b", "expected indices from zero"),
            ("-1", "expected indices from zero"),
            ("99999999999999999999999", "expected indices from zero"),
            ("9-3", "ends before it begins"),
            ("0-9,9", "each index once"),
        ] {
            let error = Indices::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
