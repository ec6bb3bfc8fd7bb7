//! The Fisher matrices of a store, decomposed once.

mod result;

use self::result::{FisherDecomposed, FisherOfLayer};
use crate::jobs::attribute::{damping_of, described};
use crate::jobs::kit::{ChangedPath, Division, Failure, Job, Outcome, Session};
use linwright_attribute::{AttributeError, Attribution, Curvature};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The decomposed Fisher matrix of each layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttributeFisher {
    /// A store that `attribute cache` wrote.
    #[schemars(extend("x-positional" = true))]
    pub store: ChangedPath,
    /// Report what this damping adds: relative:D, D times the mean, or absolute:D [default:
    /// relative:0.1].
    #[schemars(extend("x-value" = "D", "examples" = ["relative:0.1"]))]
    pub damping: Option<String>,
}

impl Job for AttributeFisher {
    const VERB: &str = "attribute-fisher";
    const ABOUT: &str = "Decompose the empirical Fisher matrix of each layer of a store and keep it \
        there, so that scores need not compute it again.\n\n\
        With fewer examples than numbers of a layer the inner products of the examples are \
        decomposed instead. Scores of a store without these files compute the same. Processes with \
        --shard i/N share the layers.";
    const DIVISION: Division = Division::Shared;
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<FisherDecomposed>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![self.store.to_path_buf()]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let damping = damping_of(self.damping.as_deref())?;
        let (store, _) = described(&self.store)?;
        let attribution = Attribution::open(&store)?;
        let layers = &store.manifest().layers;
        let (mut found, mut written_bytes, mut computed) = (Vec::new(), 0, 0);
        session.step("Fisher matrices");
        for (index, layer) in layers.iter().enumerate() {
            if session.interrupted() {
                return Err(AttributeError::Interrupted.into());
            }
            let shards = attribution.shards();
            let fisher = match Curvature::saved(&store, shards, index)? {
                Some(fisher) => fisher,
                None if !session.shard().owns(index) => continue,
                None => {
                    let fisher = Curvature::of_layer(&store, shards, index)?;
                    computed += 1;
                    written_bytes += fisher.save(&store, shards, index)?;
                    fisher
                }
            };
            found.push(FisherOfLayer {
                site: layer.site.clone(),
                numbers: layer.size,
                rank: fisher.rank(),
                mean_diagonal: fisher.mean_diagonal(),
                largest_eigenvalue: fisher.largest(),
                damping: fisher.damping(damping)?,
            });
            session.progress(index as u64 + 1, layers.len() as u64);
        }
        session.finish();
        Ok(Outcome::of(FisherDecomposed {
            store: session.portable(&self.store),
            examples: store.manifest().count,
            damping,
            computed,
            written_bytes,
            layers: found,
        }))
    }
}
