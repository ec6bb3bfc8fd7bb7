//! Statistics and spectra of tensors.

mod inspection;
mod slots;

use crate::jobs::kit::named::Names;
use crate::jobs::kit::{Division, Failure, Job, Outcome, OutputPath, Session, StatePath};
use linwright_measure::inspect::Inspection;
use linwright_measure::inspect::report::By;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A report on the tensors of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Inspect {
    /// A weight file (safetensors, `torch.save` or GGUF), a directory of them, `pocket` for the
    /// built-in model, or `owner/name[@revision]` on the hub; with --slots also a file that
    /// describes a small network, or a checkpoint of torchmd-net.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Compute the singular values of every matrix, effective ranks, power-law exponents and noise
    /// edges.
    pub spectra: bool,
    /// Only tensors with matching names: a glob such as *q_proj*, or a regular expression after
    /// re:.
    #[schemars(extend("x-value" = "PATTERN"))]
    pub filter: Option<String>,
    /// Only these layers, such as 3,5 or 0-7.
    pub layers: Option<String>,
    /// Only tensors of this storage type, such as f32, bf16 or q4_k.
    pub dtype: Option<String>,
    /// Grouping of the tensors: the unit of a table row.
    #[schemars(with = "Names<By>")]
    pub by: By,
    /// Write an HTML page with heat maps and plots.
    #[schemars(extend("x-value" = "FILE"))]
    pub html: Option<OutputPath>,
    /// Also write the result as JSON to this file; with --shard, the directory of the shard.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite existing files.
    pub force: bool,
    /// Store of spectra and other finished pieces [default: $LINWRIGHT_STORE, or linwright/store in
    /// $XDG_CACHE_HOME or ~/.cache].
    #[schemars(extend("x-value" = "DIR", "x-requires" = ["spectra"]))]
    pub cache: Option<StatePath>,
    /// Neither read nor store spectra.
    #[schemars(extend("x-requires" = ["spectra"], "x-conflicts" = ["cache"]))]
    pub no_cache: bool,
    /// Instead, load the model and list the linear layers that can be replaced.
    #[schemars(extend(
        "x-conflicts" = ["spectra", "filter", "layers", "dtype", "by", "html", "output"]
    ))]
    pub slots: bool,
}

impl Job for Inspect {
    const VERB: &str = "inspect";
    const ABOUT: &str = "Report on every tensor of a checkpoint of any architecture and size, one \
        at a time: shape, type, value range, NaN and infinite values, zero rows, duplicates; with \
        --spectra also singular values and effective ranks.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<Inspection>(), ReportKind::of::<slots::Slots>()];
    const DIVISION: Division = Division::Merged;

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.model)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        inspection::run(self, session)
    }
}
