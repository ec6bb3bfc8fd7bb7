//! Results that are saved as JSON and reported.

use crate::{Block, Document, ReportError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::io::Write;

/// A result of one kind: plain data that says everything its report shows.
///
/// A saved result begins with `kind`, `version` and `linwright`, the version of the program, so
/// that `linwright report` knows what it is.
pub trait Report: Serialize + DeserializeOwned + 'static {
    /// Name of the kind: of the command, or of the command with what it estimated.
    const KIND: &'static str;
    /// Version of the fields; a new one where a field changes its meaning or goes.
    const VERSION: u32 = 1;

    /// The result for readers, without times, memory and machine.
    fn document(&self) -> Document;

    /// Times, memory and machine for readers.
    fn times(&self) -> Vec<Block> {
        Vec::new()
    }
}

/// A [`Report`] of any kind.
pub trait AnyReport {
    /// See [`Report::document`].
    fn document(&self) -> Document;

    /// See [`Report::times`].
    fn times(&self) -> Vec<Block>;

    /// Writes the result with its kind and version as indented JSON. It may be much larger as a
    /// [`Value`].
    ///
    /// # Errors
    /// Those of the writer.
    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()>;

    /// The result with its kind and version as a value.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    fn to_value(&self) -> serde_json::Result<Value>;
}

/// A result as it is saved.
#[derive(Serialize)]
struct Saved<'a, R> {
    kind: &'static str,
    version: u32,
    linwright: &'static str,
    #[serde(flatten)]
    result: &'a R,
}

impl<'a, R: Report> Saved<'a, R> {
    const fn of(result: &'a R) -> Self {
        Self { kind: R::KIND, version: R::VERSION, linwright: env!("CARGO_PKG_VERSION"), result }
    }
}

impl<R: Report> AnyReport for R {
    fn document(&self) -> Document {
        Report::document(self)
    }

    fn times(&self) -> Vec<Block> {
        Report::times(self)
    }

    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        serde_json::to_writer_pretty(out, &Saved::of(self))
    }

    fn to_value(&self) -> serde_json::Result<Value> {
        serde_json::to_value(Saved::of(self))
    }
}

/// A kind of results, as data.
#[derive(Clone, Copy, Debug)]
pub struct ReportKind {
    /// See [`Report::KIND`].
    pub name: &'static str,
    /// See [`Report::VERSION`].
    pub version: u32,
    read: fn(Value) -> serde_json::Result<Box<dyn AnyReport>>,
}

impl ReportKind {
    /// The kind of a type.
    #[must_use]
    pub const fn of<R: Report>() -> Self {
        let read = |value| Ok(Box::new(R::deserialize(value)?) as Box<dyn AnyReport>);
        Self { name: R::KIND, version: R::VERSION, read }
    }

    /// Reads a saved result of this kind.
    ///
    /// # Errors
    /// [`ReportError`] if the version is another one, or a field is missing or has another type.
    pub fn read(&self, mut saved: Map<String, Value>) -> Result<Box<dyn AnyReport>, ReportError> {
        open_envelope(&mut saved, self.name, self.version)?;
        Ok((self.read)(Value::Object(saved))?)
    }
}

/// Reads a saved result whose kind is known.
///
/// # Errors
/// [`ReportError`] if the version is another one, or a field is missing or has another type.
pub fn read_saved<R: Report>(mut saved: Map<String, Value>) -> Result<R, ReportError> {
    open_envelope(&mut saved, R::KIND, R::VERSION)?;
    Ok(R::deserialize(Value::Object(saved))?)
}

/// Removes kind and versions from a saved result, after a check of the version of its fields.
fn open_envelope(
    saved: &mut Map<String, Value>,
    kind: &'static str,
    expected: u32,
) -> Result<(), ReportError> {
    let version = saved.shift_remove("version");
    saved.shift_remove("kind");
    saved.shift_remove("linwright");
    if version.as_ref().and_then(Value::as_u64) == Some(expected.into()) {
        return Ok(());
    }
    let found = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
    Err(ReportError::Version { kind, found, expected })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Count {
        examples: u64,
    }

    impl Report for Count {
        const KIND: &'static str = "count";
        const VERSION: u32 = 3;

        fn document(&self) -> Document {
            let blocks = vec![Block::Text(vec![format!("{} examples", self.examples)])];
            Document { blocks, ..Document::default() }
        }
    }

    fn read(value: Value) -> Result<Box<dyn AnyReport>, ReportError> {
        let Value::Object(map) = value else { panic!("{value}") };
        ReportKind::of::<Count>().read(map)
    }

    #[test]
    fn a_saved_result_has_its_kind_first_and_is_read_back() {
        let mut bytes = Vec::new();
        AnyReport::write(&Count { examples: 7 }, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let start = "{\n  \"kind\": \"count\",\n  \"version\": 3,\n  \"linwright\": \"";
        assert!(text.starts_with(start), "{text}");
        let again = read(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(again.document().blocks, [Block::Text(vec!["7 examples".to_owned()])]);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(again.to_value().unwrap(), value);
        assert_eq!(value["examples"], 7);
        assert!(again.times().is_empty());
    }

    #[test]
    fn another_version_and_other_fields_are_errors() {
        for (value, part) in [
            (json!({"kind": "count", "version": 2, "examples": 7}), "version 2"),
            (json!({"kind": "count", "examples": 7}), "version none"),
            (json!({"kind": "count", "version": 3}), "examples"),
            (json!({"kind": "count", "version": 3, "examples": "many"}), "many"),
        ] {
            let Err(error) = read(value.clone()) else { panic!("{value}") };
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
