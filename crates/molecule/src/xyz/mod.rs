//! Extended XYZ, read and written frame by frame.
//!
//! A frame is a line with the number of atoms, a line of `key=value` pairs, and a line for each
//! atom with the columns that `Properties` declares. `Lattice` has the rows of the cell, `pbc`
//! which
//! of them repeat: all if it is missing. Other matrices of nine numbers go by columns, vectors of
//! six
//! in the order xx, yy, zz, yz, xz, xy. Without a line of pairs, columns are symbol and position.
//! Source: the format's description in the documentation of ASE, `ase.io.extxyz`.
//!
//! Columns `forces` are labels, `momenta` those of ASE, in roots of atomic mass unit times energy.
//!
//! Deviations: a key that is there twice, a column too many, and a charge or a label that is no
//! number are errors. Per-atom columns other than labels are read over; other pairs are kept as
//! text.

mod atoms;
mod comment;
mod keys;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use keys::LabelKeys;
pub use reader::{XyzReader, read_xyz};
pub use writer::{XyzColumn, XyzWriter, write_xyz};

use crate::error::MoleculeError;
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

/// A number, in the spelling of Fortran as well.
fn number(text: &str) -> Option<f64> {
    let parsed = text.parse().ok();
    parsed.or_else(|| {
        text.contains(['d', 'D']).then(|| text.replace(['d', 'D'], "e").parse().ok())?
    })
}
