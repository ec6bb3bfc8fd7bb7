//! Values by name in an order of their own.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

/// Values by name, in the order of their first insertion, the last one of each name; a JSON object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordered<T>(Vec<(String, T)>);

impl<T> Ordered<T> {
    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same names with other values.
    #[must_use]
    pub fn map<U>(self, of: impl Fn(T) -> U) -> Ordered<U> {
        Ordered(self.0.into_iter().map(|(name, value)| (name, of(value))).collect())
    }
}

impl<T> FromIterator<(String, T)> for Ordered<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(pairs: I) -> Self {
        let (mut all, mut places): (Vec<(String, T)>, HashMap<String, usize>) = Default::default();
        for (name, value) in pairs {
            match places.get(&name) {
                Some(place) => all[*place].1 = value,
                None => {
                    places.insert(name.clone(), all.len());
                    all.push((name, value));
                }
            }
        }
        Self(all)
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfMap(PhantomData))
    }
}

struct OfMap<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
    type Value = Ordered<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("values by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
        std::iter::from_fn(|| map.next_entry().transpose()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_order_and_the_last_of_a_name() {
        let pairs = [("b", 1), ("a", 2), ("b", 3)].map(|(name, value)| (name.to_owned(), value));
        let all = Ordered::from_iter(pairs);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(text, r#"{"b":3,"a":2}"#);
        assert_eq!(serde_json::from_str::<Ordered<i32>>(&text).unwrap(), all);
        assert_eq!((all.get("a"), all.get("c")), (Some(&2), None));
        assert!(!all.is_empty());
    }
}
