//! What a search found.

use super::counts::{Counts, Shapes};
use super::walk::{Decision, Effort, Figures};
use linwright_compress::Size;
use linwright_compress::methods::{FeatureMethod, MethodSpec};
use linwright_compress::plan::{Edit, Plan, SlotSet};
use linwright_model::Transformer;
use linwright_ops::Network;
use linwright_run::{Measured, measured};
use serde::{Deserialize, Serialize};

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

/// A search as data, without the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// The task, or `perplexity`.
    pub scored: String,
    /// Number of linear layers in the layers of the model.
    pub linears: usize,
    /// The decisions, from the last layer down.
    pub decisions: Vec<Decision>,
    /// The accepted ranks.
    pub plan: Plan,
    /// Parameters of the dense and the found model.
    pub parameters: [u64; 2],
    /// Multiply-adds of both on 64 tokens.
    pub macs: [Counts; 2],
    /// Scores of both.
    pub figures: Figures,
    /// Stages of single tokens that the published steps compute, at least.
    pub published_passes: u64,
    /// What was computed; zero where it is not stored.
    #[serde(default)]
    pub effort: Measured<Effort>,
    /// Notes for the reader, such as overlaps of data.
    pub notes: Vec<String>,
}

impl Solution {
    /// The search as data; `scored` is the task, and `dense` the model that was searched.
    #[must_use]
    pub fn found(&self, scored: &str, dense: &Transformer, notes: Vec<String>) -> Found {
        let macs = |model: &Transformer| Shapes::of(model).counts(Shapes::TOKENS);
        Found {
            scored: scored.to_owned(),
            linears: super::linears(dense).len(),
            decisions: self.decisions.clone(),
            plan: self.plan(),
            parameters: [dense.parameters(), self.network.parameters()],
            macs: [macs(dense), macs(&self.network)],
            figures: self.figures.clone(),
            published_passes: self.published_passes(),
            effort: Measured(self.effort),
            notes,
        }
    }

    /// The accepted ranks as a plan. Applied to the model, it fits each layer to inputs from the
    /// edited model, so its factors differ a little from those of the search.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let edit = |own: &Decision| {
            Some(Edit {
                sites: SlotSet { patterns: vec![own.site.to_string()], ..SlotSet::default() },
                method: MethodSpec::Feature(FeatureMethod::default()),
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

impl Found {
    /// The decisions as JSON, one line each, in the order of the walk, without times.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn lines(&self) -> serde_json::Result<String> {
        let mut lines = String::new();
        for own in &self.decisions {
            let (line, _) = measured::apart(|| serde_json::to_value(own))?;
            lines += &format!("{line}\n");
        }
        Ok(lines)
    }
}
