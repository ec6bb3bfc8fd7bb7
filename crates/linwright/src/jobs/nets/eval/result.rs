//! Scores of a network on images, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_report::number::{grouped, percent};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// Scores of a network on labelled images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NetScores {
    /// The network.
    pub net: String,
    /// SHA-256 of its weights.
    pub net_sha256: String,
    /// Its parameters.
    pub parameters: u64,
    /// The images.
    pub images: String,
    /// Their SHA-256.
    pub images_sha256: String,
    /// Number of images.
    pub examples: usize,
    /// Share of the images whose label has the largest output.
    pub acc: Option<f64>,
    /// Standard error of the accuracy.
    pub acc_stderr: Option<f64>,
    /// Mean negative log-likelihood of the label, in nats.
    pub cross_entropy: f64,
    /// Standard error of the cross-entropy.
    pub cross_entropy_stderr: f64,
}

impl Report for NetScores {
    const KIND: &'static str = "eval-net";

    fn document(&self) -> Document {
        let mut rows = vec![vec![
            "cross-entropy, nats".to_owned(),
            format!("{:.4}", self.cross_entropy),
            format!("{:.4}", self.cross_entropy_stderr),
        ]];
        rows.extend(
            self.acc
                .zip(self.acc_stderr)
                .map(|(acc, stderr)| vec!["accuracy".to_owned(), percent(acc), percent(stderr)]),
        );
        let [images, parameters] = [self.examples as u64, self.parameters].map(grouped);
        page(vec![
            text([format!("{images} images, {parameters} parameters")]),
            table(&["metric", "value", "standard error"], rows),
        ])
    }
}
