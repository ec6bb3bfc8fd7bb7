//! Lists of the best examples, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_attribute::CompressorSpec;
use linwright_report::{Document, Report};
use linwright_run::Ordered;
use serde::{Deserialize, Serialize};

/// Lists of the best training examples of all queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BestLists {
    /// Directory of the lists.
    pub output: String,
    /// The store.
    pub store: String,
    /// File of the queries.
    pub query: String,
    /// How gradients are compressed.
    pub compressor: CompressorSpec,
    /// Examples of the store.
    pub examples: usize,
    /// Examples that each query adds to a list.
    pub examples_of_a_query: usize,
    /// Length of each list by name: methods, random examples, relevant ones.
    pub lists: Ordered<usize>,
}

impl Report for BestLists {
    const KIND: &'static str = "attribute-best";

    fn document(&self) -> Document {
        let line = format!("the {} best examples of each query", self.examples_of_a_query);
        let rows =
            self.lists.iter().map(|(name, length)| vec![name.to_owned(), length.to_string()]);
        page(vec![text([line]), table(&["list", "examples"], rows.collect())])
    }
}
