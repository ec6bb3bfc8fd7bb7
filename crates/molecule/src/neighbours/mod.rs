//! Pairs of atoms within a cutoff: `d < upper`, strictly, and `d >= lower`, in open space or in
//! periodic cells of any shape and size, also smaller than the cutoff.
//!
//! [`Neighbours::within`] chooses the fastest method: every pair for a few atoms ([`brute`]), else
//! bins ([`grid`]). Both measure distances with the same sums, so their lists are equal to the last
//! bit. [`SkinList`] keeps pairs a little beyond the cutoff while atoms move.

mod brute;
mod frame;
mod grid;
mod skin;
mod source;
#[cfg(test)]
mod tests;

pub use skin::SkinList;
pub(crate) use source::PairSource;

use crate::error::MoleculeError;
use crate::structure::{Cell, Structure};
use crate::units::Length;
use crate::vectors::dot;
use frame::Frame;

/// Atoms below this distance are at the same place, in any unit of length that models use.
pub(crate) const LEAST: f64 = 1e-6;
/// Cells between an atom and the origin, at most, so that images can be counted.
const FAR: f64 = (i32::MAX / 8) as f64;
/// Images of the cell within the cutoff, at most: a cutoff of twenty widths.
const IMAGES: f64 = 65_536.0;
/// Pairs for each atom on average at most, and of all atoms in any case: 20 A of water are 1700.
const PAIRS: (usize, usize) = (2048, 1 << 16);
/// Atoms in a cubic angstrom, more than hydrogen has in any planet.
const DENSEST: f64 = 1.0;
/// Others within half an angstrom, at most: molecules have none.
const CLOSE: (f64, usize) = (0.5, 12);
/// Largest number of atoms for which every pair is tried: in open space, and with images.
const FEW: (usize, usize) = (48, 6);

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

/// Distances at which atoms interact: `lower..upper`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cutoff {
    /// Smallest one.
    pub lower: f64,
    /// The first that is too far.
    pub upper: f64,
    /// The unit of both, and of positions.
    pub length: Length,
}

impl Cutoff {
    /// In angstroms.
    #[must_use]
    pub fn angstroms(lower: f64, upper: f64) -> Self {
        Self { lower, upper, length: Length::Angstrom }
    }

    /// Checks that both are distances.
    fn check(self) -> Result<Self, MoleculeError> {
        let Self { lower, upper, .. } = self;
        match lower >= 0.0 && lower < upper && upper.is_finite() {
            true => Ok(self),
            false => Err(MoleculeError::Cutoff { lower, upper }),
        }
    }
}

/// All pairs of one structure, or of a batch whose atoms are numbered through, within a cutoff:
/// distance below the cutoff, strictly, and not below the lower cutoff. The edge of an atom to
/// itself (distance zero), which TensorNet has, is implied and not listed.
///
/// Pairs are sorted by (first, second, image); rows by (atom, pair, reversed). An atom that sees
/// its own image has two entries for that pair, one reversed.
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
    /// The pairs of a structure, found in the fastest way.
    ///
    /// # Errors
    /// Coincident atoms, by number; positions or a cutoff that are not finite; a cell without
    /// volume; or far more pairs than matter has.
    pub fn within(structure: &Structure, cutoff: Cutoff) -> Result<Self, MoleculeError> {
        let search = Search::new(structure, cutoff)?;
        let few = if search.frame.periodic == 0 { FEW.0 } else { FEW.1 };
        let pairs = if search.positions.len() <= few { brute::pairs } else { grid::pairs };
        Ok(Self::from_pairs(search.positions.len(), pairs(&search)?))
    }

    /// The same by trial of every pair and image, in quadratic time.
    ///
    /// # Errors
    /// As [`Neighbours::within`].
    pub fn brute_force(structure: &Structure, cutoff: Cutoff) -> Result<Self, MoleculeError> {
        let search = Search::new(structure, cutoff)?;
        Ok(Self::from_pairs(search.positions.len(), brute::pairs(&search)?))
    }

    /// The same by bins, in linear time.
    ///
    /// # Errors
    /// As [`Neighbours::within`].
    pub fn cell_list(structure: &Structure, cutoff: Cutoff) -> Result<Self, MoleculeError> {
        let search = Search::new(structure, cutoff)?;
        Ok(Self::from_pairs(search.positions.len(), grid::pairs(&search)?))
    }

    /// The pairs of several structures, whose atoms are numbered through. Atoms of different
    /// structures are not pairs.
    ///
    /// # Errors
    /// As [`Neighbours::within`], with the number of the structure.
    pub fn of_batch<'a>(
        structures: impl IntoIterator<Item = &'a Structure>,
        cutoff: Cutoff,
    ) -> Result<Self, MoleculeError> {
        let mut batch = Self { starts: vec![0], ..Self::default() };
        for (index, structure) in structures.into_iter().enumerate() {
            let one = Self::within(structure, cutoff).map_err(|error| error.of_structure(index))?;
            batch.append(&one);
        }
        Ok(batch)
    }

    /// Adds the pairs of other atoms, numbered after those here.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` entries in all.
    pub fn append(&mut self, other: &Self) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        assert!(self.entries.len() + other.entries.len() <= u32::MAX as usize, "too many pairs");
        let [atoms, pairs, entries] =
            [self.atoms(), self.pairs.len(), self.entries.len()].map(|count| count as u32);
        self.pairs.extend(other.pairs.iter().map(|pair| Pair {
            first: pair.first + atoms,
            second: pair.second + atoms,
            ..*pair
        }));
        self.starts.extend(other.starts.iter().skip(1).map(|start| start + entries));
        self.entries.extend(other.entries.iter().map(|entry| Neighbour {
            atom: entry.atom + atoms,
            pair: entry.pair + pairs,
            ..*entry
        }));
    }

    /// Number of atoms.
    #[must_use]
    pub fn atoms(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Rows for pairs in order.
    fn from_pairs(atoms: usize, pairs: Vec<Pair>) -> Self {
        let mut starts = vec![0u32; atoms + 1];
        for pair in &pairs {
            starts[pair.first as usize + 1] += 1;
            starts[pair.second as usize + 1] += 1;
        }
        for atom in 0..atoms {
            starts[atom + 1] += starts[atom];
        }
        let mut next = starts.clone();
        let empty = Neighbour { atom: 0, pair: 0, reversed: false };
        let mut entries = vec![empty; 2 * pairs.len()];
        let mut put = |row: u32, entry| {
            let place = &mut next[row as usize];
            entries[*place as usize] = entry;
            *place += 1;
        };
        // In this order, every row gets its senders in order.
        for (number, pair) in pairs.iter().enumerate() {
            let number = number as u32;
            put(pair.first, Neighbour { atom: pair.second, pair: number, reversed: false });
            put(pair.second, Neighbour { atom: pair.first, pair: number, reversed: true });
        }
        Self { pairs, starts, entries }
    }

    /// The senders of an atom.
    ///
    /// # Panics
    /// If there is no such atom.
    #[must_use]
    pub fn of(&self, atom: usize) -> &[Neighbour] {
        &self.entries[self.starts[atom] as usize..self.starts[atom + 1] as usize]
    }
}

