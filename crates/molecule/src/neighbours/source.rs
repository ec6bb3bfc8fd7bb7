//! Pairs of one structure after the other.

use super::{Cutoff, Neighbours, SkinList};
use crate::error::MoleculeError;
use crate::structure::Structure;

/// Searches the pairs of each structure, or keeps them with a skin while atoms move. Both give the
/// same lists to the last bit.
#[derive(Clone, Debug)]
pub(crate) struct PairSource {
    cutoff: Cutoff,
    kept: Option<SkinList>,
    found: Neighbours,
}

impl PairSource {
    /// Pairs at these distances, searched again.
    pub(crate) fn new(cutoff: Cutoff) -> Self {
        Self { cutoff, kept: None, found: Neighbours::default() }
    }

    /// Keeps pairs with this skin from now on.
    pub(crate) fn keep(&mut self, skin: f64) -> Result<(), MoleculeError> {
        self.kept = Some(SkinList::new(self.cutoff, skin)?);
        Ok(())
    }

    /// The pairs of a structure, with the errors of [`Neighbours::within`].
    pub(crate) fn of(&mut self, structure: &Structure) -> Result<&Neighbours, MoleculeError> {
        match &mut self.kept {
            Some(list) => list.update(structure),
            None => {
                self.found = Neighbours::within(structure, self.cutoff)?;
                Ok(&self.found)
            }
        }
    }
}
