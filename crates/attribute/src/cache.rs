//! The pass over all examples that fills a store, and its estimated cost.

use crate::store::{GradientStore, ShardFile, ShardWriter};
use crate::{AttributeError, Examples, GradientMap, gradients};
use linwright_ops::Differentiable;
use linwright_run::{Measured, Monitor, Shard};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Options of a cache pass, none of which changes the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheOptions {
    /// The share of the work for this process.
    pub share: Shard,
    /// Largest size of a shard in bytes; further writes fail as on a full disk.
    pub limit_bytes: Option<u64>,
}

/// Summary of a cache pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cached {
    /// Shards that existed before.
    pub found: usize,
    /// Shards that were computed.
    pub computed: usize,
    /// Shards of other processes that do not exist yet.
    pub left: usize,
    /// Examples whose gradients were computed.
    pub examples: usize,
    /// Examples of existing shards whose compressed gradients are zero, so that they have no
    /// influence: the compressor selects no nonzero entry of their gradients.
    pub zeros: usize,
}

/// Computes the missing shards of a store. An existing shard is opened and checked, not recomputed.
///
/// # Errors
/// Errors of [`gradients`] and of writing; [`AttributeError::Interrupted`] if the monitor stops the
/// work between two batches. Finished shards are kept.
pub fn cache<N: Differentiable>(
    (network, map): (&N, &GradientMap),
    examples: &dyn Examples<N::Input>,
    store: &GradientStore,
    options: CacheOptions,
    monitor: &mut dyn Monitor,
) -> Result<Cached, AttributeError> {
    let manifest = store.manifest();
    assert_eq!((map.size(), examples.count()), (manifest.size(), manifest.count), "of this store");
    let mut cached = Cached::default();
    monitor.step("gradients");
    for shard in 0..manifest.shards() {
        let of_shard = store.examples_of(shard);
        if store.has(shard) {
            cached.zeros += zeros_of(&store.shard(shard)?);
            cached.found += 1;
            continue;
        }
        if !options.share.owns(shard) {
            cached.left += 1;
            continue;
        }
        let mut writer = ShardWriter::create(store, shard, options.limit_bytes)?;
        for start in of_shard.clone().step_by(manifest.batch) {
            if monitor.interrupted() {
                return Err(AttributeError::Interrupted);
            }
            let batch = examples.batch(start..of_shard.end.min(start + manifest.batch));
            writer.push(&gradients(network, map, &batch, manifest.objective(), start)?)?;
            let done = start + batch.spans.len();
            monitor.progress(done as u64, manifest.count as u64);
        }
        writer.finish()?;
        cached.zeros += zeros_of(&store.shard(shard)?);
        cached.computed += 1;
        cached.examples += of_shard.len();
    }
    Ok(cached)
}

/// Examples whose compressed gradients are zero.
fn zeros_of(shard: &ShardFile) -> usize {
    shard.rows().iter().filter(|row| row.norm == 0.0).count()
}

/// Estimated cost of a cache pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheEstimate {
    /// Seconds for the missing shards, on this machine with these threads.
    #[serde(default)]
    pub seconds: Measured<f64>,
    /// Bytes of the finished store, including its maps.
    pub disk_bytes: u64,
    /// Memory in bytes in addition to the network and its passes: maps, inputs that are kept from
    /// the forward to the backward pass, the rows of a batch and a tile before and after encoding.
    pub memory_bytes: u64,
}

/// Estimates a cache pass of a network from a timed pass of one batch, after a warm-up pass.
///
/// # Errors
/// Those of [`gradients`].
pub fn estimate<N: Differentiable>(
    (network, map): (&N, &GradientMap),
    examples: &dyn Examples<N::Input>,
    store: &GradientStore,
) -> Result<CacheEstimate, AttributeError> {
    let manifest = store.manifest();
    let count = manifest.batch.min(manifest.count);
    // One in the middle, since texts may be sorted by length.
    let start = (manifest.count - count) / 2;
    let batch = examples.batch(start..start + count);
    let pass = || gradients(network, map, &batch, manifest.objective(), start);
    pass()?;
    let begin = Instant::now();
    pass()?;
    let each = begin.elapsed().as_secs_f64() / count as f64;
    let left = (0..manifest.shards()).filter(|&shard| !store.has(shard));
    let left: usize = left.map(|shard| store.examples_of(shard).len()).sum();
    let rows = batch.spans.last().map_or(0, |span| span.end) as u64;
    let tile = (4 + manifest.element.bytes()) * manifest.tile_rows * manifest.size();
    let of_batch = 4 * (count * manifest.size()) as u64;
    Ok(CacheEstimate {
        seconds: Measured(each * left as f64),
        disk_bytes: store.shard_bytes() + map.bytes(),
        memory_bytes: map.bytes() + rows * map.kept_bytes_per_row() + of_batch + tile as u64,
    })
}
