//! What an instruction set brings to a matrix product.

/// Rows of the left factor, or columns of the right one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'a> {
    /// Where the first number of the first line stands first.
    pub data: &'a [f32],
    /// Numbers from one line to the next, or from one number of a line to the next.
    pub stride: usize,
    /// Whether the numbers of a line stand side by side, and not those of one place in all lines.
    pub along: bool,
}

impl Lines<'_> {
    /// Without the first lines, and without the first numbers of the others.
    pub(super) fn skip(self, lines: usize, numbers: usize) -> Self {
        let (far, near) = if self.along { (lines, numbers) } else { (numbers, lines) };
        Self { data: &self.data[far * self.stride + near..], ..self }
    }
}

/// Writes lines as a panel: number `q` of line `i` becomes `panel[q * width + i]`, where the width
/// is the tile's. Arguments: the lines, how many, how many numbers of each, the panel. Lines that a
/// panel lacks are zeros.
pub(super) type Pack = unsafe fn(Lines<'_>, usize, usize, &mut [f32]);

/// Where rows of two registers each lie.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only tiles look inside"))]
pub(super) struct Place<P> {
    /// The first register of the first row.
    pub at: P,
    /// Numbers from one row to the next.
    pub row: usize,
    /// Numbers from the first register of a row to the second.
    pub register: usize,
}

/// Writes or adds `alpha left right`. Arguments: numbers in a line, the left panel, the rows of the
/// right factor, those of the result, how many of the result's rows there are, alpha and whether to
/// add.
pub(super) type Multiply =
    unsafe fn(usize, *const f32, Place<*const f32>, Place<*mut f32>, usize, (f32, bool));

/// The part of a result that stays in registers while the inner dimension passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub rows: usize,
    pub cols: usize,
    /// Packs rows of the left factor, `rows` to a panel.
    pub pack_left: Pack,
    /// Packs columns of the right factor, `cols` to a panel.
    pub pack_right: Pack,
    pub multiply: Multiply,
}

impl Tile {
    /// Numbers of the largest tile.
    pub(super) const MOST: usize = 14 * 32;

    /// The best one that this machine can run.
    pub(super) fn of_this_machine() -> Option<Self> {
        Self::of_rows(usize::MAX)
    }

    /// Every one that this machine can run.
    #[cfg(test)]
    pub(super) fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            super::x86::all()
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            Vec::new()
        }
    }

    /// The one of this machine whose panels waste least of `rows` rows.
    pub(super) fn for_rows(rows: usize) -> Option<Self> {
        let highest = Self::of_this_machine()?.rows;
        Self::of_rows(rows.div_ceil(rows.div_ceil(highest).max(1)))
    }

    /// The lowest of at least `rows` rows, or the highest.
    fn of_rows(rows: usize) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            super::x86::tile_of(rows)
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = rows;
            None
        }
    }
}