/// What is searched: a structure that was checked, and the cutoff.
struct Search<'a> {
    positions: &'a [[f64; 3]],
    cell: Option<&'a Cell>,
    frame: Frame,
    lower: f64,
    upper: f64,
    /// An angstrom in the unit of the cutoff.
    angstrom: f64,
}

impl<'a> Search<'a> {
    fn new(structure: &'a Structure, cutoff: Cutoff) -> Result<Self, MoleculeError> {
        let Cutoff { lower, upper, length } = cutoff.check()?;
        let angstrom = 1.0 / length.factor();
        structure.check()?;
        let cell = structure.cell.as_ref();
        let positions = &structure.positions[..];
        let search = Self { positions, cell, frame: Frame::new(cell)?, lower, upper, angstrom };
        for (atom, position) in positions.iter().enumerate() {
            let along = search.frame.coordinates(position);
            if along[..search.frame.periodic].iter().any(|x| x.abs() > FAR) {
                return Err(search.too_far(atom));
            }
        }
        Ok(search)
    }

    /// The pair of these atoms, if it is within the cutoff.
    fn pair(
        &self,
        first: usize,
        second: usize,
        image: [i32; 3],
    ) -> Result<Option<Pair>, MoleculeError> {
        let vector = vector(self.positions, self.cell, first, second, image);
        let distance = dot(&vector, &vector).sqrt();
        if distance < LEAST {
            return Err(MoleculeError::Coincident { first, second, image, distance, least: LEAST });
        }
        let [first, second] = [first, second].map(|atom| atom as u32);
        let within = distance < self.upper && distance >= self.lower;
        Ok(within.then_some(Pair { first, second, image, vector }))
    }

    fn check_count(&self, pairs: usize) -> Result<(), MoleculeError> {
        let cutoff = self.upper / self.angstrom;
        // Every pair is that of two atoms.
        let dense = DENSEST * 2.0 / 3.0 * std::f64::consts::PI * cutoff.powi(3);
        let each = (dense.ceil() as usize).min(PAIRS.0);
        let limit = (each * self.positions.len()).max(PAIRS.1).min(u32::MAX as usize / 2);
        if pairs > limit { Err(self.crowded(limit)) } else { Ok(()) }
    }

    /// Rejects structures so dense that the number of pairs would be excessive.
    fn check_close(&self, atom: usize, others: usize) -> Result<(), MoleculeError> {
        let limit = CLOSE.1;
        match others > limit {
            false => Ok(()),
            true => Err(MoleculeError::Dense { atom, limit, distance: self.close() }),
        }
    }

    /// Distance of close atoms.
    fn close(&self) -> f64 {
        CLOSE.0 * self.angstrom
    }

    fn check_images(&self, images: f64) -> Result<(), MoleculeError> {
        if images > IMAGES { Err(self.crowded(IMAGES as usize)) } else { Ok(()) }
    }

    fn crowded(&self, limit: usize) -> MoleculeError {
        MoleculeError::Crowded { atoms: self.positions.len(), limit, cutoff: self.upper }
    }

    fn too_far(&self, atom: usize) -> MoleculeError {
        let position = self.positions[atom];
        let axis = (0..3).max_by(|a, b| position[*a].abs().total_cmp(&position[*b].abs()));
        let axis = axis.unwrap_or(0);
        let expected = "a position within 200 million cells of the origin";
        MoleculeError::Position { atom, axis, value: position[axis], expected }
    }
}

/// Position of an atom minus that of an image of another.
fn vector(
    positions: &[[f64; 3]],
    cell: Option<&Cell>,
    first: usize,
    second: usize,
    image: [i32; 3],
) -> [f64; 3] {
    let (to, mut from) = (positions[first], positions[second]);
    if let Some(cell) = cell {
        // Rows that do not repeat may hold anything.
        for (count, row) in image.iter().zip(&cell.rows).filter(|(count, _)| **count != 0) {
            for (x, length) in from.iter_mut().zip(row) {
                *x += f64::from(*count) * length;
            }
        }
    }
    [0, 1, 2].map(|x| to[x] - from[x])
}
