//! Queries with their proponents and opponents, as they are saved and reported.

use crate::jobs::attribute::{ScoredExample, shown_id};
use crate::jobs::kit::outcome::{table, text};
use linwright_attribute::{CompressorSpec, Method};
use linwright_report::{Block, ColouredText, Document, Report};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Queries with the training examples that most support and oppose the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExamplesShown {
    /// The store.
    pub store: String,
    /// The method.
    pub method: Method,
    /// How gradients are compressed.
    pub compressor: CompressorSpec,
    /// Examples of the store.
    pub examples: usize,
    /// Ids of the queries.
    pub query_ids: Vec<Value>,
    /// Their texts; none of images.
    pub query_texts: Option<Vec<String>>,
    /// For each query its proponents.
    pub results: Vec<Vec<ShownExample>>,
    /// For each query its opponents.
    pub opponents: Vec<Vec<ShownExample>>,
}

/// An example of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShownExample {
    /// The example.
    #[serde(flatten)]
    pub example: ScoredExample,
    /// Its tokens, each with its share of the score; none where tokens have none.
    pub tokens: Vec<(String, f64)>,
}

impl Report for ExamplesShown {
    const KIND: &'static str = "attribute-show";

    fn document(&self) -> Document {
        let mut blocks = Vec::new();
        let texts = self.query_texts.as_deref().unwrap_or_default();
        let all = self.query_ids.iter().zip(&self.results).zip(&self.opponents);
        for (index, ((id, proponents), opponents)) in all.enumerate() {
            let asked = texts.get(index).map_or("", String::as_str);
            blocks.push(text([format!("Query {}: {asked}", shown_id(id))]));
            for (what, examples) in [("Proponent", proponents), ("Opponent", opponents)] {
                blocks.extend(blocks_of(what, examples));
            }
        }
        Document {
            title: "Which training examples support the answers?".into(),
            kicker: "Attribution".into(),
            facts: vec![
                ("examples".into(), self.examples.to_string()),
                ("method".into(), self.method.to_string()),
                ("compressor".into(), self.compressor.to_string()),
            ],
            blocks,
            ..Document::default()
        }
    }
}

/// The proponents or opponents of a query.
fn blocks_of(what: &str, examples: &[ShownExample]) -> Vec<Block> {
    if examples.iter().any(|shown| shown.tokens.is_empty()) {
        let row = |shown: &ShownExample| {
            let ScoredExample { index, id, score } = &shown.example;
            vec![index.to_string(), shown_id(id), format!("{score:.5}")]
        };
        let what = format!("{}s", what.to_lowercase());
        return vec![table(&["index", &what, "score"], examples.iter().map(row).collect())];
    }
    let coloured = |(place, shown): (usize, &ShownExample)| {
        let ScoredExample { id, score, .. } = &shown.example;
        let (place, id) = (place + 1, shown_id(id));
        Block::ColouredText(ColouredText {
            title: format!("{what} {place}: example {id}, score {score:.5}"),
            note: "Blue tokens support the answer, red ones oppose it.".into(),
            pieces: shown.tokens.clone(),
        })
    };
    examples.iter().enumerate().map(coloured).collect()
}
