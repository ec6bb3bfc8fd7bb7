//! Options that are keys of one option: `--training batch=16,clip=1`, `--loss huber:delta=0.5`.
//!
//! A group of options keeps its type, whose schema has bounds, default and help of each.
//! `#[serde(flatten, with = "Folding::<Group>")]` gives the group this form in commands and
//! recipes. What is often typed keeps a flag of its own: [`Folded::OWN`].

use super::terms::{Catalogue, Entry, TERM, Term, TermOf, Terms, options};
use super::{Name, Options, check_together, schema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

/// A group of options most of which are keys of one.
pub trait Folded: Options + Debug {
    /// Name of the catalogue of its keys in schemas.
    const NAME: &'static str;
    /// The option that holds the keys.
    const OPTION: &'static str;
    /// Help of that option.
    const HELP: &'static str;
    /// The option of the group whose value precedes the keys, if there is one.
    const NAMED_BY: Option<&'static str> = None;
    /// Options with a flag of their own.
    const OWN: &'static [&'static str] = &[];
    /// Options outside the group that the keys need.
    const REQUIRES: &'static [&'static str] = &[];

    /// The catalogue of its keys, by the macro `catalogue!`.
    fn catalogue() -> &'static Catalogue;

    /// Whether the value called `name` has this key.
    #[must_use]
    fn has(_name: &str, _key: &str) -> bool {
        true
    }
}

/// The function [`Folded::catalogue`] of a type.
macro_rules! catalogue {
    ($type:ty) => {
        fn catalogue() -> &'static $crate::jobs::kit::Catalogue {
            static LIST: std::sync::LazyLock<$crate::jobs::kit::Catalogue> =
                std::sync::LazyLock::new($crate::jobs::kit::folded::catalogue_of::<$type>);
            &LIST
        }
    };
}

pub(crate) use catalogue;

/// The form of a group in commands and recipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folding<T>(PhantomData<T>);

impl<T: Folded> Terms for Folding<T> {
    const NAME: &'static str = T::NAME;

    fn catalogue() -> &'static Catalogue {
        T::catalogue()
    }
}

/// The catalogue of a group, from its schema.
pub(in crate::jobs) fn catalogue_of<T: Folded>() -> Catalogue {
    let whole = schema::<T>();
    let standard = options(&T::default());
    let entry = |name: &'static str, summary: String| {
        let is_key = |key: &String| is_key::<T>(key) && T::has(name, key);
        let (mut schema, mut standard) = (whole.clone(), standard.clone());
        standard.retain(|key, _| is_key(key));
        if let Some(keys) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            keys.retain(|key, _| is_key(key));
        }
        Entry::new(name, summary).with_standard(standard).with_keys(&schema, &[])
    };
    let entries = match T::NAMED_BY {
        None => vec![entry("", T::HELP.trim_end_matches('.').to_owned())],
        Some(key) => {
            let names = Name::all_of(&whole.as_value()["properties"][key]).into_iter();
            // A catalogue is made once, and terms have its names for as long as the program runs.
            let named = |name: Name| entry(name.name.leak(), name.help.unwrap_or_default());
            names.map(named).collect()
        }
    };
    Catalogue::new(T::OPTION, entries)
}

/// Whether an option of the group is a key.
fn is_key<T: Folded>(key: &str) -> bool {
    !T::OWN.contains(&key) && T::NAMED_BY != Some(key)
}

impl<T: Folded> Folding<T> {
    /// The options with flags of their own, and a term of the keys that are not the standard ones.
    ///
    /// # Errors
    /// That of the serializer.
    pub fn serialize<S: Serializer>(group: &T, serializer: S) -> Result<S::Ok, S::Error> {
        let (all, standard) = (options(group), options(&T::default()));
        let mut own = Map::new();
        for key in T::OWN {
            own.insert((*key).to_owned(), all.get(*key).cloned().unwrap_or_default());
        }
        let name = T::NAMED_BY.and_then(|key| all[key].as_str()).unwrap_or_default();
        let entry = T::catalogue().entry(name);
        let keys = entry.into_iter().flat_map(|entry| &entry.keys);
        let given = keys.filter_map(|key| {
            let value = all.get(&key.name).filter(|value| standard.get(&key.name) != Some(value));
            // A key without a value is not typed.
            Some((key.name.clone(), value.filter(|value| !value.is_null())?.clone()))
        });
        let given: Vec<_> = given.collect();
        let is_given = !name.is_empty() || !given.is_empty();
        let text =
            entry.filter(|_| is_given).map(|entry| Term { name: entry.name, head: None, given });
        own.insert(T::OPTION.to_owned(), text.map(|term| term.to_string()).into());
        own.serialize(serializer)
    }

