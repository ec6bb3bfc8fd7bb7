//! Files that pyarrow wrote (`tools/golden/columns.py`), whole and damaged.

use linwright_data::{Corpus, DataError, QuestionSet, Row, Table, TableFormat};
use linwright_tensor::RngKey;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const WHOLE: [&str; 4] = ["rows.parquet", "rows_zstd.parquet", "rows.arrow", "rows_file.arrow"];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/columns").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

fn read(name: &str, bytes: &[u8]) -> Result<Vec<Row>, DataError> {
    let format = TableFormat::of(Path::new(name)).unwrap();
    Table::from_bytes(Path::new(name), bytes, format, None).map(|table| table.rows)
}

#[test]
fn rows_are_those_that_python_sees() {
    let want: Vec<Value> = serde_json::from_slice(&bytes("rows.json")).unwrap();
    for name in WHOLE {
        let rows = read(name, &bytes(name)).unwrap();
        let lines: Vec<usize> = rows.iter().map(|row| row.line).collect();
        assert_eq!(lines, [1, 2, 3, 4], "{name}");
        let found: Vec<Value> = rows.into_iter().map(|row| row.fields.into()).collect();
        assert_eq!(found, want, "{name}");
    }
}

#[test]
fn texts_and_questions_may_be_columns() {
    let name = path("cache/owner___BoatQuestions");
    assert!(!name.exists(), "folders are in snake case");
    let folder = "cache/owner___boat_questions/Easy/0.0.0/0123456789abcdef0123456789abcdef01234567";
    let file = path(&format!("{folder}/boat_questions-test.arrow"));
    let table = Table::open(&file, TableFormat::Arrow, None).unwrap();
    assert_eq!(
        Value::Object(table.rows[3].fields.clone()),
        json!({"id": "q3", "question": "Who saw boat 3?", "answer": 1})
    );
    let error = QuestionSet::open(&file).unwrap_err().to_string();
    assert!(error.contains("line 1: field `choices` is missing"), "{error}");
    let error = Corpus::open(&path("rows.parquet"), None).unwrap_err().to_string();
    assert!(error.contains("line 1: field `text` is missing"), "{error}");
    let corpus = Corpus::open(&file, Some("question")).unwrap();
    assert_eq!(corpus.documents[3].text, "Who saw boat 3?");
}

#[test]
fn what_is_not_such_a_file_is_said() {
    let parquet = bytes("rows.parquet");
    let arrow = bytes("rows.arrow");
    let file = bytes("rows_file.arrow");
    for (name, bytes, want) in [
        ("a.parquet", &b"{\"a\": 1}"[..], "a.parquet cannot be read as Parquet"),
        ("a.parquet", &parquet[..parquet.len() - 1], "does not begin and end with PAR1"),
        ("a.parquet", b"PAR1PAR1", "does not begin and end"),
        ("a.parquet", b"PAR1\xff\xff\xff\x7fPAR1", "cannot be read as Parquet"),
        ("a.arrow", &arrow[..arrow.len() - 60], "cannot be read as Arrow"),
        ("a.arrow", &arrow[..100], "cannot be read as Arrow"),
        ("a.arrow", b"", "it ends before its schema"),
        ("a.arrow", b"{\"a\": 1}", "cannot be read as Arrow"),
        ("a.arrow", &file[..file.len() - 8], "does not end with its magic number"),
        ("a.arrow", b"ARROW1", "does not end with its magic number"),
        ("a.parquet", &arrow, "another format"),
    ] {
        let error = read(name, bytes).unwrap_err().to_string();
        assert!(error.contains(want), "{error:?} lacks {want:?}");
    }
    let error = read("a.parquet", &bytes("rows_gzip.parquet")).unwrap_err().to_string();
    assert!(error.to_lowercase().contains("gzip"), "{error}");
}

#[test]
fn a_small_file_of_many_rows_stays_small() {
    let bytes = bytes("swelling.parquet");
    assert!(bytes.len() < 1000, "60,000 rows of 32,000 bytes");
    let error = read("a.parquet", &bytes).unwrap_err();
    assert!(matches!(error, DataError::RowsTooLarge { .. }), "{error}");
}

/// Damages files at random; nothing but an error may come of it. How often the last resort was
/// needed is known, so that it does not become the first.
#[test]
fn damaged_files_are_errors() {
    let mut stream = RngKey::new(11).fold("columns").stream();
    let mut panics = 0;
    for name in WHOLE {
        let whole = bytes(name);
        for _ in 0..400 {
            let mut damaged = whole.clone();
            match stream.below(3) {
                0 => damaged.truncate(stream.below(whole.len())),
                1 => {
                    let at = stream.below(whole.len());
                    damaged[at] ^= 1 << stream.below(8);
                }
                _ => {
                    let at = stream.below(whole.len() - 4);
                    let value = [u32::MAX, i32::MAX as u32, 0, 1 << 20][stream.below(4)];
                    damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
                }
            }
            if let Err(error) = read(name, &damaged) {
                panics += usize::from(error.to_string().contains("is inconsistent"));
            }
        }
    }
    assert!(panics <= 1600 / 20, "{panics} of 1600 damaged files were left to the last resort");
}
