//! Tiles of a matrix product, one kind per instruction set.

/// Lines: rows of the left factor, or columns of the right one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a> {
    /// Offset of the first number of the first line.
    pub data: &'a [f32],
    /// Stride from line to line, or from number to number within a line.
    pub stride: usize,
    /// Whether the numbers of a line are adjacent, rather than those of equal index in all lines.
    pub along: bool,
}

impl Lines<'_> {
    /// Skips the first lines, and the first numbers of the others.
    pub(super) fn skip(self, lines: usize, numbers: usize) -> Self {
        let (far, near) = if self.along { (lines, numbers) } else { (numbers, lines) };
        Self { data: &self.data[far * self.stride + near..], ..self }
    }
}

/// Packs lines as a panel: number `q` of line `i` becomes `panel[q * width + i]`, where the width
/// is the tile's. Arguments: the lines, their number, the depth, the panel. Missing lines of a
/// panel are zeros.
pub(super) type Pack = unsafe fn(Lines<'_>, usize, usize, &mut [f32]);

/// Layout of rows of two registers each.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only tiles use the fields"))]
pub(super) struct Place<P> {
    /// The first register of the first row.
    pub at: P,
    /// Stride from one row to the next.
    pub row: usize,
    /// Distance from the first register of a row to the second.
    pub register: usize,
}

/// Where a product is written: the layout, and how many rows there are, at most those of the tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub place: Place<*mut f32>,
    pub height: usize,
}

/// How to write a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaling {
    /// Factor of the product.
    pub alpha: f32,
    /// Whether it is added to the existing values.
    pub add: bool,
}

/// Writes or adds `alpha left right`. Arguments: depth, left panel, rows of the right factor, rows
/// of the result, and how it is written.
pub(super) type Multiply = unsafe fn(usize, *const f32, Place<*const f32>, Output, Scaling);

/// Memory that is fetched during a product: a line for every [`Fetch::EVERY`] numbers of depth.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only tiles use the fields"))]
pub(super) struct Fetch {
    /// Addresses of lines.
    pub lines: *const *const f32,
    /// Step from one to the next, in numbers.
    pub shift: usize,
}

impl Fetch {
    /// Numbers of depth for each line.
    pub(super) const EVERY: usize = 3;
}

/// A [`Multiply`] that fetches lines into the second-level cache meanwhile, for the use of the
/// result. Lines that are only fetched need not exist.
pub(super) type MultiplyFetching =
    unsafe fn(usize, *const f32, Place<*const f32>, Output, Scaling, Fetch);

/// A tile: the part of a result that stays in registers during the inner loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub rows: usize,
    pub cols: usize,
    /// Packs rows of the left factor, `rows` per panel.
    pub pack_left: Pack,
    /// Packs columns of the right factor, `cols` per panel.
    pub pack_right: Pack,
    pub multiply: Multiply,
    /// [`Self::multiply`] of the same left panels, for results of at most half the height.
    pub multiply_half: Multiply,
    pub multiply_fetching: MultiplyFetching,
}

impl Tile {
    /// Size of the largest tile.
    pub(super) const MOST: usize = 14 * 32;
}
