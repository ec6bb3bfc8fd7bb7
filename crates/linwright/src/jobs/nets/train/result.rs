//! A training of a small network, as it is saved and reported.

use crate::jobs::kit::outcome::{page, text};
use linwright_nets::Loss;
use linwright_report::number::{grouped, percent, seconds};
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a network is, and what it is trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NetPlanned {
    /// Its parameters.
    pub parameters: u64,
    /// The images.
    pub images: ImagesDivided,
    /// Updates that are planned.
    pub steps: u64,
}

/// Images of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ImagesDivided {
    /// File or folder.
    pub path: PathBuf,
    /// SHA-256.
    pub sha256: String,
    /// Images that are trained on.
    pub training: usize,
    /// Images that are held out.
    pub held_out: usize,
    /// Number of classes.
    pub classes: usize,
}

impl NetPlanned {
    fn lines(&self) -> [String; 2] {
        let ImagesDivided { training, held_out, classes, .. } = self.images;
        let [training, held_out] = [training, held_out].map(|count| grouped(count as u64));
        [
            format!("{} parameters", grouped(self.parameters)),
            format!(
                "{training} images, {held_out} more held out, {classes} classes, {} steps",
                grouped(self.steps)
            ),
        ]
    }
}

impl Report for NetPlanned {
    const KIND: &'static str = "train-net-dry-run";

    fn document(&self) -> Document {
        page(vec![text(self.lines())])
    }
}

/// A trained network, with its scores on the images that were held out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NetTrained {
    /// The network and its images.
    #[serde(flatten)]
    pub planned: NetPlanned,
    /// Update with the lowest loss on held-out images.
    pub best_step: u64,
    /// The loss.
    pub loss: Loss,
    /// Its lowest value on held-out images.
    pub held_out_loss: f64,
    /// Mean negative log-likelihood of the label, in nats.
    pub cross_entropy: f64,
    /// Standard error of the cross-entropy.
    pub cross_entropy_stderr: f64,
    /// Share of the images whose label has the largest output.
    pub acc: Option<f64>,
    /// Standard error of the accuracy.
    pub acc_stderr: Option<f64>,
    /// The directory; no file in it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// SHA-256 of the weights, once they are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Time of training.
    #[serde(default)]
    pub seconds: Measured<f64>,
    /// Images in a second.
    #[serde(default)]
    pub images_per_second: Measured<f64>,
}

impl Report for NetTrained {
    const KIND: &'static str = "train-net";

    fn document(&self) -> Document {
        let mut lines = Vec::from(self.planned.lines());
        lines.push(format!(
            "step {}: held-out cross-entropy {:.4} nats, accuracy {}",
            self.best_step,
            self.cross_entropy,
            self.acc.map_or_else(String::new, percent)
        ));
        lines.extend(self.output.as_ref().map(|output| format!("wrote {output}")));
        page(vec![text(lines)])
    }

    fn times(&self) -> Vec<Block> {
        let (seconds, speed) = (seconds(self.seconds.0), self.images_per_second.0);
        vec![text([format!("training: {seconds}, {speed:.0} images/s")])]
    }
}
