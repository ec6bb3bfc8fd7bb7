//! Decomposed Fisher matrices, as they are saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_attribute::Damping;
use linwright_report::number::{bytes, scientific};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// The decomposed Fisher matrices of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FisherDecomposed {
    /// The store.
    pub store: String,
    /// Its examples.
    pub examples: usize,
    /// The damping that is reported.
    pub damping: Damping,
    /// Layers that were computed; the others were there.
    pub computed: usize,
    /// Bytes of the files of these.
    pub written_bytes: u64,
    /// The layers, without those of other shards.
    pub layers: Vec<FisherOfLayer>,
}

/// The Fisher matrix of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FisherOfLayer {
    /// The layer.
    pub site: String,
    /// Its rows.
    pub numbers: usize,
    /// Its rank.
    pub rank: usize,
    /// Mean of its diagonal.
    pub mean_diagonal: f64,
    /// Its largest eigenvalue.
    pub largest_eigenvalue: f64,
    /// What the damping adds to the diagonal.
    pub damping: f64,
}

impl Report for FisherDecomposed {
    const KIND: &'static str = "attribute-fisher";

    fn document(&self) -> Document {
        let (count, computed, damping) = (self.layers.len(), self.computed, self.damping);
        let deficient = self.layers.iter().filter(|layer| layer.rank != layer.numbers).count();
        let (found, written) = (count - computed.min(count), bytes(self.written_bytes));
        let lines = [
            format!("{computed} layers computed, {found} found, {written}"),
            format!(
                "{deficient} of {count} matrices are singular without damping; {damping} is added"
            ),
        ];
        let heads = ["layer", "numbers", "rank", "mean diagonal", "largest", "damping adds"];
        let row = |layer: &FisherOfLayer| {
            vec![
                layer.site.clone(),
                layer.numbers.to_string(),
                layer.rank.to_string(),
                scientific(layer.mean_diagonal),
                scientific(layer.largest_eigenvalue),
                scientific(layer.damping),
            ]
        };
        page(vec![text(lines), table(&heads, self.layers.iter().map(row).collect())])
    }
}
