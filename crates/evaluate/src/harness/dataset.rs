//! Data of a task: the files of its splits.
//!
//! As in the harness, `dataset_path` is `json`, `csv`, `text`, `parquet` or `arrow` with
//! `data_files` in `dataset_kwargs`: a file, a list of files, or a map from splits to either;
//! without splits, all files are the split `train`. In a folder, the files whose names begin with
//! that of the split are its data. Paths are relative to the working directory or, if there is no
//! such file, to the folder of the task file. Any other name is that of a data set on the hub,
//! which a [`SetSource`] finds. A [`DataFile`] of the caller overrides all of this; one of the
//! group of a task, such as `mmlu`, has the rows of all its tasks.

use super::description::TaskFile;
use super::functions::{Function, Kind};
use super::prompt::Located;
use super::subject::{self, Part};
use crate::canonical_task;
use crate::{DataUsed, EvaluationError};
use linwright_data::sets::{SetError, SetQuery, SetSource};
use linwright_data::{DataError, Row, Table, TableFormat};
use linwright_run::{sha256_hex, shown};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

/// A data file given by the caller for a split of a task: `TASK=FILE` or `TASK:SPLIT=FILE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DataFile {
    /// The task.
    pub task: String,
    /// The split; by default the scored one.
    pub split: Option<String>,
    /// The file.
    pub path: PathBuf,
}

impl TryFrom<String> for DataFile {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for DataFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected TASK=FILE or TASK:SPLIT=FILE";
        let (name, path) = text.split_once('=').ok_or(expected)?;
        let (task, split) = match name.split_once(':') {
            Some((task, split)) => (task, Some(split.to_owned())),
            None => (name, None),
        };
        if task.is_empty() || path.is_empty() || split.as_deref() == Some("") {
            return Err(expected.to_owned());
        }
        Ok(Self { task: canonical_task(task).to_owned(), split, path: PathBuf::from(path) })
    }
}

impl From<DataFile> for String {
    fn from(data: DataFile) -> Self {
        let split = data.split.map_or_else(Self::new, |split| format!(":{split}"));
        format!("{}{split}={}", data.task, data.path.display())
    }
}

/// Documents of one split.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Split {
    pub(super) documents: Vec<Located>,
    /// SHA-256 of its file, or of the digests of its files.
    pub(super) sha256: String,
    pub(super) files: Vec<DataUsed>,
    /// Notes for the report.
    pub(super) notes: Vec<String>,
}

/// A file of a split with its format.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    format: TableFormat,
    /// The field with its rows, if it is one JSON object.
    field: Option<String>,
    /// The rows of the task, if it has those of other tasks, too.
    part: Option<Part>,
}

/// Files of a split with their formats.
#[derive(Debug, Default)]
struct Sources {
    files: Vec<Source>,
    /// Data set and commit of origin.
    origin: Option<String>,
    /// Total number of rows, if known.
    rows: Option<u64>,
    notes: Vec<String>,
}

impl From<Vec<Source>> for Sources {
    fn from(files: Vec<Source>) -> Self {
        Self { files, ..Self::default() }
    }
}

/// Reads the splits of one task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dataset<'a> {
    pub(super) file: &'a TaskFile,
    pub(super) given: &'a [DataFile],
    pub(super) sets: Option<&'a dyn SetSource>,
    /// The split to score.
    pub(super) scored: &'a str,
    /// Files that other tasks read, too.
    pub(super) shared: &'a SharedFiles,
}

/// Files with the rows of many tasks, each read once.
#[derive(Debug, Default)]
pub(super) struct SharedFiles(RefCell<BTreeMap<PathBuf, Rc<Table>>>);

impl SharedFiles {
    fn open(&self, path: &Path, format: TableFormat) -> Result<Rc<Table>, EvaluationError> {
        if let Some(table) = self.0.borrow().get(path) {
            return Ok(Rc::clone(table));
        }
        let table = Rc::new(Table::open(path, format, None)?);
        self.0.borrow_mut().insert(path.to_owned(), Rc::clone(&table));
        Ok(table)
    }
}

