//! Neighbour lists that last for several steps.

use super::{Cutoff, LEAST, Neighbours, Pair, vector};
use crate::error::MoleculeError;
use crate::structure::{Cell, Structure};
use crate::vectors::dot;

/// A list that holds pairs up to the cutoff plus a skin, and returns those within the cutoff. Pairs
/// are searched again when an atom has moved by half the skin, or when the cell or the atoms
/// change; in between, only distances are computed. Its lists equal those of
/// [`Neighbours::within`].
#[derive(Clone, Debug)]
pub struct SkinList {
    cutoff: Cutoff,
    skin: f64,
    /// Positions and cell of the last search; empty before the first.
    searched: Option<(Vec<[f64; 3]>, Option<Cell>)>,
    wide: Vec<Pair>,
    list: Neighbours,
    searches: usize,
}

impl SkinList {
    /// A list for a cutoff, with a skin beyond.
    ///
    /// # Errors
    /// A cutoff or skin that is not a distance.
    pub fn new(cutoff: Cutoff, skin: f64) -> Result<Self, MoleculeError> {
        let Cutoff { lower, upper, .. } = cutoff.check()?;
        if !(skin >= 0.0 && (upper + skin).is_finite()) {
            return Err(MoleculeError::Cutoff { lower, upper: upper + skin });
        }
        let (wide, list) = (Vec::new(), Neighbours::default());
        Ok(Self { cutoff, skin, searched: None, wide, list, searches: 0 })
    }

    /// The pairs of a structure.
    ///
    /// # Errors
    /// As [`Neighbours::within`].
    pub fn update(&mut self, structure: &Structure) -> Result<&Neighbours, MoleculeError> {
        structure.check()?;
        let Cutoff { lower, upper, .. } = self.cutoff;
        if !self.lasts(structure) {
            let wide = Cutoff { lower: 0.0, upper: upper + self.skin, ..self.cutoff };
            let wide = Neighbours::within(structure, wide)?;
            self.wide = wide.pairs;
            self.searched = Some((structure.positions.clone(), structure.cell));
            self.searches += 1;
        }
        let mut pairs = std::mem::take(&mut self.list.pairs);
        pairs.clear();
        for pair in &self.wide {
            let [first, second] = [pair.first, pair.second].map(|atom| atom as usize);
            let cell = structure.cell.as_ref();
            let vector = vector(&structure.positions, cell, first, second, pair.image);
            let distance = dot(&vector, &vector).sqrt();
            if distance < LEAST {
                let image = pair.image;
                let least = LEAST;
                return Err(MoleculeError::Coincident { first, second, image, distance, least });
            }
            if distance < upper && distance >= lower {
                pairs.push(Pair { vector, ..*pair });
            }
        }
        self.list = Neighbours::from_pairs(structure.positions.len(), pairs);
        Ok(&self.list)
    }

    /// Number of searches for pairs.
    #[must_use]
    pub fn searches(&self) -> usize {
        self.searches
    }

    /// Whether no pair beyond the skin can have come within the cutoff.
    fn lasts(&self, structure: &Structure) -> bool {
        let Some((positions, cell)) = &self.searched else { return false };
        if !is_same(cell.as_ref(), structure.cell.as_ref())
            || positions.len() != structure.positions.len()
        {
            return false;
        }
        // A little less than half, since distances are rounded.
        let most = 0.499_999 * self.skin;
        positions.iter().zip(&structure.positions).all(|(old, new)| {
            let moved = [0, 1, 2].map(|x| new[x] - old[x]);
            dot(&moved, &moved) <= most * most
        })
    }
}

/// Whether two cells repeat equally. Rows that do not repeat may hold any values.
fn is_same(a: Option<&Cell>, b: Option<&Cell>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            let rows = |k: usize| !a.periodic[k] || a.rows[k] == b.rows[k];
            a.periodic == b.periodic && (0..3).all(rows)
        }
        (a, b) => a.is_none() && b.is_none(),
    }
}
