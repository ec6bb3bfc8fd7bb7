//! Plans of several sizes, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_compress::allocate::SiteSpectrum;
use linwright_compress::{MethodSpec, Plan};
use linwright_ops::SiteId;
use linwright_report::number::grouped;
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Plans of several sizes for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlanResult {
    /// The model.
    pub(crate) model: String,
    /// SHA-256 of its configuration, tokenizer and weights.
    pub(crate) model_hash: String,
    /// The method.
    pub(crate) method: MethodSpec,
    /// Multiple of the ranks.
    pub(crate) align: usize,
    /// One for each size.
    pub(crate) plans: Vec<Planned>,
    /// Shapes of the layers, and what ranks of them drop.
    pub(crate) sites: Vec<SiteRanks>,
    /// Times.
    #[serde(default)]
    pub(crate) seconds: Measured<Seconds>,
}

/// Times of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seconds {
    pub(crate) decompositions: f64,
    pub(crate) plans: f64,
}

/// The plan of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// Share of parameters that is asked for.
    pub(crate) asked: f64,
    /// Share that the plan keeps.
    pub(crate) keep: f64,
    /// Parameters of these layers after.
    pub(crate) parameters: u64,
    /// The same before.
    pub(crate) dense_parameters: u64,
    /// Mean over the layers of the dropped share of squared singular values.
    pub(crate) error: f64,
    /// The same with the same share for every layer.
    pub(crate) uniform_error: f64,
    /// No plan of this size has a smaller error.
    pub(crate) bound: f64,
    /// The plan.
    pub(crate) plan: Plan,
}

/// What ranks of a layer drop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SiteRanks {
    site: SiteId,
    out: usize,
    inp: usize,
    /// Least ranks that drop no more than a share of the squared singular values.
    rank_for_error: BTreeMap<String, usize>,
}

impl SiteRanks {
    pub(super) fn of(site: &SiteSpectrum) -> Self {
        let errors = site.errors();
        let full = errors.len() - 1;
        let rank_at = |error: f64| errors.iter().position(|own| *own <= error).unwrap_or(full);
        let shares = [("0.5", 0.5), ("0.1", 0.1), ("0.01", 0.01)];
        Self {
            site: site.site.clone(),
            out: site.shape.out,
            inp: site.shape.inp,
            rank_for_error: shares.map(|(name, share)| (name.to_owned(), rank_at(share))).into(),
        }
    }
}

impl PlanResult {
    pub(super) fn blocks(&self) -> Vec<Block> {
        let row = |planned: &Planned| {
            vec![
                format!("{}", planned.asked),
                format!("{:.4}", planned.keep),
                grouped(planned.parameters),
                format!("{:.3e}", planned.error),
                format!("{:.3e}", planned.uniform_error),
            ]
        };
        let heads = ["asked", "keep", "parameters", "error", "uniform"];
        let note = "error: mean over the layers of the dropped share of squared singular values";
        vec![table(&heads, self.plans.iter().map(row).collect()), text([note])]
    }
}

impl Report for PlanResult {
    const KIND: &'static str = "plan";

    fn document(&self) -> Document {
        page(self.blocks())
    }
}
