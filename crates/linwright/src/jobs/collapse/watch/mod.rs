//! Results of several checkpoints, as one table.

use crate::jobs::collapse::options::{check_result, reported};
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, outputs};
use linwright_collapse::report;
use linwright_run::{input, shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Largest result, in bytes.
const RESULT_BYTES: u64 = 1 << 28;

/// Collapse over the checkpoints of a training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseWatch {
    /// Results of `collapse measure` or `collapse lm`, or of an earlier `collapse watch`, whose
    /// rows come first; a checkpoint is named after its file, without the extension.
    #[schemars(extend("x-positional" = true, "x-path" = true, "x-whole" = true))]
    pub results: Vec<PathBuf>,
    /// Also write the result as JSON to this file, which `linwright report` renders.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing file.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Job for CollapseWatch {
    const VERB: &str = "collapse-watch";
    const ABOUT: &str = "Put the collapse of several checkpoints into one table, with plots over \
        checkpoints and layers.\n\n\
        Measure each checkpoint when it is written, and give all results, or the table so far and \
        the new one.";
    const OUTPUT_ENDING: &str = ".json";

    fn inputs(&self) -> Vec<PathBuf> {
        self.results.clone()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let inputs = outputs::inputs_of(self, session);
        check_result(self.output.as_deref(), self.force, &inputs, session)?;
        let mut rows: Vec<Value> = Vec::new();
        for path in &self.results {
            for row in rows_of(path)? {
                let same = |other: &Value| {
                    (&other["checkpoint"], &other["layer"]) == (&row["checkpoint"], &row["layer"])
                };
                if rows.iter().any(same) {
                    let name = row["checkpoint"].as_str().map(shown).unwrap_or_default();
                    return Err(Failure::usage(format!("checkpoint {name} is there twice"))
                        .hint("give each result once, in files of different names"));
                }
                rows.push(row);
            }
        }
        let result = json!({
            "schema": 1,
            "linwright": session.build().version,
            report::KEY: "watch",
            "rows": rows,
        });
        if let Some(path) = &self.output {
            outputs::write_result(path, &result, self.force)?;
        }
        Ok(reported(result))
    }
}

/// A row for each layer of a result, or the rows of an earlier table.
fn rows_of(path: &Path) -> Result<Vec<Value>, Failure> {
    let failed = |error: &std::io::Error| Failure::io(&path.display().to_string(), error);
    let text = input::read_text(path, RESULT_BYTES).map_err(|error| failed(&error))?;
    let wrong = || {
        Failure::general(format!("{}: not a result of collapse", path.display()))
            .hint("give what `linwright collapse measure -o FILE` wrote")
    };
    let value: Value = serde_json::from_str(&text).map_err(|_| wrong())?;
    match value[report::KEY].as_str() {
        Some("watch") => value["rows"].as_array().cloned().ok_or_else(wrong),
        Some("measure" | "lm" | "merge") => {
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            let layers = value["layers"].as_array().ok_or_else(wrong)?;
            let row = |layer: &Value| {
                json!({
                    "checkpoint": name,
                    "layer": layer["name"],
                    "features": layer["features"],
                    "metrics": layer["metrics"],
                })
            };
            Ok(layers.iter().map(row).collect())
        }
        _ => Err(wrong()),
    }
}
