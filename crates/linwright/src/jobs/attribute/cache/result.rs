//! A store of gradients, as it is saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use crate::jobs::kit::quoted;
use linwright_attribute::{CacheEstimate, Cached, CompressorSpec, Element, Reduction, Target};
use linwright_report::number::{bytes, grouped, seconds};
use linwright_report::{Block, Document, Report};
use linwright_run::Measured;
use serde::{Deserialize, Serialize};

/// A store of compressed gradients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoreSummary {
    /// Its directory.
    pub store: String,
    /// The model.
    pub model: String,
    /// File of the examples.
    pub train: String,
    /// Examples.
    pub examples: usize,
    /// How gradients are compressed.
    pub compressor: CompressorSpec,
    /// Differentiated function of a target.
    pub target: Target,
    /// Reduction over the targets of an example.
    pub reduction: Reduction,
    /// Number type.
    pub dtype: Element,
    /// Layers.
    pub layers: usize,
    /// Parameters of the layers.
    pub parameters: u64,
    /// Numbers of an example.
    pub numbers: usize,
    /// Files of the store.
    pub shards: usize,
    /// Their bytes.
    pub shard_bytes: u64,
}

/// The planned store of a dry run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CachePlanned {
    /// The store.
    #[serde(flatten)]
    pub store: StoreSummary,
    /// Its cost.
    pub estimate: CacheEstimate,
}

impl Report for CachePlanned {
    const KIND: &'static str = "attribute-cache-dry-run";

    fn document(&self) -> Document {
        let rows = [
            ("examples", grouped(self.store.examples as u64)),
            ("layers", self.store.layers.to_string()),
            ("numbers of an example", grouped(self.store.numbers as u64)),
            ("disk", bytes(self.estimate.disk_bytes)),
            ("memory beside the model", bytes(self.estimate.memory_bytes)),
        ];
        let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        let note = "nothing was written: --dry-run";
        page(vec![text([note]), table(&["estimate", "value"], rows)])
    }

    fn times(&self) -> Vec<Block> {
        vec![text([format!("estimated time: {}", seconds(self.estimate.seconds.0))])]
    }
}

/// A store that was filled, or the share of a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CacheFilled {
    /// The store.
    #[serde(flatten)]
    pub store: StoreSummary,
    /// What was computed.
    pub cached: Cached,
    /// Time of the pass; none if everything was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Measured<f64>>,
    /// Its speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples_per_second: Option<Measured<f64>>,
}

impl Report for CacheFilled {
    const KIND: &'static str = "attribute-cache";

    fn document(&self) -> Document {
        let (store, cached) = (&self.store, &self.cached);
        let line = format!(
            "{} examples, {} layers, {} numbers each by {}: {}",
            grouped(store.examples as u64),
            store.layers,
            grouped(store.numbers as u64),
            store.compressor,
            bytes(store.shard_bytes),
        );
        let next = match cached.left {
            0 => format!("next: linwright attribute score {} --query FILE", quoted(&store.store)),
            left => format!("{left} files are those of other processes with --shard"),
        };
        let files = format!("{} files computed, {} found", cached.computed, cached.found);
        let zeros = (cached.zeros > 0).then(|| {
            format!(
                "{} examples have compressed gradients of zeros, and so no influence: nothing of \
                 their gradients is where {} looks; a larger size finds more",
                grouped(cached.zeros as u64),
                store.compressor
            )
        });
        let lines = [Some(line), Some(files), zeros, Some(next)];
        page(vec![text(lines.into_iter().flatten())])
    }

    fn times(&self) -> Vec<Block> {
        let line = |rate: &Measured<f64>| text([format!("{:.1} examples per second", rate.0)]);
        self.examples_per_second.iter().map(line).collect()
    }
}
