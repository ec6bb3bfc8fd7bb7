//! Contents of a store.

use super::Element;
use crate::compressors::{CompressorKey, CompressorSpec};
use crate::{AttributeError, GradientMap, LayerShape, Objective, Reduction, Target};
use linwright_run::{sha256_hex, shown};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// Version of the files of a store.
const FORMAT: u32 = 1;
/// Rows of a tile, unless a tile would then be larger than [`TILE_BYTES`].
const TILE_ROWS: usize = 256;
/// Bytes of a tile as `f32`, which is in memory while it is computed.
const TILE_BYTES: usize = 64 << 20;

/// Contents of a store, which is rejected for other contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the files.
    pub format: u32,
    /// Fingerprint of the network.
    pub network: String,
    /// Fingerprint of the examples.
    pub examples: String,
    /// Number of examples.
    pub count: usize,
    /// The differentiated quantity of a target.
    pub target: Target,
    /// Reduction of the losses of targets to the loss of an example.
    pub reduction: Reduction,
    /// The compressor.
    pub compressor: CompressorSpec,
    /// Key of its random numbers.
    pub key: CompressorKey,
    /// Number type.
    pub element: Element,
    /// Examples of a batch: passes with other batches differ in the last bits.
    pub batch: usize,
    /// Examples of a shard.
    pub shard_rows: usize,
    /// Rows of a tile.
    pub tile_rows: usize,
    /// Layers, in the order of their numbers.
    pub layers: Vec<ManifestLayer>,
}

/// A layer of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestLayer {
    /// Its name.
    pub site: String,
    /// Extents of its gradient.
    pub shape: LayerShape,
    /// Numbers of its compressed gradient.
    pub size: usize,
    /// SHA-256 of the file of its maps.
    pub maps: String,
}

/// Identification of a network and its examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// A text that identifies the network, such as digests of weights.
    pub network: String,
    /// A text that identifies the examples.
    pub examples: String,
    /// Number of examples.
    pub count: usize,
}

/// Options of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The differentiated quantity of a target.
    pub target: Target,
    /// Reduction of the losses of targets to the loss of an example.
    pub reduction: Reduction,
    /// Number type.
    pub element: Element,
    /// Examples of a batch.
    pub batch: usize,
    /// Examples of a shard.
    pub shard_rows: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        let (reduction, element) = (Reduction::Mean, Element::F32);
        Self { target: Target::Loss, reduction, element, batch: 8, shard_rows: 1024 }
    }
}

/// A file of the maps of one layer, in parts.
pub(crate) type MapFile = Vec<Vec<u8>>;

impl Manifest {
    /// The manifest of the gradients of a network, with the files of the maps of its layers.
    ///
    /// # Errors
    /// [`AttributeError::Setting`] for no examples, or batches or shards of none.
    pub(crate) fn of(
        sources: &Sources,
        map: &GradientMap,
        (compressor, key): (CompressorSpec, CompressorKey),
        options: StoreOptions,
    ) -> Result<(Self, Vec<MapFile>), AttributeError> {
        let StoreOptions { target, reduction, element, batch, shard_rows } = options;
        for (name, number) in [
            ("number of examples", sources.count),
            ("batch", batch),
            ("rows of a shard", shard_rows),
        ] {
            if number == 0 {
                let expected = "at least 1".into();
                return Err(AttributeError::Setting { name, found: "0".into(), expected });
            }
        }
        let (mut layers, mut files) = (Vec::new(), Vec::new());
        for layer in map.layers() {
            let file = layer.map.parts().encode()?;
            layers.push(ManifestLayer {
                site: layer.site.0.clone(),
                shape: layer.map.shape(),
                size: layer.map.size(),
                maps: sha256_hex(&file.concat()),
            });
            files.push(file);
        }
        let tile_rows = (TILE_BYTES / (4 * map.size()).max(1)).clamp(1, TILE_ROWS).min(shard_rows);
        let manifest = Self {
            format: FORMAT,
            network: sha256_hex(sources.network.as_bytes()),
            examples: sha256_hex(sources.examples.as_bytes()),
            count: sources.count,
            target,
            reduction,
            compressor,
            key,
            element,
            batch,
            shard_rows,
            tile_rows,
            layers,
        };
        Ok((manifest, files))
    }

    /// The differentiated quantity of an example.
    #[must_use]
    pub fn objective(&self) -> Objective {
        Objective { target: self.target, reduction: self.reduction }
    }

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.count.div_ceil(self.shard_rows)
    }

    /// Numbers of a compressed gradient.
    #[must_use]
    pub fn size(&self) -> usize {
        self.layers.iter().map(|layer| layer.size).sum()
    }

    /// Where the numbers of each layer are in a row.
    #[must_use]
    pub fn columns(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let next = |layer: &ManifestLayer| {
            let start = end;
            end += layer.size;
            start..end
        };
        self.layers.iter().map(next).collect()
    }

    /// Parameters with gradients.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(|layer| layer.shape.numbers() as u64).sum()
    }

    /// Checks a manifest from a file: impossible numbers would request too much memory.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("format {}, expected {FORMAT}", self.format));
        }
        let numbers = [self.count, self.batch, self.shard_rows, self.tile_rows, self.layers.len()];
        if numbers.contains(&0) || self.layers.iter().any(|layer| layer.size == 0) {
            return Err("a number of examples, rows, layers or columns is zero".into());
        }
        let mut size = 0usize;
        for layer in &self.layers {
            let sum = size.checked_add(layer.size);
            size = sum.ok_or("sizes of layers are out of range")?;
        }
        let bytes = size.checked_mul(8).and_then(|bytes| bytes.checked_mul(self.shard_rows + 1));
        let is_possible =
            bytes.is_some_and(|bytes| bytes < 1 << 60) && self.tile_rows <= self.shard_rows;
        if is_possible { Ok(()) } else { Err("a shard would be larger than any disk".into()) }
    }

    /// Checks that a store with this manifest is the requested one.
    pub(super) fn check_same(&self, path: &Path, expected: &Self) -> Result<(), AttributeError> {
        let differs = |field, found: String, expected: String| AttributeError::OtherStore {
            path: path.into(),
            field,
            found: shown(&found),
            expected: shown(&expected),
        };
        let texts = |one: &Self| {
            [
                ("the network", one.network.clone()),
                ("the text or data", one.examples.clone()),
                ("the number of examples", one.count.to_string()),
                ("the target", one.target.to_string()),
                ("the reduction", one.reduction.to_string()),
                ("the compressor", one.compressor.to_string()),
                ("the seed", one.key.seed.to_string()),
                ("the checkpoint", one.key.checkpoint.to_string()),
                ("the number type", one.element.to_string()),
                ("the batch", one.batch.to_string()),
                ("the number of rows of a shard", one.shard_rows.to_string()),
                ("the number of layers", one.layers.len().to_string()),
            ]
        };
        for ((field, found), (_, expected)) in texts(self).into_iter().zip(texts(expected)) {
            if found != expected {
                return Err(differs(field, found, expected));
            }
        }
        for (found, expected) in self.layers.iter().zip(&expected.layers) {
            if found != expected {
                let text =
                    |layer: &ManifestLayer| format!("{} with maps {}", layer.site, layer.maps);
                return Err(differs("a layer", text(found), text(expected)));
            }
        }
        Ok(())
    }
}
