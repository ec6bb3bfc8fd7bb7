//! Self-influence, as it is saved and reported.

use crate::jobs::attribute::{ScoredExample, beginning, shown_id};
use crate::jobs::kit::outcome::{page, table, text};
use linwright_attribute::Damping;
use linwright_report::number::grouped;
use linwright_report::{Document, Report};
use linwright_run::undefined::or_nan;
use serde::{Deserialize, Serialize};

/// The influence of training examples on themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SelfInfluence {
    /// The store.
    pub store: String,
    /// The damping.
    pub damping: Damping,
    /// Examples of the store.
    pub examples: usize,
    /// How well wrong examples are found: the area under the curve.
    pub detection_area: Option<f64>,
    /// Examples with the most influence on themselves.
    pub results: Vec<ScoredExample>,
    /// The influence of every example.
    #[serde(deserialize_with = "or_nan")]
    pub scores: Vec<f64>,
}

impl Report for SelfInfluence {
    const KIND: &'static str = "attribute-self";

    fn document(&self) -> Document {
        let count = grouped(self.examples as u64);
        let mut lines = vec![format!("{count} examples, damping {}", self.damping)];
        let area = |area: f64| format!("wrong ones are found with an area of {area:.4}");
        lines.extend(self.detection_area.map(area));
        let row = |(place, example): (usize, &ScoredExample)| {
            vec![
                (place + 1).to_string(),
                example.index.to_string(),
                beginning(&shown_id(&example.id)),
                format!("{:.5}", example.score),
            ]
        };
        let rows = self.results.iter().enumerate().map(row).collect();
        let heads = ["place", "index", "id", "self-influence"];
        page(vec![text(lines), table(&heads, rows)])
    }
}
