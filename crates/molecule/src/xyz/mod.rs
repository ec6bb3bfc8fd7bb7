//! Extended XYZ, read and written frame by frame.
//!
//! A frame is a line with the number of atoms, a line of `key=value` pairs, and a line for each
//! atom with the columns that `Properties` declares. `Lattice` has the rows of the cell, `pbc`
//! which of them repeat: all if it is missing. Other matrices of nine numbers are by columns,
//! vectors of six in the order xx, yy, zz, yz, xz, xy. Without a line of pairs, columns are symbol
//! and position. Source: the format's description in the documentation of ASE, `ase.io.extxyz`.
//!
//! Values that begin with `_JSON` are JSON, which ASE uses for nested lists; these are by rows.
//!
//! Columns `forces` are labels, `momenta` those of ASE, in roots of atomic mass unit times energy,
//! `masses` in atomic mass units, `move_mask` says which atoms or coordinates may move. The total
//! charge is `charge`, or else the sum of the column `initial_charges`, as in ASE. A stress or
//! virial of atoms without a volume is not a label. Unknown pairs and columns are kept as text and
//! written again, and so are labels under names that writers do not use.
//!
//! Deviations: a duplicate key or column, a column too many, and a charge or a label that is not a
//! number are errors.

mod atoms;
mod comment;
mod keys;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use keys::LabelKeys;
pub use reader::{XyzReader, read_xyz};
pub use writer::{XyzColumn, XyzWriter, write_xyz, xyz_numbers};

use crate::error::MoleculeError;
use comment::ListOfNumbers;
use linwright_run::shown;
use std::path::Path;

/// A line of a file, and where it is.
#[derive(Clone, Copy)]
struct Line<'a> {
    path: &'a Path,
    /// From one.
    number: u64,
    text: &'a str,
}

impl Line<'_> {
    /// An error about the text that starts at a byte of the line.
    fn wrong(&self, byte: usize, found: &str, expected: impl Into<String>) -> MoleculeError {
        let before = self.text.get(..byte).unwrap_or(self.text);
        MoleculeError::Text {
            path: self.path.to_owned(),
            line: self.number,
            column: before.chars().count() + 1,
            found: if found.is_empty() {
                "nothing".into()
            } else {
                format!("\"{}\"", shown(found))
            },
            expected: expected.into(),
        }
    }
}

/// The numbers of a value among the pairs of a frame, row by row where they are nested; none if it
/// is anything else, or if one is not finite.
#[must_use]
pub fn parse_numbers(text: &str) -> Option<Vec<f64>> {
    ListOfNumbers::of(text, usize::MAX).map(|list| list.numbers)
}

/// A number, in the spelling of Fortran as well.
pub(crate) fn number(text: &str) -> Option<f64> {
    let parsed = text.parse().ok();
    parsed.or_else(|| {
        text.contains(['d', 'D']).then(|| text.replace(['d', 'D'], "e").parse().ok())?
    })
}
