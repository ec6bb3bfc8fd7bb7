//! The choice of a tile for this machine.

use super::tile::Tile;

impl Tile {
    /// The best tile for this machine.
    pub(super) fn of_this_machine() -> Option<Self> {
        Self::of_rows(usize::MAX)
    }

    /// Every tile for this machine.
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

    /// The tile for this machine whose panels waste the least of `rows` rows.
    pub(super) fn for_rows(rows: usize) -> Option<Self> {
        let highest = Self::of_this_machine()?.rows;
        Self::of_rows(rows.div_ceil(rows.div_ceil(highest).max(1)))
    }

    /// The lowest tile of at least `rows` rows, or the highest.
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
