//! Pairs of atoms within a cutoff.

/// One unordered pair of atoms. Filters depend on the distance alone, so both directions share it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The atom with the smaller number (equal to `second` for an atom and its own image).
    pub first: u32,
    /// The other atom.
    pub second: u32,
    /// Lattice translations added to the position of `second`.
    pub image: [i32; 3],
    /// Position of `first` minus position of the image of `second`.
    pub vector: [f64; 3],
}

/// One entry of an atom's row: another atom that sends to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The sender.
    pub atom: u32,
    /// Number of the pair in [`Neighbours::pairs`].
    pub pair: u32,
    /// Whether the receiver is `second`, so that receiver minus sender is minus the pair's vector.
    pub reversed: bool,
}

/// All pairs of one structure, or of a batch whose atoms are numbered through, within a cutoff:
/// distance below the cutoff, strictly, and not below the lower cutoff. The edge of an atom to
/// itself (distance zero), which TensorNet has, is implied and not listed.
///
/// Pairs are sorted by (first, second, image); rows by (atom, pair, reversed). An atom that sees its
/// own image has two entries for that pair, one reversed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbours {
    /// Unordered pairs.
    pub pairs: Vec<Pair>,
    /// Where the row of each atom starts in `entries`; one more than atoms.
    pub starts: Vec<u32>,
    /// Rows of all atoms.
    pub entries: Vec<Neighbour>,
}

impl Neighbours {
    /// The senders of an atom.
    ///
    /// # Panics
    /// If there is no such atom.
    #[must_use]
    pub fn of(&self, atom: usize) -> &[Neighbour] {
        &self.entries[self.starts[atom] as usize..self.starts[atom + 1] as usize]
    }
}
