//! Sums of several parts of the data, added.

pub(crate) mod result;

use self::result::CollapseMerged;
use crate::jobs::collapse::options::{
    CollapseOptions, Files, detail_notes, finish, is_sums, written_sums,
};
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, outputs};
use linwright_collapse::{ClassSums, FeatureFile, HeadRef, LayerReport};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Sums of parts of the data, merged into those of all data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseMerge {
    /// Files that `collapse measure --save-sums` or `collapse merge` wrote.
    #[schemars(extend("x-positional" = true, "x-path" = true, "x-whole" = true))]
    pub sums: Vec<PathBuf>,
    /// A file with `head` and `bias`.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub head: Option<PathBuf>,
    /// Additions to the metrics.
    #[serde(flatten)]
    pub options: CollapseOptions,
    /// Write the merged sums to this file.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing file.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Job for CollapseMerge {
    const VERB: &str = "collapse-merge";
    const ABOUT: &str = "Add sums over parts of the data, and measure collapse of all of them.\n\n\
        The result has the bits of one pass over all rows, in any order of the parts; with more \
        than 256 features, if all parts but the last have a multiple of 256 rows.";
    const OUTPUT_ENDING: &str = ".safetensors";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<CollapseMerged>()];

    fn inputs(&self) -> Vec<PathBuf> {
        self.sums.iter().chain(&self.head).cloned().collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if let Some(path) = &self.output {
            let inputs = outputs::inputs_of(self, session);
            outputs::file(path, self.force, &inputs, session, is_sums)?;
        }
        let mut all: Option<ClassSums> = None;
        for path in &self.sums {
            session.step(&format!("reading {}", path.display()));
            let sums = ClassSums::read(path)?;
            match &mut all {
                None => all = Some(sums),
                Some(all) => all.merge(&sums).map_err(|error| {
                    Failure::usage(format!("{}: {error}", path.display()))
                        .hint("merge sums of one layer with the same number of classes")
                })?,
            }
        }
        let Some(sums) = all else {
            return Err(Failure::usage("nothing to merge").hint("give files of sums"));
        };
        let head = match &self.head {
            Some(path) => Some(FeatureFile::head_alone(path)?),
            None => None,
        };
        let head = head.as_ref().map(|(rows, bias)| HeadRef { rows, bias: bias.as_deref() });
        let options = self.options.of_layer(sums.keep());
        let written = match self.output.as_deref() {
            Some(path) => Some((path, written_sums(&sums, path, self.force)?)),
            None => None,
        };
        let statistics = sums.finish()?;
        let layer = LayerReport::of("features", &statistics, None, head, options, session)?;
        session.finish();
        let parts = self.sums.iter().map(|path| session.portable(path)).collect();
        let files = Files { result: None, sums: written, force: self.force };
        let result = CollapseMerged { parts, layers: vec![layer] };
        detail_notes(&result.layers, session);
        finish(result, files, session)
    }
}
