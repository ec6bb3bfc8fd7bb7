//! Samples of a flow, as they are saved and reported.

use crate::jobs::kit::outcome::{page, text};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Samples that were written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowSamples {
    /// Directory of the flow.
    pub flow: String,
    /// SHA-256 of its weights.
    pub flow_sha256: String,
    /// Number of samples.
    pub samples: usize,
    /// Samples that were not finite, and were drawn again.
    pub redrawn: usize,
    /// Factor of the standard deviations of latents; none for a path between examples.
    pub temperature: Option<f64>,
    /// The picture.
    pub output: Option<String>,
    /// The file of numbers.
    pub points: Option<String>,
}

impl Report for FlowSamples {
    const KIND: &'static str = "flow-sample";

    fn document(&self) -> Document {
        let written = self.output.iter().chain(&self.points);
        page(vec![text(written.map(|path| format!("wrote {path}")))])
    }
}
