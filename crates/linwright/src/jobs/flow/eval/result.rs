//! Densities of data under a flow, as they are saved and reported.

use crate::jobs::flow::train::worst;
use crate::jobs::kit::outcome::{page, table};
use linwright_flow::{FlowScores, MixNorms, MixSpec};
use linwright_report::number::grouped;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Densities of data under a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowDensities {
    /// Directory of the flow.
    pub flow: String,
    /// SHA-256 of its weights.
    pub flow_sha256: String,
    /// What mixes its channels.
    pub layer: MixSpec,
    /// Its parameters.
    pub parameters: u64,
    /// Parameters that mix channels.
    pub mixing_parameters: u64,
    /// The data.
    pub data: String,
    /// Their SHA-256.
    pub data_sha256: String,
    /// How they were changed to fit the flow.
    pub changes: Vec<String>,
    /// Bits per dimension and their errors.
    #[serde(flatten)]
    pub scores: FlowScores,
    /// Numbers of an example.
    pub dimensions: usize,
    /// Entropy of the density of generated points, in bits per dimension.
    pub entropy: Option<f64>,
    /// Norms of the mixes, in order.
    pub mixes: Vec<MixNorms>,
}

impl Report for FlowDensities {
    const KIND: &'static str = "flow-eval";

    fn document(&self) -> Document {
        let FlowScores { bits_per_dim, stderr, stderr_examples, nll, examples, draws } =
            self.scores;
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        let mut rows = vec![
            row("bits per dimension", format!("{bits_per_dim:.4}")),
            row("standard error", format!("{stderr:.5}")),
            row("standard error over examples", format!("{stderr_examples:.5}")),
            row("negative log-likelihood, nats", format!("{nll:.3}")),
            row("examples", grouped(examples as u64)),
        ];
        if let Some(entropy) = self.entropy {
            rows.push(row("entropy of the density, bits per dimension", format!("{entropy:.4}")));
        }
        if draws > 1 {
            rows.push(row("draws of noise", draws.to_string()));
        }
        rows.push(row("largest condition of a mix", format!("{:.1}", worst(&self.mixes))));
        page(vec![table(&["", "value"], rows)])
    }
}
