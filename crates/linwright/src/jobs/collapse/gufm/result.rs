//! The optimum behind a LayerNorm, as it is saved and reported.

use crate::jobs::kit::outcome::table;
use linwright_collapse::optimum::{Gufm, GufmOptimum, NumericOptimum};
use linwright_collapse::report;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// The optimum of a penalised head on features of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GufmFound {
    /// The model.
    pub model: Gufm,
    /// Its optimum in closed form.
    pub optimum: GufmOptimum,
    /// The same by minimisation.
    pub minimised: Option<NumericOptimum>,
}

impl Report for GufmFound {
    const KIND: &'static str = "collapse-gufm";

    fn document(&self) -> Document {
        let optimum = &self.optimum;
        let mut rows = vec![
            ("objective", optimum.objective),
            ("logit of the true class", optimum.true_logit),
            ("logit of other classes", optimum.other_logit),
            ("|w|² of each class", optimum.head_row_squared),
        ];
        let minimised = self.minimised.as_ref();
        rows.extend(minimised.map(|minimised| ("objective, minimised", minimised.objective)));
        let row = |(name, value): (&str, f64)| vec![name.to_owned(), format!("{value:.9}")];
        let rows = rows.into_iter().map(row).collect();
        report::titled("gufm", vec![table(&["what", "value"], rows)])
    }
}
