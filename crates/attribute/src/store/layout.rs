//! Layout of a shard.
//!
//! ```text
//! header   4096 bytes: magic, numbers of the shard, of its rows and of its first example; what
//!          store it belongs to; a checksum (u128)
//! tiles    rows of a tile, layer by layer: (rows, numbers of the layer), at multiples of 4096
//! footer   for each row its example, targets (u64), loss, norm (f64); scales (f32) by row and
//!          layer of types that have them; a checksum of each tile; a checksum of the footer
//! ```
//!
//! All numbers are little-endian. A layer of a tile is contiguous, which is how moments and scores
//! read it.

use super::{Element, Manifest};
use std::ops::Range;

/// Bytes of the header, and the multiple at which tiles begin.
pub(super) const PAGE: usize = 4096;
/// First bytes of a shard.
pub(super) const MAGIC: &[u8; 8] = b"LWGRADS1";
/// Bytes of a checksum.
pub(super) const CHECKSUM: usize = 16;
/// Bytes for each row of a footer, without scales.
const ROW: usize = 32;

/// Layout of a shard with this many rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    rows: usize,
    tile_rows: usize,
    element: Element,
    /// Columns of each layer in a row of all numbers.
    layers: Vec<Range<usize>>,
    size: usize,
}

impl Layout {
    pub(super) fn of(manifest: &Manifest, rows: usize) -> Self {
        let (mut layers, mut size) = (Vec::with_capacity(manifest.layers.len()), 0);
        for layer in &manifest.layers {
            layers.push(size..size + layer.size);
            size += layer.size;
        }
        let Manifest { tile_rows, element, .. } = *manifest;
        Self { rows, tile_rows, element, layers, size }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn layers(&self) -> &[Range<usize>] {
        &self.layers
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn tiles(&self) -> usize {
        self.rows.div_ceil(self.tile_rows)
    }

    /// Rows of a tile.
    pub(super) fn rows_of(&self, tile: usize) -> Range<usize> {
        let start = tile * self.tile_rows;
        start..self.rows.min(start + self.tile_rows)
    }

    fn tile_bytes(&self, rows: usize) -> usize {
        rows * self.size * self.element.bytes()
    }

    /// Bytes of a tile in the file, without padding.
    pub(super) fn tile(&self, tile: usize) -> Range<usize> {
        let start = PAGE + tile * self.tile_bytes(self.tile_rows).next_multiple_of(PAGE);
        start..start + self.tile_bytes(self.rows_of(tile).len())
    }

    /// Bytes of a layer within a tile.
    pub(super) fn layer(&self, tile: usize, layer: usize) -> Range<usize> {
        let (rows, columns) = (self.rows_of(tile).len(), &self.layers[layer]);
        self.element.bytes() * rows * columns.start..self.element.bytes() * rows * columns.end
    }

    fn scales(&self) -> usize {
        if self.element.is_scaled() { self.rows * self.layers.len() } else { 0 }
    }

    /// Offset of the footer.
    pub(super) fn footer(&self) -> usize {
        match self.tiles() {
            0 => PAGE,
            tiles => self.tile(tiles - 1).end.next_multiple_of(PAGE),
        }
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> usize {
        self.footer() + ROW * self.rows + 4 * self.scales() + CHECKSUM * (self.tiles() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_begin_at_pages_and_layers_fill_them_without_gaps() {
        for element in Element::ALL {
            let layers = vec![0..3, 3..10, 10..50];
            let layout = Layout { rows: 600, tile_rows: 256, element, layers, size: 50 };
            assert_eq!(layout.tiles(), 3);
            let mut end = 0;
            for tile in 0..3 {
                let bytes = layout.tile(tile);
                assert!(
                    bytes.start.is_multiple_of(PAGE) && bytes.start >= end.max(PAGE),
                    "{bytes:?}"
                );
                end = bytes.end;
                let parts: Vec<Range<usize>> = (0..3).map(|at| layout.layer(tile, at)).collect();
                assert!(parts[0].start == 0 && parts[2].end == bytes.len());
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            }
            assert_eq!(layout.rows_of(2), 512..600);
            let scales = if element.is_scaled() { 4 * 600 * 3 } else { 0 };
            assert!(layout.footer() >= end && layout.footer() < end + PAGE);
            assert_eq!(layout.bytes(), layout.footer() + 600 * 32 + scales + 4 * 16);
        }
    }
}
