//! A value with options in one text: `FILE:labels=FILE,examples=0-9`, `300:rate=0.001`.

use super::{Catalogue, Entry, TERM, Term, Terms, text};
use crate::jobs::kit::{Options, check_together, schema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// Key of the schema of an option that is the path of a file or folder.
const PATH: &str = "x-path";

/// A value with options, as options of jobs hold it: a text in JSON, `VALUE:key=value,key=value`.
/// The value itself is the first field of `T`, the options are the others: those that are not as in
/// `T::default()` are written.
///
/// ```ignore
/// #[serde(default)]
/// pub struct Photos { pub path: String, pub labels: Option<String> }
///
/// impl Terms for Photos { .. Catalogue::with_head::<Photos>("images", "path", "labelled images") }
///
/// pub images: Option<WithOptions<Photos>>,
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WithOptions<T>(pub T);

impl<T> Deref for WithOptions<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// All options of a value, as a map.
pub(in crate::jobs::kit) fn options(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(options)) => options,
        other => unreachable!("options are a map of plain data: {other:?}"),
    }
}

impl Catalogue {
    /// Values of `T`, written as its field `head` and, after a colon, the others by their names.
    ///
    /// # Panics
    /// If `T` has no such field.
    #[must_use]
    pub fn with_head<T: Options>(what: &'static str, head: &str, summary: &str) -> Self {
        let schema = schema::<T>();
        let entry = Entry::new("", summary).with_standard(options(&T::default()));
        let mut entry = entry.with_keys(&schema, &[]);
        let place = entry.keys.iter().position(|key| key.name == head);
        let head = entry.keys.remove(place.expect("the head is a field"));
        Self { what, head: Some(head), entries: vec![entry] }
    }
}

impl<T: Terms + Serialize + Default> WithOptions<T> {
    /// The text of the value.
    fn term(&self) -> Term {
        let catalogue = T::catalogue();
        let (all, standard) = (options(&self.0), options(&T::default()));
        let at = |key: &super::Key| text::get(&all, &key.path).cloned();
        let is_given =
            |key: &&super::Key| text::get(&all, &key.path) != text::get(&standard, &key.path);
        let keys = catalogue.unnamed().map_or(&[][..], |entry| &entry.keys);
        let given = keys.iter().filter(is_given);
        let given = given.map(|key| (key.name.clone(), at(key).unwrap_or_default()));
        let given = given.filter(|(_, value)| !value.is_null());
        Term { name: "", head: catalogue.head.as_ref().and_then(at), given: given.collect() }
    }
}

impl<T: Terms + Serialize + Default> fmt::Display for WithOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.term().fmt(f)
    }
}

impl<T: Terms + Serialize + Default> Serialize for WithOptions<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.term())
    }
}

impl<'de, T: Terms + Options> Deserialize<'de> for WithOptions<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let catalogue = T::catalogue();
        let read = catalogue.read_value(&Value::deserialize(deserializer)?);
        let options = catalogue.options(&read.map_err(serde::de::Error::custom)?);
        check_together::<T>(&options).map_err(serde::de::Error::custom)?;
        T::deserialize(Value::from(options)).map(Self).map_err(serde::de::Error::custom)
    }
}

