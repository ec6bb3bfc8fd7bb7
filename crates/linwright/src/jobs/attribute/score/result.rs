//! Scores of training examples, as they are saved and reported.

use crate::jobs::attribute::{ScoredExample, shown_id};
use crate::jobs::kit::outcome::{page, table, text};
use linwright_attribute::{CompressorSpec, Method, Target};
use linwright_report::number::{grouped, seconds};
use linwright_report::{Block, Document, Report};
use linwright_run::undefined::or_nan;
use linwright_run::{Measured, Ordered, shown};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Queries with a table; the JSON has all.
const TABLES: usize = 10;
/// Examples of a table.
const ROWS: usize = 10;

/// The training examples that made a model answer as it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExamplesScored {
    /// The store.
    pub store: String,
    /// File of the queries.
    pub query: String,
    /// The method.
    pub method: Method,
    /// Its damping.
    pub damping: Option<String>,
    /// Differentiated function of a query.
    pub target: Target,
    /// How gradients are compressed.
    pub compressor: CompressorSpec,
    /// Checkpoints whose scores are added up or averaged.
    pub checkpoints: usize,
    /// Examples of the store.
    pub examples: usize,
    /// Queries.
    pub queries: usize,
    /// Their ids.
    pub query_ids: Vec<Value>,
    /// The first words of each; none of images.
    pub query_beginnings: Option<Vec<String>>,
    /// For each query the best examples.
    pub results: Vec<Vec<RankedExample>>,
    /// For each query the worst examples.
    pub opponents: Vec<Vec<ScoredExample>>,
    /// For each query the best examples of methods without gradients.
    pub baselines: Ordered<Vec<Vec<ScoredExample>>>,
    /// For each query the best examples by groups of layers.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub groups: Ordered<Vec<Vec<ScoredExample>>>,
    /// Time of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Measured<f64>>,
}

/// One of the best examples of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankedExample {
    /// The example.
    #[serde(flatten)]
    pub example: ScoredExample,
    /// The part of each layer in its score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Ordered<f64>>,
    /// Its scores by methods without gradients.
    #[serde(default, skip_serializing_if = "Ordered::is_empty", deserialize_with = "or_nan")]
    pub baselines: Ordered<f64>,
}

impl Report for ExamplesScored {
    const KIND: &'static str = "attribute-score";

    fn document(&self) -> Document {
        let (queries, method) = (self.queries, self.method);
        let count = grouped(self.examples as u64);
        let mut blocks =
            vec![text([format!("{count} examples scored by {method} for {queries} queries")])];
        let beginnings = self.query_beginnings.as_deref().unwrap_or_default();
        let all = self.query_ids.iter().zip(&self.results);
        for (index, (id, best)) in all.take(TABLES).enumerate() {
            let words = beginnings.get(index).map(|words| format!(": {words}")).unwrap_or_default();
            blocks.push(text([format!("query {}{words}", shown_id(id))]));
            blocks.push(self.table(best));
        }
        if queries > TABLES {
            blocks.push(text([format!("and {} more queries: see --json", queries - TABLES)]));
        }
        blocks.extend(self.agreement("group of layers", &self.groups));
        blocks.extend(self.agreement("baseline", &self.baselines));
        page(blocks)
    }

    fn times(&self) -> Vec<Block> {
        let line = |time: &Measured<f64>| text([format!("time: {}", seconds(time.0))]);
        self.seconds.iter().map(line).collect()
    }
}

impl ExamplesScored {
    /// The best examples of a query, with their scores by baselines.
    fn table(&self, best: &[RankedExample]) -> Block {
        let mut heads = vec!["place", "index", "id", self.method.name()];
        heads.extend(self.baselines.iter().map(|(method, _)| method));
        let row = |(place, ranked): (usize, &RankedExample)| {
            let ScoredExample { index, id, score } = &ranked.example;
            let mut cells = vec![
                (place + 1).to_string(),
                index.to_string(),
                shown_id(id),
                format!("{score:.5}"),
            ];
            cells.extend(ranked.baselines.iter().map(|(_, score)| format!("{score:.5}")));
            cells
        };
        table(&heads, best.iter().take(ROWS).enumerate().map(row).collect())
    }

    /// How many of the best examples other methods also find.
    fn agreement(&self, what: &str, others: &Ordered<Vec<Vec<ScoredExample>>>) -> Option<Block> {
        let shared = |lists: &[Vec<ScoredExample>]| -> usize {
            let shared_of = |(best, other): (&Vec<RankedExample>, &Vec<ScoredExample>)| {
                let is_there = |one: &&RankedExample| {
                    other.iter().any(|other| other.index == one.example.index)
                };
                best.iter().filter(is_there).count()
            };
            self.results.iter().zip(lists).map(shared_of).sum()
        };
        let all: usize = self.results.iter().map(Vec::len).sum();
        let rows = others.iter();
        let rows =
            rows.map(|(name, lists)| vec![shown(name), format!("{} of {all}", shared(lists))]);
        let rows: Vec<_> = rows.collect();
        (!rows.is_empty()).then(|| table(&[what, "finds of these examples"], rows))
    }
}
