//! Collapse of features or of a network, as it is saved and reported.

use crate::jobs::kit::outcome::text;
use linwright_collapse::{LayerReport, report};
use linwright_report::number::seconds;
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};

/// Collapse of features, or of every layer of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CollapseMeasured {
    /// What was measured.
    #[serde(flatten)]
    pub of: MeasuredOf,
    /// The layers; of features one.
    pub layers: Vec<LayerReport>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum MeasuredOf {
    /// Labelled features.
    Features {
        /// Their file.
        features: String,
        /// Times.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<Measured<MeasuringSeconds>>,
    },
    /// The layers of a network on images.
    Network {
        /// Directory of the network.
        net: String,
        /// SHA-256 of its weights.
        net_sha256: String,
        /// The images.
        images: String,
        /// Their SHA-256.
        images_sha256: String,
    },
    /// Sums over features.
    Sums {
        /// Their file.
        sums: String,
    },
}

/// Times of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasuringSeconds {
    /// Adding the features.
    pub sums: f64,
    /// Computing the metrics.
    pub metrics: f64,
}

impl Report for CollapseMeasured {
    const KIND: &'static str = "collapse-measure";

    fn document(&self) -> Document {
        report::of_layers("measure", &self.layers)
    }

    fn times(&self) -> Vec<Block> {
        let MeasuredOf::Features { seconds: Some(times), .. } = &self.of else { return Vec::new() };
        let MeasuringSeconds { sums, metrics } = times.0;
        vec![text([format!("sums: {}, metrics: {}", seconds(sums), seconds(metrics))])]
    }
}
