//! Records of what made a result, by which `linwright reproduce` makes it again.

use super::inputs::InputHash;
use super::{Failure, Session};
use serde::Serialize;
use serde_json::{Map, Value};

/// A job and its inputs, as `reproduce.json` has them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JobRecord {
    job: Map<String, Value>,
    pub(crate) inputs: Vec<ModelInput>,
    data: Vec<InputHash>,
}

/// A model among the inputs of a job.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum ModelInput {
    /// The model that the job works on.
    Model { model: String, sha256: String },
    /// The base of an adapter, whose weights are read when they are needed.
    Base { base: String, config: String },
    /// An adapter that is merged.
    Adapter { adapter: String, sha256: String },
}

/// `reproduce.json`.
#[derive(Serialize)]
struct ReproduceFile<'a> {
    schema: u32,
    linwright: &'a str,
    #[serde(flatten)]
    record: &'a JobRecord,
}

/// `measured.json`.
#[derive(Serialize)]
pub(super) struct MeasuredFile<'a> {
    pub(super) machine: Machine<'a>,
    pub(super) measured: &'a Value,
}

/// What a job ran on.
#[derive(Serialize)]
pub(super) struct Machine<'a> {
    pub(super) commit: &'a str,
    pub(super) device: String,
    pub(super) threads: usize,
    pub(super) peak_resident_bytes: Option<u64>,
}

impl JobRecord {
    /// The job of a session, the models in `inputs`, and the data.
    pub(crate) fn new(session: &Session<'_>, inputs: Vec<ModelInput>) -> Self {
        Self { job: session.job().clone(), inputs, data: session.data().to_vec() }
    }

    /// Its fields.
    pub(crate) fn into_map(self) -> Result<Map<String, Value>, Failure> {
        let inputs = serde_json::to_value(self.inputs).map_err(|error| unwritable(&error))?;
        let data = serde_json::to_value(self.data).map_err(|error| unwritable(&error))?;
        let fields = [("job", Value::Object(self.job)), ("inputs", inputs), ("data", data)];
        Ok(fields.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
    }

    /// The file that it becomes.
    pub(super) fn file(&self, session: &Session<'_>) -> Result<(String, Vec<u8>), Failure> {
        let file = ReproduceFile { schema: 1, linwright: session.build().version, record: self };
        Ok(("reproduce.json".to_owned(), pretty(&file)?))
    }
}

/// Indented JSON, as files of results have it.
pub(super) fn pretty<T: Serialize>(value: &T) -> Result<Vec<u8>, Failure> {
    // Through a value, whose text is the same for numbers wherever it is written.
    let value = serde_json::to_value(value).map_err(|error| unwritable(&error))?;
    Ok(format!("{value:#}\n").into_bytes())
}

/// One line of JSON for each item.
pub(crate) fn lines<T: Serialize>(items: impl IntoIterator<Item = T>) -> Result<String, Failure> {
    let mut text = String::new();
    for item in items {
        let line = serde_json::to_value(item).map_err(|error| unwritable(&error))?;
        text += &format!("{line}\n");
    }
    Ok(text)
}

fn unwritable(error: &serde_json::Error) -> Failure {
    Failure::general(format!("cannot write the result as JSON: {error}"))
}
