//! Reading a shard.

use super::layout::{CHECKSUM, Layout};
use super::writer::header;
use super::{Element, GradientStore};
use crate::AttributeError;
use linwright_run::state;
use linwright_tensor::dtype::floats;
use linwright_tensor::kernels::elementwise::all_finite;
use linwright_tensor::kernels::fingerprint::{Fingerprinting, fingerprint};
use linwright_tensor::{MappedFile, Mat, MatRef, Scratch};
use std::ops::Range;
use std::path::PathBuf;

/// Rows of a layer that are shown at a time, which stay in the second-level cache.
const SCANNED: usize = 12;

/// Callback for some rows of a layer: its number, that of the first row in the tile, and the
/// numbers (rows, numbers of the layer).
pub(crate) type OnRows<'a> = dyn FnMut(usize, usize, MatRef<'_, f32>) + 'a;

/// A shard: a mapped file whose header and footer were checked. A tile is checked when it is read.
#[derive(Debug)]
pub struct ShardFile {
    path: PathBuf,
    map: MappedFile,
    layout: Layout,
    element: Element,
    rows: Vec<StoredRow>,
    scales: Vec<f32>,
    checksums: Vec<u128>,
}

/// Metadata of an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredRow {
    /// Number of the example, from zero.
    pub example: usize,
    /// Number of its targets.
    pub targets: u64,
    /// Its loss in nats, summed or averaged like its gradient.
    pub loss: f64,
    /// Length of its compressed gradient.
    pub norm: f64,
}

impl ShardFile {
    pub(super) fn open(store: &GradientStore, shard: usize) -> Result<Self, AttributeError> {
        let path = store.shard_path(shard);
        let read = |source| AttributeError::Read { path: path.clone(), source };
        let damaged = |reason: String| AttributeError::Damaged { path: path.clone(), reason };
        let map = state::open(&path).and_then(MappedFile::of).map_err(read)?;
        let layout = Layout::of(store.manifest(), store.examples_of(shard).len());
        let (bytes, expected) = (map.bytes(), layout.bytes());
        if bytes.len() != expected {
            return Err(damaged(format!("{} bytes, expected {expected}", bytes.len())));
        }
        let of_store = header(store, shard);
        if bytes[..of_store.len()] != of_store {
            return Err(damaged("its header is not the one of this shard of this store".into()));
        }
        let (footer, checksum) =
            bytes[layout.footer()..].split_at(layout.bytes() - layout.footer() - CHECKSUM);
        if fingerprint(footer).to_le_bytes() != checksum {
            return Err(damaged("the checksum of its footer differs".into()));
        }
        let element = store.manifest().element;
        let mut numbers = footer;
        let rows = (0..layout.rows()).map(|_| StoredRow::take(&mut numbers)).collect();
        let scales = if element.is_scaled() { layout.rows() * layout.layers().len() } else { 0 };
        let scales = (0..scales).map(|_| f32::from_le_bytes(take(&mut numbers))).collect();
        let checksums =
            (0..layout.tiles()).map(|_| u128::from_le_bytes(take(&mut numbers))).collect();
        Ok(Self { path, map, layout, element, rows, scales, checksums })
    }

    /// Metadata of its examples.
    #[must_use]
    pub fn rows(&self) -> &[StoredRow] {
        &self.rows
    }

    /// Checksums of its tiles.
    pub(crate) fn checksums(&self) -> &[u128] {
        &self.checksums
    }

    /// Number of tiles.
    #[must_use]
    pub fn tiles(&self) -> usize {
        self.layout.tiles()
    }