impl Dataset<'_> {
    /// Documents of a split, each changed by `process_docs`.
    pub(super) fn split(
        &self,
        name: &str,
        process: Option<&Function>,
    ) -> Result<Split, EvaluationError> {
        let sources = self.sources(name)?;
        let mut split = Split { notes: sources.notes, ..Split::default() };
        let mut hashes = Vec::new();
        for Source { path, format, field, part } in sources.files {
            let shown = path.display().to_string();
            let place = |line| format!("{shown}, {} {line}", format.place());
            let sha256 = match &part {
                None => {
                    let table = Table::open(&path, format, field.as_deref())?;
                    split.notes.extend(table.repeated_ids(format));
                    let located = |row: Row| Located { place: place(row.line), fields: row.fields };
                    split.documents.extend(table.rows.into_iter().map(located));
                    table.sha256
                }
                Some(part) => {
                    let table = self.shared.open(&path, format)?;
                    split.documents.extend(self.rows_of(part, &table, &place)?);
                    table.sha256.clone()
                }
            };
            let path = match &sources.origin {
                None => shown,
                Some(origin) => {
                    let file = path.file_name().unwrap_or_default().to_string_lossy();
                    format!("{origin}/{file}")
                }
            };
            hashes.push(sha256.clone());
            split.files.push(DataUsed { split: name.to_owned(), path, sha256 });
        }
        let found = split.documents.len();
        if let Some(expected) = sources.rows.filter(|&rows| rows != found as u64) {
            let origin = sources.origin.unwrap_or_default();
            return Err(self.file.wrong(format!(
                "split {name} of {origin} should have {expected} rows and has {found}; remove it \
                 from the cache, or give its rows with --data"
            )));
        }
        split.sha256 = match hashes.as_slice() {
            [one] => one.clone(),
            several => sha256_hex(several.concat().as_bytes()),
        };
        if let Some(function) = process {
            split.documents = self.processed(split.documents, function)?;
        }
        Ok(split)
    }

    /// The rows of a task in a file with those of its whole group.
    fn rows_of(
        &self,
        part: &Part,
        table: &Table,
        place: &dyn Fn(usize) -> String,
    ) -> Result<Vec<Located>, EvaluationError> {
        let Part { group, column, value } = part;
        let task = &self.file.description.task;
        let mut rows = Vec::new();
        for row in &table.rows {
            let own = row.fields.get(*column).and_then(Value::as_str);
            let own = own.ok_or_else(|| EvaluationError::Document {
                place: place(row.line),
                task: task.clone(),
                field: (*column).to_owned(),
                reason: format!(
                    "is missing, or not text; it names the subject of each row of {group}, and \
                     rows without it are given subject by subject: --data {task}=FILE"
                ),
            })?;
            if own == value {
                rows.push(Located { fields: row.fields.clone(), place: place(row.line) });
            }
        }
        if rows.is_empty() {
            return Err(self.file.wrong(format!(
                "{} has no row with {column} \"{value}\"; name the tasks of its subjects instead \
                 of {group}, or give this one with --data {task}=FILE",
                table.path.display()
            )));
        }
        Ok(rows)
    }

    /// As [`Self::split`], for the first of training, validation and test that has data. Splits
    /// with data from the caller are not searched for elsewhere.
    pub(super) fn split_to_learn_from(
        &self,
        process: Option<&Function>,
    ) -> Result<Split, EvaluationError> {
        let d = &self.file.description;
        let names = [&d.training_split, &d.validation_split, &d.test_split];
        let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
        if let Some(given) = names.iter().find(|name| !self.given(name).is_empty()) {
            return self.split(given, process);
        }
        let mut missing = None;
        for name in names {
            match self.sources(name) {
                Ok(_) => return self.split(name, process),
                // If several are missing, the first is reported.
                Err(error) => missing = missing.or(Some(error)),
            }
        }
        Err(missing.unwrap_or_else(|| self.file.wrong("there is no split to learn from")))
    }

    /// Files passed by the caller for a split: of the task, or else of the group whose subjects are
    /// tasks, with the rows of this one.
    fn given(&self, split: &str) -> Vec<(&DataFile, Option<Part>)> {
        let task = &self.file.description.task;
        let of = |name: &str| -> Vec<&DataFile> {
            let is_own = |data: &&DataFile| {
                data.task == name && data.split.as_deref().unwrap_or(self.scored) == split
            };
            self.given.iter().filter(is_own).collect()
        };
        let own = of(task);
        match subject::part(task).filter(|_| own.is_empty()) {
            None => own.into_iter().map(|data| (data, None)).collect(),
            Some(part) => {
                of(part.group).into_iter().map(|data| (data, Some(part.clone()))).collect()
            }
        }
    }

    /// Documents after `process_docs`.
    fn processed(
        &self,
        mut documents: Vec<Located>,
        function: &Function,
    ) -> Result<Vec<Located>, EvaluationError> {
        let bad = |place: &str, reason| EvaluationError::Document {
            place: place.to_owned(),
            task: self.file.description.task.clone(),
            field: "process_docs".into(),
            reason,
        };
        match function.kind {
            Kind::Document(change) => {
                for document in &mut documents {
                    document.fields =
                        change(&document.fields).map_err(|reason| bad(&document.place, reason))?;
                }
                Ok(documents)
            }
            Kind::Rows(field, wanted) => {
                let mut kept = Vec::new();
                for document in documents {
                    let value = document.fields.get(field).and_then(Value::as_str);
                    let value = value.ok_or_else(|| {
                        bad(&document.place, format!("the field {field} is missing, or not text"))
                    })?;
                    if value == wanted {
                        kept.push(document);
                    }
                }
                Ok(kept)
            }
            Kind::Lines(count, make) => {
                let of = |lines: &[Located]| {
                    let place = &lines[0].place;
                    let texts: Vec<&str> =
                        lines.iter().filter_map(|l| l.fields.get("text")?.as_str()).collect();
                    if texts.len() < count {
                        let reason = format!(
                            "a document has {count} lines of text, this one {}",
                            texts.len()
                        );
                        return Err(bad(place, reason));
                    }
                    let fields = make(&texts).map_err(|reason| bad(place, reason))?;
                    Ok(Located { fields, place: place.clone() })
                };
                documents.chunks(count).map(of).collect()
            }
            Kind::Field(_) | Kind::Results(_) | Kind::Answer(_) | Kind::Aggregation(_) => {
                let reason = format!("!function {} does not change documents", function.name);
                Err(self.file.wrong(reason))
            }
        }
    }

    /// Files of a split with their formats, and the field with their rows.
    fn sources(&self, split: &str) -> Result<Sources, EvaluationError> {
        let d = &self.file.description;
        let given = self.given(split).into_iter();
        let given =
            given.map(|(data, part)| Ok(Source { part, ..self.source(data.path.clone())? }));
        let given: Vec<Source> = given.collect::<Result<_, EvaluationError>>()?;
        if !given.is_empty() {
            return Ok(given.into());
        }
        let options = d.dataset_kwargs.as_ref();
        let option = |name: &str| options.and_then(|options| options.get(name));
        let field = option("field").and_then(Value::as_str).map(str::to_owned);
        let format = match d.dataset_path.as_deref() {
            Some("json") => TableFormat::Json,
            Some("csv") => match option("sep").or(option("delimiter")).and_then(Value::as_str) {
                None | Some(",") => TableFormat::Csv,
                Some("\t") => TableFormat::Tsv,
                Some(other) => {
                    return Err(self
                        .file
                        .wrong(format!("sep is \"{}\", expected , or a tab", shown(other))));
                }
            },
            Some("text") => TableFormat::Text,
            Some("parquet") => TableFormat::Parquet,
            Some("arrow") => TableFormat::Arrow,
            Some(folder) if self.located(folder).is_dir() => {
                return Ok(self.in_folder(&self.located(folder), split)?.into());
            }
            other => return self.of_set(other, split),
        };
        let files = option("data_files");
        let files = files.ok_or_else(|| self.file.wrong("dataset_kwargs has no data_files"))?;
        let paths = self.paths(files, split)?;
        let files: Vec<Source> = paths
            .into_iter()
            .map(|path| Source { path, format, field: field.clone(), part: None })
            .collect();
        Ok(files.into())
    }

    /// Files of a split of a named data set.
    fn of_set(&self, name: Option<&str>, split: &str) -> Result<Sources, EvaluationError> {
        let d = &self.file.description;
        let revision = d.dataset_kwargs.as_ref().and_then(|options| options.get("revision"));
        let config = match &d.dataset_name {
            None | Some(Value::Null) => None,
            Some(Value::String(config)) => Some(config.clone()),
            Some(other) => Some(other.to_string()),
        };
        let query = SetQuery {
            set: name.unwrap_or_default(),
            config: config.as_deref(),
            split,
            revision: revision.and_then(Value::as_str),
        };
        let failed = |source: SetError| EvaluationError::Set {
            origin: self.file.origin.clone(),
            task: d.task.clone(),
            split: split.to_owned(),
            source: Box::new(source),
        };
        let set = match self.sets {
            None => None,
            Some(sets) => sets.find(&query).map_err(failed)?,
        };
        let Some(set) = set else {
            return Err(EvaluationError::NoRows {
                origin: self.file.origin.clone(),
                task: d.task.clone(),
                name: name.unwrap_or("none").to_owned(),
                split: split.to_owned(),
            });
        };
        let files: Result<Vec<Source>, EvaluationError> =
            set.files.into_iter().map(|path| self.source(path)).collect();
        Ok(Sources { files: files?, origin: Some(set.origin), rows: set.rows, notes: set.notes })
    }

    fn paths(&self, files: &Value, split: &str) -> Result<Vec<PathBuf>, EvaluationError> {
        let list = match files {
            Value::Object(splits) => splits.get(split).ok_or_else(|| {
                let known: Vec<&str> = splits.keys().map(String::as_str).collect();
                let known = known.join(", ");
                self.file.wrong(format!("data_files has no split {split}; there are {known}"))
            })?,
            _ if split != "train" => {
                return Err(self.file.wrong(format!(
                    "data_files has no splits, so all files are the split train; write \
                     {{{split}: ...}}"
                )));
            }
            list => list,
        };
        let one = |value: &Value| match value.as_str() {
            Some(path) => Ok(self.located(path)),
            None => Err(self.file.wrong(format!(
                "data_files contains {}, expected a path",
                shown(&value.to_string())
            ))),
        };
        match list {
            Value::Array(several) => several.iter().map(one).collect(),
            single => Ok(vec![one(single)?]),
        }
    }

    /// A path, relative to the folder of the task file if it does not exist.
    fn located(&self, path: &str) -> PathBuf {
        let own = Path::new(path);
        if own.exists() { own.to_owned() } else { self.file.folder.join(own) }
    }

    /// Files in a folder whose names begin with that of a split.
    fn in_folder(&self, folder: &Path, split: &str) -> Result<Vec<Source>, EvaluationError> {
        let failed = |source| DataError::Read { path: folder.to_owned(), source };
        let mut files = Vec::new();
        for folder in [folder.to_owned(), folder.join("data")] {
            if !folder.is_dir() {
                continue;
            }
            for entry in folder.read_dir().map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let rest = name.strip_prefix(split);
                let is_of_split = rest.is_some_and(|rest| rest.starts_with(['.', '-']));
                if is_of_split && TableFormat::of(&path).is_some() {
                    files.push(path);
                }
            }
        }
        files.sort();
        if files.is_empty() {
            let shown = folder.display();
            let extensions = TableFormat::extensions(|_| true);
            return Err(self.file.wrong(format!("{shown} has no file {split}{extensions}")));
        }
        files.into_iter().map(|path| self.source(path)).collect()
    }

    /// A file with the format of its extension.
    fn source(&self, path: PathBuf) -> Result<Source, EvaluationError> {
        Ok(Source { format: self.format(&path)?, path, field: None, part: None })
    }

    fn format(&self, path: &Path) -> Result<TableFormat, EvaluationError> {
        TableFormat::of(path).ok_or_else(|| {
            let (shown, extensions) = (path.display(), TableFormat::extensions(|_| true));
            self.file.wrong(format!("{shown}: expected a {extensions} file"))
        })
    }
}
