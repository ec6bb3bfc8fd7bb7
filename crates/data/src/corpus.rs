//! Documents of running text.

use super::ids::Ids;
use super::{DataError, Fields, Row, Table, TableFormat, file};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Default field with the text of a record.
const TEXT_FIELD: &str = "text";

/// Format of a file of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The whole file is one document.
    Text,
    /// One JSON object per line, with the document in one field.
    Jsonl,
    /// A table, with the document in one column.
    Columns(TableFormat),
}

impl Format {
    /// Format by the file extension, in upper or lower case and before a `.gz`: `.jsonl` and
    /// `.ndjson` are JSONL, `.json`, `.csv`, `.tsv`, `.parquet` and `.arrow` are tables, all others
    /// are text.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match TableFormat::of(path) {
            Some(TableFormat::JsonLines) => Self::Jsonl,
            Some(TableFormat::Text) | None => Self::Text,
            Some(format) => Self::Columns(format),
        }
    }
}

/// One text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The text, which is not empty.
    pub text: String,
    /// Line in the file, from one.
    pub line: usize,
    /// The field `id` of its record: a text or a number, if present.
    pub id: Option<Value>,
    /// Length in bytes of the given part at the start of the text; the rest is the completion.
    pub given: usize,
}

impl Document {
    /// A text at a line, without a given part.
    #[must_use]
    pub fn new(text: impl Into<String>, line: usize) -> Self {
        Self { text: text.into(), line, id: None, given: 0 }
    }
}

/// Documents of one file, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// Path of the file.
    pub path: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// At least one document.
    pub documents: Vec<Document>,
}

impl Corpus {
    /// Reads a file in the format of its extension; `field` is the field with the text, `text` by
    /// default. Plain text has no fields.
    ///
    /// # Errors
    /// [`DataError`], naming file and line.
    pub fn open(path: &Path, field: Option<&str>) -> Result<Self, DataError> {
        Self::from_bytes(path, &file::read(path)?, Format::of(path), field)
    }

    /// As [`Self::open`], for queries: a record without the field `text` may have the fields
    /// `prompt` and `completion` instead. Its text is their concatenation, with the prompt as the
    /// given part.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_queries(path: &Path, field: Option<&str>) -> Result<Self, DataError> {
        Self::parse(path, &file::read(path)?, Format::of(path), (field, field.is_none()))
    }

    /// Parses documents from memory; `path` is the name in messages.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_bytes(
        path: &Path,
        bytes: &[u8],
        format: Format,
        field: Option<&str>,
    ) -> Result<Self, DataError> {
        Self::parse(path, bytes, format, (field, false))
    }

    fn parse(
        path: &Path,
        bytes: &[u8],
        format: Format,
        (field, takes_prompts): (Option<&str>, bool),
    ) -> Result<Self, DataError> {
        let mut ids = Ids::default();
        let mut document = |record: file::Record<'_>| -> Result<Document, DataError> {
            ids.check(&record)?;
            let id = record.optional("id").filter(|id| id.is_string() || id.is_number()).cloned();
            let is_prompted = takes_prompts
                && record.optional(TEXT_FIELD).is_none()
                && record.optional("prompt").is_some();
            if is_prompted {
                let prompt = record.string("prompt")?;
                let text = format!("{prompt}{}", record.string("completion")?);
                return Ok(Document { text, line: record.line, id, given: prompt.len() });
            }
            let text = record.text_of(field.unwrap_or(TEXT_FIELD))?;
            Ok(Document { id, ..Document::new(text, record.line) })
        };
        let content = file::content(path, bytes)?;
        let documents = match format {
            Format::Text => {
                vec![Document::new(file::decode(path, &content)?, 1)]
            }
            Format::Jsonl => file::records(path, file::decode(path, &content)?)
                .map(|record| document(record?))
                .collect::<Result<_, DataError>>()?,
            Format::Columns(format) => rows(path, &content, format, field)?
                .into_iter()
                .map(|row| document(file::Record::of_row(path, row.line, row.fields)))
                .collect::<Result<_, DataError>>()?,
        };
        if documents.is_empty() {
            return Err(DataError::NoRecords { path: path.to_owned(), what: "documents" });
        }
        if let Some(empty) = documents.iter().find(|d| d.text.trim().is_empty()) {
            return Err(DataError::EmptyText { path: path.to_owned(), line: empty.line });
        }
        Ok(Self { path: path.to_owned(), sha256: linwright_run::sha256_hex(bytes), documents })
    }
}

