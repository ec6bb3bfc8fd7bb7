//! Tables: rows of named values in any supported format.

use super::row::{Fields, Row, TableFormat};
use super::{DataError, file, ids};
use linwright_run::shown_reason;
use serde_json::{Number, Value};
use std::path::{Path, PathBuf};

/// Memory of a named value besides its name and text, in bytes.
const VALUE_BYTES: u64 = 96;
/// Memory allowed for the rows of any table, and per byte of its file, as for columnar files.
const BASE_BYTES: u64 = 64 << 20;
const GROWTH: u64 = 128;

/// Rows of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Path of the file.
    pub path: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// At least one row.
    pub rows: Vec<Row>,
}

impl Table {
    /// Reads a file. `field` names the list in a file that is one JSON object; by default the only
    /// list of objects.
    ///
    /// # Errors
    /// [`DataError`], naming file and line.
    pub fn open(path: &Path, format: TableFormat, field: Option<&str>) -> Result<Self, DataError> {
        Self::from_bytes(path, &file::read(path)?, format, field)
    }

    /// Parses rows from memory; `path` is the name in messages.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_bytes(
        path: &Path,
        bytes: &[u8],
        format: TableFormat,
        field: Option<&str>,
    ) -> Result<Self, DataError> {
        let content = file::content(path, bytes)?;
        let text = || file::decode(path, &content);
        let rows = match format.narrowed(path) {
            TableFormat::Json => json(path, text()?, field)?,
            TableFormat::JsonLines => match field {
                None => json_lines(path, text()?)?,
                Some(field) => {
                    let path = path.to_owned();
                    let reason = format!(
                        "each line is a separate row, so there is no list in a field {field}; \
                         leave it out, or name the file .json"
                    );
                    return Err(DataError::BadRecord { path, line: 1, reason });
                }
            },
            TableFormat::Csv => separated(path, text()?, b',')?,
            TableFormat::Tsv => separated(path, text()?, b'\t')?,
            TableFormat::Text => lines(text()?),
            TableFormat::Parquet | TableFormat::Arrow => columns(path, &content, format)?,
        };
        if rows.is_empty() {
            return Err(DataError::NoRecords { path: path.to_owned(), what: "rows" });
        }
        Ok(Self { path: path.to_owned(), sha256: linwright_run::sha256_hex(bytes), rows })
    }

    /// Note on rows whose `id` occurred before, in one sentence.
    #[must_use]
    pub fn repeated_ids(&self, format: TableFormat) -> Option<String> {
        let (count, id, [line, first]) = ids::repeated_ids(&self.rows)?;
        let (path, place) = (self.path.display(), format.place());
        let more = match count {
            1 => String::new(),
            count => format!("; {count} rows repeat an id"),
        };
        Some(format!("{path}, {place} {line}: id {id} is that of {place} {first} as well{more}"))
    }
}

#[cfg(feature = "parquet")]
use super::columns::rows as columns;

#[cfg(not(feature = "parquet"))]
fn columns(path: &Path, _: &[u8], format: TableFormat) -> Result<Vec<Row>, DataError> {
    Err(DataError::NotBuilt { path: path.to_owned(), format: format.name() })
}

fn lines(text: &str) -> Vec<Row> {
    let row = |(index, line): (usize, &str)| Row {
        fields: Fields::from_iter([("text".to_owned(), Value::from(line))]),
        line: index + 1,
    };
    text.lines().enumerate().map(row).collect()
}

/// One object per line.
fn json_lines(path: &Path, text: &str) -> Result<Vec<Row>, DataError> {
    file::records(path, text)
        .map(|record| record.map(|record| Row { line: record.line, fields: record.fields() }))
        .collect()
}

/// A list if the text is one JSON value, otherwise one object per line.
fn json(path: &Path, text: &str, field: Option<&str>) -> Result<Vec<Row>, DataError> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let is_lines = field.is_none() && serde_json::from_str::<Fields>(first).is_ok();
    if is_lines && first.trim().len() < text.trim().len() {
        return json_lines(path, text);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| DataError::BrokenJson {
        path: path.to_owned(),
        line: error.line(),
        reason: shown_reason(&error.to_string()),
    })?;
    let bad =
        |line: usize, reason: String| DataError::BadRecord { path: path.to_owned(), line, reason };
    let items = match value {
        Value::Array(items) => items,
        Value::Object(fields) => list_of(fields, field).map_err(|reason| bad(1, reason))?,
        other => {
            let found = file::kind(&other);
            return Err(bad(1, format!("expected a list of objects, found {found}")));
        }
    };
    let row = |(index, item): (usize, Value)| match item {
        Value::Object(fields) => Ok(Row { fields, line: index + 1 }),
        other => {
            let found = file::kind(&other);
            Err(bad(index + 1, format!("entry {index} is {found}, expected an object")))
        }
    };
    items.into_iter().enumerate().map(row).collect()
}

