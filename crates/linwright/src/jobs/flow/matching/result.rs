//! Flow matching, as it is saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_report::number::{grouped, seconds};
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};

/// A network of velocities that was trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VelocitiesTrained {
    /// The data.
    pub data: String,
    /// Their SHA-256.
    pub data_sha256: String,
    /// Operator of the hidden layers.
    pub layer: String,
    /// Parameters of the network.
    pub parameters: u64,
    /// Updates made.
    pub steps: u64,
    /// Update with the lowest loss on held-out pairs.
    pub best_step: u64,
    /// That loss.
    pub loss: f64,
    /// Fresh points whose density was measured.
    pub points: usize,
    /// Mean negative log-likelihood of a point, in nats.
    pub nll: f64,
    /// The same in bits per dimension.
    pub bits_per_dim: f64,
    /// Standard error of the bits, over points.
    pub stderr: f64,
    /// Entropy of the density of generated points, in bits per dimension.
    pub entropy: Option<f64>,
    /// The directory; no file in it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// SHA-256 of the weights, once they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Time of training.
    #[serde(default)]
    pub seconds: Measured<f64>,
}

impl Report for VelocitiesTrained {
    const KIND: &'static str = "flow-match";

    fn document(&self) -> Document {
        let number = |name: &str, value: f64| vec![name.to_owned(), format!("{value:.4}")];
        let rows = vec![
            vec!["parameters".into(), grouped(self.parameters)],
            number("held-out loss of velocities", self.loss),
            number("bits per dimension", self.bits_per_dim),
            number("standard error", self.stderr),
        ];
        let wrote = self.output.as_ref().map(|output| format!("wrote {output}"));
        page(vec![table(&["", "value"], rows), text(wrote)])
    }

    fn times(&self) -> Vec<Block> {
        vec![text([format!("training: {}", seconds(self.seconds.0))])]
    }
}