impl<T: Terms + JsonSchema> JsonSchema for WithOptions<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let head = T::catalogue().head.as_ref().map_or("", |head| head.path[0].as_str());
        let own = T::json_schema(generator);
        let of_head = own.get("properties").and_then(|properties| properties.get(head));
        let mut schema = json_schema!({"type": "string", TERM: T::NAME});
        if let Some(is_path) = of_head.and_then(|own| own.get(PATH)) {
            schema.insert(PATH.to_owned(), is_path.clone());
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::kit::bounds;
    use serde_json::json;
    use std::path::PathBuf;
    use std::sync::LazyLock;

    /// Labelled images.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Photos {
        /// A file of images.
        #[schemars(extend("x-path" = true))]
        path: PathBuf,
        /// A file of labels.
        labels: Option<PathBuf>,
        /// The images to use.
        examples: Option<String>,
        /// How many rows each has.
        #[schemars(range(min = 1, max = bounds::FEATURES))]
        rows: Option<usize>,
        /// Whether they are grey.
        grey: bool,
    }

    static PHOTOS: LazyLock<Catalogue> =
        LazyLock::new(|| Catalogue::with_head::<Photos>("images", "path", "labelled images"));

    impl Terms for Photos {
        const NAME: &'static str = "photos";

        fn catalogue() -> &'static Catalogue {
            &PHOTOS
        }
    }

    /// Steps of a training.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Steps {
        /// How many.
        #[schemars(range(min = 1, max = bounds::STEPS))]
        steps: u64,
        /// Size of each.
        #[schemars(range(min = 0.0, max = bounds::RATE))]
        rate: Option<f64>,
        /// Whether they are kept.
        kept: bool,
    }

    static STEPS: LazyLock<Catalogue> =
        LazyLock::new(|| Catalogue::with_head::<Steps>("training", "steps", "steps of Adam"));

    impl Terms for Steps {
        const NAME: &'static str = "steps";

        fn catalogue() -> &'static Catalogue {
            &STEPS
        }
    }

    fn photos(value: &Value) -> Result<WithOptions<Photos>, String> {
        WithOptions::deserialize(value).map_err(|error| error.to_string())
    }

    #[test]
    fn options_follow_the_last_colon_before_a_key_and_all_forms_read_back() {
        let labels = |path: &str, labels: &str| json!({"path": path, "labels": labels});
        for (text, map, canonical) in [
            ("a.idx", json!({"path": "a.idx"}), "a.idx"),
            ("a b,c.idx", json!({"path": "a b,c.idx"}), "a b,c.idx"),
            ("a.idx:labels=b.idx", labels("a.idx", "b.idx"), "a.idx:labels=b.idx"),
            ("task:x:labels=b", labels("task:x", "b"), "task:x:labels=b"),
            ("task:x", json!({"path": "task:x"}), "task:x"),
            ("C:\\a=b", json!({"path": "C:\\a=b"}), "C:\\a=b"),
            ("http://h:80/x?y=1", json!({"path": "http://h:80/x?y=1"}), "http://h:80/x?y=1"),
            (
                "a,b:rows=3, grey",
                json!({"path": "a,b", "rows": 3, "grey": true}),
                "a,b:rows=3,grey=true",
            ),
            ("it's:labels=b", labels("it's", "b"), "it's:labels=b"),
            ("a:labels=\"x:y=1\"", labels("a", "x:y=1"), "a:labels=\"x:y=1\""),
            ("a:labels=\"b, c\"", labels("a", "b, c"), "a:labels=\"b, c\""),
            ("\"a:rows=3\"", json!({"path": "a:rows=3"}), "\"a:rows=3\""),
            ("\"a:x=y\":rows=3", json!({"path": "a:x=y", "rows": 3}), "\"a:x=y\":rows=3"),
            ("\"{a}\"", json!({"path": "{a}"}), "\"{a}\""),
            ("2024", json!(2024), "2024"),
            ("a.idx", json!("a.idx"), "a.idx"),
        ] {
            let read = photos(&text.into()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(photos(&map).as_ref(), Ok(&read), "{map}");
            assert_eq!(read.to_string(), canonical);
            assert_eq!(json!(read), json!(canonical));
            assert_eq!(photos(&canonical.into()), Ok(read), "{canonical}");
        }
    }

    #[test]
    fn the_value_may_be_a_number_within_bounds() {
        let read = |value: Value| {
            WithOptions::<Steps>::deserialize(value).map_err(|error| error.to_string())
        };
        let (plain, rate) = (Steps { steps: 300, rate: None, kept: false }, Some(0.5));
        for (value, steps) in [
            (json!(300), plain.clone()),
            (json!("300"), plain.clone()),
            (json!({"steps": 300}), plain.clone()),
            (json!("300:rate=0.5"), Steps { rate, ..plain.clone() }),
            (json!("300:kept"), Steps { kept: true, ..plain.clone() }),
            (json!({"steps": 300, "rate": 0.5}), Steps { rate, ..plain }),
        ] {
            assert_eq!(read(value.clone()), Ok(WithOptions(steps)), "{value}");
        }
        assert_eq!(WithOptions(Steps { steps: 3, rate, kept: false }).to_string(), "3:rate=0.5");
        for (value, words) in [
            (json!("x"), "steps is x, expected a whole number from 1 to"),
            (json!(0), "steps is 0, expected a whole number from 1 to"),
            (json!("3:rate=-1"), "rate is -1, expected a number from 0"),
            (json!({"rate": 0.5}), "steps is missing"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(words), "{value}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_there_is() {
        for (value, words) in [
            (json!("a:label=b"), &["images has no option label", "labels"][..]),
            (json!("a:rows=x"), &["rows is x, expected a whole number from 1"]),
            (json!("a:rows=1,rows=2"), &["rows is given twice"]),
            (json!("a:rows=1,labels"), &["labels has no value"]),
            (json!(":rows=1"), &["path is missing"]),
            (json!(""), &["path is missing"]),
            (json!("\"a"), &["path is "]),
            (json!({"rows": 1}), &["path is missing"]),
            (json!({"path": "a", "label": "b"}), &["images has no option label"]),
            (json!([1]), &["expected PATH"]),
        ] {
            let error = photos(&value).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{value}: {error}");
        }
    }

    #[test]
    fn its_schema_is_a_text_that_knows_whether_it_is_a_path() {
        let photos = json!(schema::<WithOptions<Photos>>());
        assert_eq!((&photos["x-path"], &photos["x-term"]), (&json!(true), &json!("photos")));
        assert_eq!(json!(schema::<WithOptions<Steps>>())["x-path"], Value::Null);
    }
}
