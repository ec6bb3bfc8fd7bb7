//! A training of a flow, as it is saved and reported.

use crate::jobs::kit::outcome::{page, text};
use linwright_flow::{Extent, FlowSpec};
use linwright_report::number::{grouped, seconds};
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};

/// What a flow is, and what it is trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowPlanned {
    /// The flow.
    pub flow: FlowSpec,
    /// Its parameters.
    pub parameters: u64,
    /// Parameters that mix channels.
    pub mixing_parameters: u64,
    /// The data.
    pub data: FlowData,
    /// Updates that are planned.
    pub planned_steps: u64,
}

/// Data of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowData {
    /// File, or name of a density.
    pub path: String,
    /// SHA-256.
    pub sha256: String,
    /// Examples that are trained on; none for fresh points.
    pub training: Option<usize>,
    /// Examples that are held out; none for fresh points.
    pub held_out: Option<usize>,
    /// Extent of an example.
    pub extent: Extent,
    /// How the examples were changed.
    pub changes: Vec<String>,
}

impl FlowPlanned {
    fn lines(&self) -> [String; 2] {
        let (spec, data) = (&self.flow, &self.data);
        let examples = match data.training.zip(data.held_out) {
            None => format!("points of {}", data.path),
            Some((training, held_out)) => format!(
                "{} examples of {}, {} more held out",
                grouped(training as u64),
                spec.input,
                grouped(held_out as u64)
            ),
        };
        [
            format!(
                "{} levels of {} steps, layer {}: {} parameters, {} of them mix channels",
                spec.levels,
                spec.steps,
                spec.layer,
                grouped(self.parameters),
                grouped(self.mixing_parameters)
            ),
            format!("{examples}, {} steps of training", grouped(self.planned_steps)),
        ]
    }
}

impl Report for FlowPlanned {
    const KIND: &'static str = "flow-train-dry-run";

    fn document(&self) -> Document {
        page(vec![text(self.lines())])
    }
}

/// A trained flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowTrained {
    /// The flow and its data.
    #[serde(flatten)]
    pub planned: FlowPlanned,
    /// Updates made.
    pub steps: u64,
    /// Update with the lowest loss on held-out examples.
    pub best_step: u64,
    /// That loss, in bits per dimension.
    pub bits_per_dim: f64,
    /// Entropy of the density of generated points, in bits per dimension.
    pub entropy: Option<f64>,
    /// Largest condition of a mix.
    pub condition: f64,
    /// The directory; no file in it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// SHA-256 of the weights, once they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Time of training.
    #[serde(default)]
    pub seconds: Measured<f64>,
    /// Updates in a second.
    #[serde(default)]
    pub steps_per_second: Measured<f64>,
}

impl Report for FlowTrained {
    const KIND: &'static str = "flow-train";

    fn document(&self) -> Document {
        let mut lines = Vec::from(self.planned.lines());
        lines.push(format!(
            "step {}: {:.4} bits per dimension held out",
            self.best_step, self.bits_per_dim
        ));
        lines.push(format!("largest condition of a mix: {:.1}", self.condition));
        lines.extend(self.output.as_ref().map(|output| format!("wrote {output}")));
        page(vec![text(lines)])
    }

    fn times(&self) -> Vec<Block> {
        vec![text([format!("training: {}", seconds(self.seconds.0))])]
    }
}
