//! What a search found.

use super::run::{Decision, Effort, Figures};
use crate::Size;
use crate::methods::{LowRankMethod, MethodSpec};
use crate::plan::{Edit, Plan, SlotSet};
use linwright_model::Transformer;

/// Decisions and the model that they give.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The decisions, from the last layer down.
    pub decisions: Vec<Decision>,
    /// Scores of the dense and the found model.
    pub figures: Figures,
    /// All work.
    pub effort: Effort,
    /// The found model.
    pub network: Transformer,
}

impl Solution {
    /// The accepted ranks as a plan. Applied to the model, it fits each layer to inputs from the
    /// edited model, so its factors differ a little from those of the search.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let edit = |own: &Decision| {
            Some(Edit {
                sites: SlotSet { patterns: vec![own.site.to_string()], ..SlotSet::default() },
                method: MethodSpec::LowRank(LowRankMethod::default()),
                size: Some(Size::Rank(own.rank?)),
                heals: false,
            })
        };
        // In the order of computation.
        Plan { seed: 0, edits: self.decisions.iter().rev().filter_map(edit).collect() }
    }

    /// Stages of single tokens that the published steps compute, at least.
    #[must_use]
    pub fn published_passes(&self) -> u64 {
        self.decisions.iter().map(|own| own.published_passes).sum()
    }
}