    /// The options of both.
    ///
    /// # Errors
    /// That of the deserializer, if a value is wrong or options contradict each other.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let mut given = Map::<String, Value>::deserialize(deserializer)?;
        let term = given.remove(T::OPTION).unwrap_or_default();
        let term: Option<TermOf<Self>> = serde_json::from_value(term).map_err(of_serde)?;
        given.retain(|key, _| T::OWN.contains(&key.as_str()));
        if let Some(term) = term {
            given.extend(term.0.given);
            given.extend(T::NAMED_BY.map(|key| (key.to_owned(), term.0.name.into())));
        }
        // What options refuse or need is the same for keys.
        check_together::<T>(&given).map_err(serde::de::Error::custom)?;
        serde_json::from_value(given.into()).map_err(of_serde)
    }
}

fn of_serde<E: serde::de::Error>(error: serde_json::Error) -> E {
    E::custom(error)
}

impl<T: Folded> JsonSchema for Folding<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        let standard = options(&T::default());
        let default = T::NAMED_BY.map(|key| standard[key].clone()).unwrap_or_default();
        let value_name = if T::NAMED_BY.is_some() { "NAME:KEY=VALUE" } else { "KEY=VALUE" };
        let term = serde_json::json!({
            "type": "string", TERM: T::NAME, "description": T::HELP, "default": default,
            "x-value": value_name, "x-requires": T::REQUIRES,
        });
        if let Some(keys) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            keys.retain(|key, _| T::OWN.contains(&key.as_str()));
            keys.insert(T::OPTION.to_owned(), term);
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use crate::jobs::kit::read;
    use crate::jobs::{FlowTrain, TrainLm, TrainNet};
    use serde_json::{Value, json};

    fn net(training: Value) -> Result<TrainNet, String> {
        let job = json!({"net": "mlp:8", "images": "a", "output": "o", "training": training});
        read(job.as_object().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_text_and_a_map_are_the_same_options_and_they_read_back() {
        for (text, map) in [
            ("batch=16,weight_decay=0.5", json!({"weight-decay": 0.5, "batch": 16})),
            ("loss=squared-error,last", json!({"loss": "squared_error", "last": true})),
            ("batch=128,last=false", json!({})),
        ] {
            let (of_text, of_map) = (net(text.into()).unwrap(), net(map).unwrap());
            assert_eq!(of_text, of_map, "{text}");
            let written = serde_json::to_value(&of_text).unwrap();
            assert_eq!(net(written["training"].clone()), Ok(of_text.clone()), "{written}");
            assert_eq!(serde_json::from_value::<TrainNet>(written).unwrap(), of_text);
        }
        let written = serde_json::to_value(net("batch=128".into()).unwrap()).unwrap();
        assert_eq!((&written["training"], &written["epochs"]), (&Value::Null, &json!(10)));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_keys_that_there_are() {
        for (text, words) in [
            ("batches=3", "training has no option batches; nearest are batch"),
            ("batch=0", "batch is 0, expected a whole number from 1"),
            ("batch", "batch has no value"),
            ("clip=1", "training has no option clip"),
            ("epochs=1", "training has no option epochs"),
        ] {
            let error = net(text.into()).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let flow = json!({"data": "moons", "output": "o", "training": "clip=1,patience=3"});
        let flow = read::<FlowTrain>(flow.as_object().unwrap()).unwrap();
        assert_eq!((flow.training.clip, flow.training.patience), (Some(1.0), Some(3)));
        let lm = json!({"output": "o", "training": "warmup=1"});
        let error = read::<TrainLm>(lm.as_object().unwrap()).unwrap_err().to_string();
        assert!(error.contains("training needs text"), "{error}");
    }
}
