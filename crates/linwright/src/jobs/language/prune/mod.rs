//! `linwright prune`: `compress` with a method that narrows a model.

use crate::jobs::kit::{Failure, Job, Outcome, Session};
use crate::jobs::language::compress::{self, Compress, MethodTerm};
use linwright_report::ReportKind;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::path::PathBuf;

/// Structured pruning of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Prune(pub Compress);

/// The method where none is given.
const METHOD: &str = "width";

impl Default for Prune {
    fn default() -> Self {
        Self(Compress { method: MethodTerm::named(METHOD), ..Compress::default() })
    }
}

impl<'de> Deserialize<'de> for Prune {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut options = Map::<String, Value>::deserialize(deserializer)?;
        options.entry("method").or_insert_with(|| METHOD.into());
        serde_json::from_value(options.into()).map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Prune {
    fn schema_name() -> Cow<'static, str> {
        "Prune".into()
    }

    /// The schema of `compress` with another standard method.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Compress::json_schema(generator);
        if let Some(Value::String(help)) = schema.pointer_mut("/properties/method/description") {
            *help = help.replace("[default: low_rank]", &format!("[default: {METHOD}]"));
        }
        schema
    }
}

impl Job for Prune {
    const VERB: &'static str = "prune";
    const ABOUT: &'static str = "Remove heads, features, residual dimensions or layers, and save a \
        smaller model that stock runtimes load.\n\n\
        The same as `linwright compress` with --method width, llm_pruner, slicegpt, drop_layers or \
        modegpt.";
    const WRITES_MODEL: bool = true;
    const RESULTS: &'static [ReportKind] = Compress::RESULTS;

    fn inputs(&self) -> Vec<PathBuf> {
        Job::inputs(&self.0)
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        compress::replacement::run(&self.0, self, session)
    }
}