/// The list of rows in an object: the one with this name, or the only list of objects. An object
/// without such a list is a row itself.
fn list_of(mut fields: Fields, name: Option<&str>) -> Result<Vec<Value>, String> {
    if let Some(name) = name {
        return match fields.shift_remove(name) {
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(format!("field {name} is {}, expected a list", file::kind(&other))),
            None => Err(format!("the field {name} is missing")),
        };
    }
    let is_rows = |value: &Value| {
        value.as_array().is_some_and(|items| items.first().is_some_and(Value::is_object))
    };
    let lists: Vec<String> =
        fields.iter().filter(|(_, v)| is_rows(v)).map(|(k, _)| k.clone()).collect();
    match lists.as_slice() {
        [] => Ok(vec![Value::Object(fields)]),
        [name] => match fields.shift_remove(name) {
            Some(Value::Array(items)) => Ok(items),
            _ => Ok(Vec::new()),
        },
        several => Err(format!("there are several lists ({}); name one", several.join(", "))),
    }
}

/// Rows of a table with names in its first line. A column has integers or numbers if all of its
/// non-empty values are such; its empty values are then null.
fn separated(path: &Path, text: &str, delimiter: u8) -> Result<Vec<Row>, DataError> {
    let wrong = |error: csv::Error| {
        let line = error.position().map_or(1, |position| position.line() as usize);
        DataError::BadRecord { path: path.to_owned(), line, reason: reason_of(&error) }
    };
    check_quotes(path, text, delimiter)?;
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text.as_bytes());
    let names = reader.headers().map_err(wrong)?.clone();
    let mut records = Vec::new();
    for record in reader.records() {
        records.push(record.map_err(wrong)?);
    }
    check_rows(path, text, &names, records.len())?;
    let columns: Vec<Column> =
        (0..names.len()).map(|i| Column::of(records.iter().filter_map(|r| r.get(i)))).collect();
    let row = |record: &csv::StringRecord| {
        let cells = names.iter().zip(&columns).zip(record);
        Row {
            fields: cells.map(|((name, kind), cell)| (name.to_owned(), kind.value(cell))).collect(),
            line: record.position().map_or(0, |position| position.line() as usize),
        }
    };
    Ok(records.iter().map(row).collect())
}

/// Rejects tables whose rows would take too much memory for the size of the file: each row has the
/// names of all columns, however short its values.
fn check_rows(
    path: &Path,
    text: &str,
    names: &csv::StringRecord,
    rows: usize,
) -> Result<(), DataError> {
    let of_row: u64 = names.iter().map(|name| VALUE_BYTES + name.len() as u64).sum();
    let needed = of_row.saturating_mul(rows as u64);
    let limit_bytes = BASE_BYTES + GROWTH * text.len() as u64;
    match needed > limit_bytes {
        false => Ok(()),
        true => {
            let (path, file_bytes) = (path.to_owned(), text.len());
            Err(DataError::RowsTooLarge { path, file_bytes, limit_bytes })
        }
    }
}

/// Rejects a quote that does not end at the end of a value: all rows up to the next quote would
/// become one value.
fn check_quotes(path: &Path, text: &str, delimiter: u8) -> Result<(), DataError> {
    #[derive(Clone, Copy)]
    enum At {
        Start,
        Bare,
        /// Quoted since this line.
        Quoted(usize),
        Closed(usize),
    }
    let bad =
        |line: usize, reason: String| DataError::BadRecord { path: path.to_owned(), line, reason };
    let mut line = 1;
    let mut at = At::Start;
    for byte in text.bytes() {
        let ends = byte == delimiter || byte == b'\n' || byte == b'\r';
        at = match (at, byte) {
            (At::Start, b'"') => At::Quoted(line),
            (At::Quoted(since), b'"') => At::Closed(since),
            (At::Quoted(since), _) => At::Quoted(since),
            // Two quotes are one in the value.
            (At::Closed(since), b'"') => At::Quoted(since),
            (_, _) if ends => At::Start,
            (At::Closed(since), _) => {
                let reason = format!(
                    "text follows the quote that ends a value; it was opened in line {since}. \
                     Double the quotes inside a value"
                );
                return Err(bad(line, reason));
            }
            (At::Start | At::Bare, _) => At::Bare,
        };
        line += usize::from(byte == b'\n');
    }
    match at {
        At::Quoted(since) => {
            let reason = "a quote is opened here and never closed; close it, or double it and put \
                          the value into quotes";
            Err(bad(since, reason.into()))
        }
        _ => Ok(()),
    }
}

