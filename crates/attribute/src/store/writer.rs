//! Writing a shard.

use super::layout::{CHECKSUM, Layout, MAGIC, PAGE};
use super::{Element, GradientStore};
use crate::{AttributeError, Gradients};
use linwright_run::atomic::{AtomicFile, Replace};
use linwright_tensor::kernels::fingerprint::fingerprint;
use linwright_tensor::{MatRef, parallel};

/// A shard being written, a tile at a time. It appears when it is finished.
pub(crate) struct ShardWriter {
    file: AtomicFile,
    layout: Layout,
    element: Element,
    first: usize,
    /// Rows that do not fill a tile yet.
    pending: Vec<f32>,
    /// Finished tiles.
    tiles: usize,
    targets: Vec<u64>,
    losses: Vec<f64>,
    norms: Vec<f64>,
    /// By row and layer.
    scales: Vec<f32>,
    checksums: Vec<u128>,
}

impl ShardWriter {
    /// Starts a shard of at most `limit` bytes.
    pub(crate) fn create(
        store: &GradientStore,
        shard: usize,
        limit: Option<u64>,
    ) -> Result<Self, AttributeError> {
        let file = AtomicFile::create(&store.shard_path(shard), Replace::State)?;
        let mut file = limit.into_iter().fold(file, AtomicFile::limit);
        let examples = store.examples_of(shard);
        let layout = Layout::of(store.manifest(), examples.len());
        file.write(&header(store, shard))?;
        let (element, pending) = (store.manifest().element, Vec::new());
        let (targets, losses, norms) = (Vec::new(), Vec::new(), Vec::new());
        let (tiles, scales, checksums) = (0, Vec::new(), Vec::new());
        let first = examples.start;
        Ok(Self {
            file,
            layout,
            element,
            first,
            pending,
            tiles,
            targets,
            losses,
            norms,
            scales,
            checksums,
        })
    }

    /// Appends the gradients of the next examples.
    pub(crate) fn push(&mut self, gradients: &Gradients) -> Result<(), AttributeError> {
        assert_eq!(gradients.rows.cols(), self.layout.size(), "numbers of a gradient");
        for example in 0..gradients.rows.rows() {
            let row = gradients.rows.row(example);
            self.norms.push(row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt());
            self.pending.extend_from_slice(row);
            self.targets.push(gradients.targets[example]);
            self.losses.push(gradients.losses[example]);
            let rows = self.layout.rows_of(self.tiles).len();
            if self.pending.len() == rows * self.layout.size() {
                self.write_tile(rows)?;
            }
        }
        Ok(())
    }

    /// Writes the pending rows as a tile.
    fn write_tile(&mut self, rows: usize) -> Result<(), AttributeError> {
        let (pending, element) =
            (MatRef::new(&self.pending, rows, self.layout.size()), self.element);
        let encoded = parallel::map(self.layout.layers().to_vec(), |_, columns| {
            let part = pending.columns(columns.start, columns.len());
            let mut bytes = Vec::with_capacity(rows * columns.len() * element.bytes());
            let scales: Vec<f32> =
                (0..rows).map(|row| element.encode(part.row(row), &mut bytes)).collect();
            (bytes, scales)
        });
        let mut tile =
            Vec::with_capacity(self.layout.tile(self.tiles).len().next_multiple_of(PAGE));
        encoded.iter().for_each(|(bytes, _)| tile.extend_from_slice(bytes));
        tile.resize(tile.len().next_multiple_of(PAGE), 0);
        if element.is_scaled() {
            for row in 0..rows {
                self.scales.extend(encoded.iter().map(|(_, scales)| scales[row]));
            }
        }
        self.checksums.push(fingerprint(&tile));
        self.file.write(&tile)?;
        self.tiles += 1;
        self.pending.clear();
        Ok(())
    }

    /// Writes the footer and publishes the shard.
    ///
    /// # Panics
    /// If examples are missing.
    pub(crate) fn finish(mut self) -> Result<(), AttributeError> {
        assert_eq!(self.targets.len(), self.layout.rows(), "examples of a shard");
        let mut footer = Vec::with_capacity(self.layout.bytes() - self.layout.footer());
        for row in 0..self.layout.rows() {
            footer.extend(((self.first + row) as u64).to_le_bytes());
            footer.extend(self.targets[row].to_le_bytes());
            footer.extend(self.losses[row].to_le_bytes());
            footer.extend(self.norms[row].to_le_bytes());
        }
        self.scales.iter().for_each(|scale| footer.extend(scale.to_le_bytes()));
        self.checksums.iter().for_each(|checksum| footer.extend(checksum.to_le_bytes()));
        footer.extend(fingerprint(&footer).to_le_bytes());
        self.file.write(&footer)?;
        Ok(self.file.commit()?)
    }
}

/// The header of a shard, which names the store it belongs to.
pub(super) fn header(store: &GradientStore, shard: usize) -> Vec<u8> {
    let examples = store.examples_of(shard);
    let mut header = MAGIC.to_vec();
    for number in [shard, examples.len(), examples.start] {
        header.extend((number as u64).to_le_bytes());
    }
    header.extend(store.digest);
    header.resize(PAGE - CHECKSUM, 0);
    header.extend(fingerprint(&header).to_le_bytes());
    header
}