/// Rows of a table. An object with the text is a row, even if it has lists.
fn rows(
    path: &Path,
    content: &[u8],
    format: TableFormat,
    field: Option<&str>,
) -> Result<Vec<Row>, DataError> {
    if format == TableFormat::Json {
        let text = file::decode(path, content)?;
        let one = serde_json::from_str::<Fields>(text).ok();
        let is_document = |fields: &Fields| fields.contains_key(field.unwrap_or(TEXT_FIELD));
        if let Some(fields) = one.filter(is_document) {
            return Ok(vec![Row { fields, line: 1 }]);
        }
    }
    Ok(Table::from_bytes(path, content, format, None)?.rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jsonl(bytes: &[u8]) -> Result<Corpus, DataError> {
        Corpus::from_bytes(Path::new("t.jsonl"), bytes, Format::Jsonl, None)
    }

    fn plain(name: &str, bytes: &[u8]) -> Result<Corpus, DataError> {
        Corpus::from_bytes(Path::new(name), bytes, Format::Text, None)
    }

    #[test]
    fn a_text_file_is_one_document_and_jsonl_one_a_line() {
        let text = plain("a.txt", b"one\n\ntwo\n").unwrap();
        assert_eq!(text.documents.len(), 1);
        assert_eq!(text.documents[0].text, "one\n\ntwo\n");
        let lines = jsonl("\u{feff}{\"text\":\"a\"}\r\n\n{\"text\":\"b\",\"id\":3}\n".as_bytes());
        let documents = lines.unwrap().documents;
        assert_eq!(
            documents.iter().map(|d| (d.text.as_str(), d.line)).collect::<Vec<_>>(),
            [("a", 1), ("b", 3)]
        );
        assert_eq!(text.sha256, "ca48018cd69ec26f9206d26f99b5019ba6075d5482c587a072361987ae3179dd");
    }

    #[test]
    fn ids_are_kept_and_queries_may_be_prompts_with_completions() {
        let text = "{\"id\":7,\"text\":\"a\"}\n{\"id\":\"x\",\"text\":\"b\"}\n{\"id\":[1],\"text\":\"c\"}\n";
        let found = jsonl(text.as_bytes()).unwrap().documents;
        let ids: Vec<Option<Value>> = found.into_iter().map(|document| document.id).collect();
        assert_eq!(ids, [Some(7.into()), Some("x".into()), None]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.jsonl");
        let lines =
            "{\"prompt\":\"Ada lives in\",\"completion\":\" Ashport\"}\n{\"text\":\"whole\"}\n";
        std::fs::write(&path, lines).unwrap();
        let found = Corpus::open_queries(&path, None).unwrap().documents;
        let parts: Vec<(&str, usize)> = found.iter().map(|d| (d.text.as_str(), d.given)).collect();
        assert_eq!(parts, [("Ada lives in Ashport", 12), ("whole", 0)]);
        // Elsewhere a prompt is not text.
        assert!(Corpus::open(&path, None).is_err());
        assert!(Corpus::open_queries(&path, Some("text")).is_err());
    }

    #[test]
    fn every_fault_names_file_and_line() {
        let cases: [(&[u8], &str); 10] = [
            (b"{\"text\":\"a\"}\n{\"text\": ", "t.jsonl, line 2: not valid JSON"),
            (
                b"{\"txt\":\"a\"}",
                "line 1: field `text` is missing; the fields are [\"txt\"]; for `txt` give --text-field",
            ),
            (b"{\"text\":7}", "line 1: field `text` is a number, expected a string"),
            (b"[1]", "line 1: expected an object {...}, found an array"),
            (b"{\"text\":\"a\"}\n{\"text\":\"\xff\"}", "line 2: byte 22 of the file is not UTF-8"),
            (b"{\"text\":\"a\"}\n{\"text\":\" \"}", "line 2: the text is empty"),
            (
                b"{\"text\":\"a\",\"id\":7}\n\n{\"text\":\"b\",\"id\":7}",
                "t.jsonl, line 3: id 7 already occurs in line 1",
            ),
            (b"", "t.jsonl has no documents"),
            (b"\n\n", "t.jsonl has no documents"),
            (b"{\"text\":\"a\"} x", "line 1: not valid JSON: trailing characters (column 14)"),
        ];
        for (bytes, want) in cases {
            let message = jsonl(bytes).unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
        let empty = plain("e.txt", b" \n").unwrap_err();
        assert!(empty.to_string().contains("e.txt, line 1: the text is empty"));
    }

    #[test]
    fn the_text_may_stand_in_any_field_of_any_form_of_rows() {
        for (name, bytes) in [
            ("t.jsonl", "{\"content\":\"one, two\",\"text\":\"not this\"}"),
            ("t.csv", "id,content\n7,\"one, two\"\n"),
            ("t.tsv", "id\tcontent\n7\tone, two\n"),
            ("t.txt", "one, two"),
        ] {
            let path = Path::new(name);
            let format = Format::of(path);
            let read = Corpus::from_bytes(path, bytes.as_bytes(), format, Some("content"));
            assert_eq!(read.unwrap().documents[0].text, "one, two", "{name}");
        }
        let csv = "id,content\n7,\"one, two\"\n";
        let (path, format) = (Path::new("t.csv"), Format::Columns(TableFormat::Csv));
        let error = Corpus::from_bytes(path, csv.as_bytes(), format, None).unwrap_err();
        let want = "t.csv, line 2: field `text` is missing; the fields are [\"id\", \"content\"]; for \
                    `content` give --text-field";
        assert!(error.to_string().starts_with(want), "{error}");
    }

    #[test]
    fn the_field_that_was_probably_meant_is_suggested() {
        for (line, field, want) in [
            // A name with a small edit distance precedes longer text.
            ("{\"content\":\"a\",\"note\":\"much longer\"}", "contnet", Some("`content`")),
            // Otherwise the field with most text; numbers and lists do not count.
            ("{\"url\":\"a.b\",\"doc\":\"much longer\",\"n\":123456789012}", "text", Some("`doc`")),
            ("{\"n\":1,\"list\":[\"a\"]}", "text", None),
            ("{}", "text", None),
        ] {
            let (path, bytes) = (Path::new("t.jsonl"), line.as_bytes());
            let error = Corpus::from_bytes(path, bytes, Format::Jsonl, Some(field)).unwrap_err();
            let DataError::NoText { field: asked, likely, .. } = &error else { panic!("{error}") };
            assert_eq!(asked, field);
            assert_eq!(likely.as_deref().map(|name| format!("`{name}`")).as_deref(), want);
            let said = error.to_string();
            assert!(
                want.map_or(said.contains("none of them"), |want| said.contains(want)),
                "{said}"
            );
        }
    }

    #[test]
    fn the_name_says_the_format_in_any_case_and_before_gzip() {
        for (name, format) in [
            ("a.JSONL", Format::Jsonl),
            ("a.ndjson", Format::Jsonl),
            ("a.CSV", Format::Columns(TableFormat::Csv)),
            ("a.tsv", Format::Columns(TableFormat::Tsv)),
            ("a", Format::Text),
            ("a.json", Format::Columns(TableFormat::Json)),
            ("c4-train.00000-of-01024.json.gz", Format::Columns(TableFormat::Json)),
            ("a.txt.gz", Format::Text),
            ("a.jsonl.GZ", Format::Jsonl),
            ("a.gz", Format::Text),
            ("gz", Format::Text),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }

    fn gzip(text: &str) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn texts_in_gzip_and_in_json_are_those_without() {
        let line = "{\"text\": \"one\", \"url\": \"x\"}\n{\"text\": \"two\", \"url\": \"y\"}\n";
        for (name, text, expected) in [
            ("a.txt", "one\ntwo\n", &["one\ntwo\n"][..]),
            ("a.jsonl", line, &["one", "two"]),
            ("a.json", line, &["one", "two"]),
            ("a.json", "[{\"text\": \"one\"}, {\"text\": \"two\"}]", &["one", "two"]),
            ("a.json", "{\"data\": [{\"text\": \"one\"}]}", &["one"]),
            ("a.json", "{\"text\": \"one\",\n \"parts\": [{\"text\": \"no\"}]}", &["one"]),
            ("a.csv", "id,text\n1,one\n", &["one"]),
        ] {
            let packed = format!("{name}.gz");
            let both = [(name, text.as_bytes().to_vec()), (packed.as_str(), gzip(text))];
            for (name, bytes) in both {
                let path = Path::new(name);
                let read = Corpus::from_bytes(path, &bytes, Format::of(path), None).unwrap();
                let texts: Vec<&str> = read.documents.iter().map(|d| d.text.as_str()).collect();
                assert_eq!(texts, expected, "{name}");
                assert_eq!(read.sha256, linwright_run::sha256_hex(&bytes), "that of the file");
            }
        }
        for (bytes, want) in [
            (gzip("{\"txt\": \"a\"}"), "t.jsonl, line 1: field `text` is missing"),
            (gzip(&"a".repeat(5 << 20)), "in gzip become more than 4194304"),
            (gzip("text")[..8].to_vec(), "t.jsonl: the file is damaged as gzip"),
            (b"\x28\xb5\x2f\xfd\xff".to_vec(), "t.jsonl is compressed as Zstandard, expected"),
            (b"BZh9\xff".to_vec(), "bzip2"),
            (b"PK\x03\x04\xff".to_vec(), "a zip archive"),
        ] {
            let message = jsonl(&bytes).unwrap_err().to_string();
            assert!(message.contains(want), "{message:?} lacks {want:?}");
        }
        assert_eq!(plain("a.txt", b"BZh is text").unwrap().documents.len(), 1);
    }

    #[test]
    fn a_directory_or_a_missing_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let message = Corpus::open(folder.path(), None).unwrap_err().to_string();
        assert!(message.contains("is a directory"), "{message}");
        let message = Corpus::open(&folder.path().join("no.txt"), None).unwrap_err().to_string();
        assert!(message.contains("cannot read") && message.contains("no.txt"), "{message}");
    }
}