fn reason_of(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} values, expected {expected_len} as in the first line")
        }
        _ => shown_reason(&error.to_string()),
    }
}

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Integer,
    Number,
    Text,
}

impl Column {
    fn of<'a>(cells: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut filled = cells.clone().filter(|cell| !cell.is_empty()).peekable();
        if filled.peek().is_none() {
            Self::Text
        } else if cells.clone().all(|cell| cell.parse::<i64>().is_ok()) {
            Self::Integer
        } else if filled.all(|cell| cell.parse::<f64>().is_ok_and(f64::is_finite)) {
            Self::Number
        } else {
            Self::Text
        }
    }

    fn value(self, cell: &str) -> Value {
        match self {
            Self::Integer => cell.parse::<i64>().map_or(Value::Null, Value::from),
            Self::Number => {
                let number = cell.parse::<f64>().ok().and_then(Number::from_f64);
                number.map_or(Value::Null, Value::Number)
            }
            Self::Text => Value::from(cell),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn table(text: &str, format: TableFormat, field: Option<&str>) -> Result<Vec<Row>, DataError> {
        Table::from_bytes(Path::new("t"), text.as_bytes(), format, field).map(|t| t.rows)
    }

    fn values(rows: &[Row]) -> Vec<Value> {
        rows.iter().map(|row| Value::Object(row.fields.clone())).collect()
    }

    #[test]
    fn json_is_lines_or_one_value() {
        let want = [json!({"a": 1}), json!({"a": 2})];
        for (text, field) in [
            ("{\"a\":1}\n\n{\"a\":2}\n", None),
            ("[{\"a\":1},\n{\"a\":2}]", None),
            ("{\"name\": \"x\",\n \"examples\": [{\"a\":1},{\"a\":2}]}", None),
            ("{\"p\": [{\"b\":1}], \"q\": [{\"a\":1},{\"a\":2}]}", Some("q")),
        ] {
            assert_eq!(values(&table(text, TableFormat::Json, field).unwrap()), want, "{text}");
        }
        let rows = table("{\"a\":1}\n\n{\"a\":2}\n", TableFormat::Json, None).unwrap();
        assert_eq!(rows[1].line, 3);
        assert_eq!(values(&table("{\"a\":1}", TableFormat::Json, None).unwrap()), want[..1]);
    }

    #[test]
    fn separated_values_have_types_by_column() {
        let text = "n,x,t,e\n1,1.5,\"a, \"\"b\"\"\",\n2,,c,\n";
        let rows = table(text, TableFormat::Csv, None).unwrap();
        let want = [
            json!({"n": 1, "x": 1.5, "t": "a, \"b\"", "e": ""}),
            json!({"n": 2, "x": null, "t": "c", "e": ""}),
        ];
        assert_eq!(values(&rows), want);
        assert_eq!(rows[1].line, 3);
        let tabs = table("a\tb\n1\tx y\n", TableFormat::Tsv, None).unwrap();
        assert_eq!(values(&tabs), [json!({"a": 1, "b": "x y"})]);
    }

    #[test]
    fn an_unbalanced_quote_is_a_fault_of_its_line() {
        let rows: Vec<String> = (0..100).map(|i| format!("{i},text {i}\n")).collect();
        let with = |place: usize, row: &str| {
            let mut rows = rows.clone();
            rows[place] = row.into();
            format!("n,t\n{}", rows.concat())
        };
        for (text, want) in [
            (with(10, "10,\"text\n"), "t, line 12: a quote is opened here and never closed"),
            (with(10, "10,\"a\n20,\"b\"\n"), "t, line 13: text follows the quote"),
            (with(3, "3,\"a\" b\n"), "t, line 5: text follows the quote"),
        ] {
            let message = table(&text, TableFormat::Csv, None).unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
        let good = with(10, "10,\"a \"\"b\"\"\nc\"\n11,5\" pipe\n");
        let rows = table(&good, TableFormat::Csv, None).unwrap();
        assert_eq!(rows.len(), 101);
        assert_eq!(rows[10].fields["t"], json!("a \"b\"\nc"));
        assert_eq!(rows[11].fields["t"], json!("5\" pipe"));
        let text = "n\tt\n1\t\"a\n2\tb\n";
        let message = table(text, TableFormat::Tsv, None).unwrap_err().to_string();
        assert!(message.contains("t, line 2: a quote"), "{message}");
    }

    #[test]
    fn a_file_of_lines_holds_lines_even_if_it_is_one_record_with_a_list() {
        let read = |name: &str, text: &str, field| {
            Table::from_bytes(Path::new(name), text.as_bytes(), TableFormat::Json, field)
                .map(|table| values(&table.rows))
        };
        let one = "{\"choices\": [{\"a\": 1}, {\"a\": 2}]}\n";
        assert_eq!(read("t.jsonl", one, None).unwrap(), [json!({"choices": [{"a": 1}, {"a": 2}]})]);
        assert_eq!(read("t.json", one, None).unwrap(), [json!({"a": 1}), json!({"a": 2})]);
        for (text, field, want) in [
            ("[{\"a\": 1}]", None, "t.ndjson, line 1: expected an object {...}, found"),
            ("{\"a\": 1}\n\n[1]", None, "t.ndjson, line 3: expected an object"),
            ("{\"a\":\n1}", None, "t.ndjson, line 1: not valid JSON"),
            (one, Some("choices"), "no list in a field choices"),
        ] {
            let message = read("t.ndjson", text, field).unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
    }

    #[test]
    fn short_values_under_long_names_are_bounded() {
        let names: Vec<String> = (0..100).map(|k| format!("{k:08192}")).collect();
        let row = ["1"; 100].join(",");
        let of = |rows: usize| format!("{}\n{}", names.join(","), format!("{row}\n").repeat(rows));
        assert_eq!(table(&of(20), TableFormat::Csv, None).unwrap().len(), 20);
        let message = table(&of(1000), TableFormat::Csv, None).unwrap_err().to_string();
        assert!(message.contains("would take more than"), "{message}");
    }

    #[test]
    fn lines_are_texts() {
        let rows = table("one\n\ntwo", TableFormat::Text, None).unwrap();
        assert_eq!(
            values(&rows),
            [json!({"text": "one"}), json!({"text": ""}), json!({"text": "two"})]
        );
    }

    #[test]
    fn faults_name_the_line() {
        let cases = [
            ("{\"a\":1}\n{", TableFormat::Json, None, "t, line 2: not valid JSON"),
            ("[1]", TableFormat::Json, None, "entry 0 is a number"),
            ("7", TableFormat::Json, None, "expected a list of objects, found a number"),
            ("{\"a\": 1}", TableFormat::Json, Some("b"), "the field b is missing"),
            ("{\"a\": 1}", TableFormat::Json, Some("a"), "field a is a number"),
            ("{\"a\":[{}],\"b\":[{}]}", TableFormat::Json, None, "several lists (a, b)"),
            ("a,b\n1,2\n1,2,3\n", TableFormat::Csv, None, "t, line 3: 3 values, expected 2"),
            ("a,b\n", TableFormat::Csv, None, "has no rows"),
            ("", TableFormat::Text, None, "has no rows"),
        ];
        for (text, format, field, want) in cases {
            let message = table(text, format, field).unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
    }

    #[test]
    fn repeated_ids_are_told_with_both_places() {
        let text = "id,a\n1,x\n2,y\n1,z\n1,w\n";
        let table = |text: &str| {
            Table::from_bytes(Path::new("t.csv"), text.as_bytes(), TableFormat::Csv, None).unwrap()
        };
        let want = "t.csv, line 4: id 1 is that of line 2 as well; 2 rows repeat an id";
        assert_eq!(table(text).repeated_ids(TableFormat::Csv).unwrap(), want);
        assert_eq!(table("id\n1\n2\n").repeated_ids(TableFormat::Csv), None);
    }

    #[test]
    fn names_say_the_format() {
        for (name, format) in [
            ("a.JSONL", Some(TableFormat::JsonLines)),
            ("a.json", Some(TableFormat::Json)),
            ("a.csv", Some(TableFormat::Csv)),
            ("a.tsv", Some(TableFormat::Tsv)),
            ("a.txt", Some(TableFormat::Text)),
            ("a.parquet", Some(TableFormat::Parquet)),
            ("a.Arrow", Some(TableFormat::Arrow)),
            ("a.xlsx", None),
            ("a", None),
        ] {
            assert_eq!(TableFormat::of(Path::new(name)), format, "{name}");
        }
        let all = ".jsonl, .json, .csv, .tsv, .txt, .parquet or .arrow";
        assert_eq!(TableFormat::extensions(|_| true), all);
        assert_eq!(TableFormat::extensions(TableFormat::is_columns), ".parquet or .arrow");
        assert_eq!(TableFormat::extensions(|format| format == TableFormat::Csv), ".csv");
    }
}