    /// Reads a tile and checks it.
    ///
    /// # Errors
    /// [`AttributeError::Damaged`].
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn tile(&self, tile: usize) -> Result<Tile<'_>, AttributeError> {
        if fingerprint(&self.map.bytes()[self.padded(tile)]) != self.checksums[tile] {
            return Err(self.damaged(format!("the checksum of tile {tile} differs")));
        }
        Ok(Tile { shard: self, tile })
    }

    /// A tile that [`Self::scan`] has checked.
    pub(crate) fn tile_that_was_checked(&self, tile: usize) -> Tile<'_> {
        Tile { shard: self, tile }
    }

    /// Rows of a tile, in the shard.
    pub(crate) fn rows_of(&self, tile: usize) -> Range<usize> {
        self.layout.rows_of(tile)
    }

    /// Visits all numbers of a tile in the order of the file, some rows of a layer at a time, and
    /// verifies its checksum meanwhile: results derived from it are valid only if there is no
    /// error. Non-finite numbers are passed on.
    ///
    /// # Errors
    /// [`AttributeError::Damaged`].
    ///
    /// # Panics
    /// If there is no such tile.
    pub(crate) fn scan(&self, tile: usize, show: &mut OnRows<'_>) -> Result<(), AttributeError> {
        let (layout, rows) = (&self.layout, self.layout.rows_of(tile));
        let bytes = &self.map.bytes()[self.padded(tile)];
        let (mut read, mut end) = (Fingerprinting::default(), 0);
        let widest = layout.layers().iter().map(Range::len).max().unwrap_or(0);
        let mut values = Scratch::new(SCANNED * widest);
        for (layer, columns) in layout.layers().iter().map(Range::len).enumerate() {
            for first in (0..rows.len()).step_by(SCANNED) {
                let count = SCANNED.min(rows.len() - first);
                let start = end;
                end += count * columns * self.element.bytes();
                let from = read.taken();
                read.take(&bytes[from..end]);
                let numbers = match self.element {
                    Element::F32 => floats(&bytes[start..end]),
                    Element::Bf16 | Element::F16 | Element::Int8 => {
                        let into = &mut values[..count * columns];
                        self.decode(&bytes[start..end], rows.start + first, layer, into);
                        into
                    }
                };
                show(layer, first, MatRef::new(numbers, count, columns));
            }
        }
        let from = read.taken();
        match read.finish(&bytes[from..]) == self.checksums[tile] {
            true => Ok(()),
            false => Err(self.damaged(format!("the checksum of tile {tile} differs"))),
        }
    }

    /// Decodes rows of a layer, of which the first one has a number in the shard.
    fn decode(&self, bytes: &[u8], first: usize, layer: usize, values: &mut [f32]) {
        let (layers, columns) = (self.layout.layers().len(), self.layout.layers()[layer].len());
        let rows = bytes.chunks_exact(columns * self.element.bytes());
        for (at, (bytes, values)) in rows.zip(values.chunks_exact_mut(columns)).enumerate() {
            let scale = self.scales.get((first + at) * layers + layer).copied().unwrap_or(1.0);
            self.element.decode(bytes, scale, values);
        }
    }

    /// The bytes of a tile, including padding.
    fn padded(&self, tile: usize) -> Range<usize> {
        let last = tile + 1 == self.layout.tiles();
        let end = if last { self.layout.footer() } else { self.layout.tile(tile + 1).start };
        self.layout.tile(tile).start..end
    }

    fn damaged(&self, reason: String) -> AttributeError {
        AttributeError::Damaged { path: self.path.clone(), reason }
    }
}

impl StoredRow {
    fn take(bytes: &mut &[u8]) -> Self {
        let example = u64::from_le_bytes(take(bytes)) as usize;
        let targets = u64::from_le_bytes(take(bytes));
        let (loss, norm) = (f64::from_le_bytes(take(bytes)), f64::from_le_bytes(take(bytes)));
        Self { example, targets, loss, norm }
    }
}

/// The next bytes of a footer, whose length was checked.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (head, rest) = bytes.split_first_chunk().expect("the length of a footer was checked");
    *bytes = rest;
    *head
}

/// Some consecutive examples of a shard, in one mapped and checked range.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a> {
    shard: &'a ShardFile,
    tile: usize,
}

impl Tile<'_> {
    /// Its rows in the shard.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.shard.layout.rows_of(self.tile)
    }

    /// Writes the numbers of a layer to `values` (rows, numbers of the layer).
    ///
    /// # Errors
    /// [`AttributeError::Damaged`] for numbers that are not finite.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn layer(&self, layer: usize, values: &mut Mat<f32>) -> Result<(), AttributeError> {
        let ShardFile { layout, element, scales, map, .. } = self.shard;
        let (rows, columns) = (self.rows(), layout.layers()[layer].len());
        let bytes = &map.bytes()[layout.tile(self.tile)][layout.layer(self.tile, layer)];
        values.resize(rows.len(), columns);
        for (at, (row, bytes)) in
            rows.zip(bytes.chunks_exact(columns * element.bytes())).enumerate()
        {
            let scale = scales.get(row * layout.layers().len() + layer).copied().unwrap_or(1.0);
            element.decode(bytes, scale, values.row_mut(at));
        }
        match all_finite(values.data()) {
            true => Ok(()),
            false => Err(self
                .shard
                .damaged(format!("numbers of layer {layer} in tile {} are not finite", self.tile))),
        }
    }

    /// Writes the numbers of some layers, one after the other, to `rows` (rows, their numbers).
    ///
    /// # Errors
    /// As [`Self::layer`].
    pub(crate) fn layers(
        &self,
        layers: Range<usize>,
        rows: &mut Mat<f64>,
    ) -> Result<(), AttributeError> {
        let all = self.shard.layout.layers();
        let start = all[layers.start].start;
        rows.reset(self.rows().len(), all[layers.end - 1].end - start);
        let mut values = Mat::default();
        for layer in layers {
            self.layer(layer, &mut values)?;
            let columns = all[layer].start - start..all[layer].end - start;
            for row in 0..values.rows() {
                let into = rows.row_mut(row)[columns.clone()].iter_mut();
                into.zip(values.row(row)).for_each(|(wide, value)| *wide = f64::from(*value));
            }
        }
        Ok(())
    }

    /// Lets the system reclaim the memory of the tile.
    pub fn release(&self) {
        self.shard.map.release(self.shard.layout.tile(self.tile));
    }
}
