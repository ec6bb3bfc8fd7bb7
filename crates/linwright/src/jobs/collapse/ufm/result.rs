//! The optimum with free features, as it is saved and reported.

use crate::jobs::kit::outcome::{table, text};
use linwright_collapse::optimum::{Comparison, NumericOptimum, Ufm, UfmOptimum};
use linwright_collapse::report;
use linwright_report::number::scientific;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// The optimum of the unconstrained features model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct UfmFound {
    /// The model.
    pub model: Ufm,
    /// Its optimum in closed form.
    pub optimum: UfmOptimum,
    /// The same by minimisation.
    pub minimised: Option<NumericOptimum>,
    /// A trained head compared with it.
    pub comparison: Option<Comparison>,
}

impl Report for UfmFound {
    const KIND: &'static str = "collapse-ufm";

    fn document(&self) -> Document {
        let says = match self.optimum.collapsed {
            true => "c < 1: features collapse to a frame.",
            false => "c is 1 or more: the penalties are so strong that features vanish.",
        };
        report::titled("ufm", vec![text([says]), table(&["what", "value"], self.rows())])
    }
}

impl UfmFound {
    /// The optimum, and the values compared with it.
    fn rows(&self) -> Vec<Vec<String>> {
        let optimum = &self.optimum;
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        let mut rows = vec![
            row("threshold c", scientific(optimum.threshold)),
            row("objective", format!("{:.9}", optimum.objective)),
        ];
        for (name, value) in [
            ("logit of the true class", optimum.true_logit),
            ("logit of other classes", optimum.other_logit),
            ("|w|² of each class", optimum.head_row_squared),
            ("|h|² of each sample", optimum.feature_squared),
        ] {
            rows.push(row(name, format!("{value:.6}")));
        }
        if let Some(minimised) = &self.minimised {
            rows.push(row("objective, minimised", format!("{:.9}", minimised.objective)));
        }
        if let Some(comparison) = &self.comparison {
            for (name, value) in [
                ("measured |w|² / predicted", comparison.head_ratio),
                ("measured |h|² / predicted", comparison.feature_ratio),
                ("measured logit / predicted", comparison.logit_ratio),
            ] {
                rows.push(row(name, format!("{value:.4}")));
            }
        }
        rows
    }
}
