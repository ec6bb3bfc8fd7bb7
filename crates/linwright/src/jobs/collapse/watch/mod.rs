//! Results of several checkpoints, as one table.

mod result;

use self::result::CollapseWatched;
use crate::jobs::collapse::lm::result::CollapseOfModel;
use crate::jobs::collapse::measure::result::CollapseMeasured;
use crate::jobs::collapse::merge::result::CollapseMerged;
use crate::jobs::collapse::options::{check_result, read_json};
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, outputs};
use linwright_collapse::report::CheckpointRow;
use linwright_report::{Report, ReportKind, read_saved};
use linwright_run::shown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

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
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<CollapseWatched>()];

    fn inputs(&self) -> Vec<PathBuf> {
        self.results.clone()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let inputs = outputs::inputs_of(self, session);
        check_result(self.output.as_deref(), self.force, &inputs, session)?;
        let mut rows: Vec<CheckpointRow> = Vec::new();
        for path in &self.results {
            for row in rows_of(path)? {
                let same = |other: &CheckpointRow| {
                    (&other.checkpoint, &other.layer) == (&row.checkpoint, &row.layer)
                };
                if rows.iter().any(same) {
                    let name = shown(&row.checkpoint);
                    return Err(Failure::usage(format!("checkpoint {name} is there twice"))
                        .hint("give each result once, in files of different names"));
                }
                rows.push(row);
            }
        }
        let result = CollapseWatched { rows };
        if let Some(path) = &self.output {
            outputs::write_report(path, &result, self.force)?;
        }
        Ok(Outcome::of(result))
    }
}

/// A row for each layer of a result, or the rows of an earlier table.
fn rows_of(path: &Path) -> Result<Vec<CheckpointRow>, Failure> {
    let wrong = || {
        Failure::general(format!("{}: not a result of collapse", path.display()))
            .hint("give what `linwright collapse measure -o FILE` wrote")
    };
    let saved = read_json(path, "collapse")?;
    let layers = match saved.get("kind").and_then(Value::as_str) {
        Some(CollapseWatched::KIND) => return Ok(read_saved::<CollapseWatched>(saved)?.rows),
        Some(CollapseMeasured::KIND) => read_saved::<CollapseMeasured>(saved)?.layers,
        Some(CollapseOfModel::KIND) => read_saved::<CollapseOfModel>(saved)?.layers,
        Some(CollapseMerged::KIND) => read_saved::<CollapseMerged>(saved)?.layers,
        _ => return Err(wrong()),
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(layers.into_iter().map(|layer| CheckpointRow::of(&name, layer)).collect())
}
