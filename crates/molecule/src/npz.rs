//! Data sets in archives of numpy: the arrays of MD17 (`z`, `R`, `E`, `F`), of rMD17
//! (`nuclear_charges`, `coords`, `energies`, `forces`) and of torchmd-net's `Custom`.
//!
//! All structures have the same atoms. Labels are in the units of the file, which it does not say.

use crate::error::MoleculeError;
use crate::structure::{Labels, Structure};
use linwright_files::{NpzArray, NpzFile};
use std::path::Path;

/// Names of the atomic numbers (atoms), or (structures, atoms) if all rows are equal.
const SPECIES: [&str; 4] = ["z", "nuclear_charges", "embed", "atomic_numbers"];
/// Names of the positions (structures, atoms, 3).
const POSITIONS: [&str; 4] = ["R", "coords", "pos", "coordinates"];
/// Names of the energies (structures) or (structures, 1).
const ENERGIES: [&str; 4] = ["E", "energies", "energy", "y"];
/// Names of the forces (structures, atoms, 3).
const FORCES: [&str; 3] = ["F", "forces", "neg_dy"];

/// All structures of an archive.
///
/// # Errors
/// A file that cannot be read, that lacks species or positions, or whose arrays do not fit each
/// other.
pub fn read_npz(path: &Path) -> Result<Vec<Structure>, MoleculeError> {
    Archive { path, file: NpzFile::open(path)? }.structures()
}

/// All structures of an archive in memory, which errors call `path`.
///
/// # Errors
/// As [`read_npz`].
pub fn parse_npz(path: &Path, bytes: Vec<u8>) -> Result<Vec<Structure>, MoleculeError> {
    Archive { path, file: NpzFile::from_bytes(path, bytes)? }.structures()
}

struct Archive<'a> {
    path: &'a Path,
    file: NpzFile,
}

impl Archive<'_> {
    fn wrong(&self, what: String) -> MoleculeError {
        MoleculeError::Checkpoint { path: self.path.to_owned(), what }
    }

    /// The first array of these names.
    fn any(
        &self,
        names: &[&'static str],
    ) -> Result<Option<(&'static str, NpzArray)>, MoleculeError> {
        for name in names {
            if let Some(array) = self.file.array(name)? {
                return Ok(Some((name, array)));
            }
        }
        Ok(None)
    }

    fn need(&self, names: &[&'static str]) -> Result<(&'static str, NpzArray), MoleculeError> {
        self.any(names)?.ok_or_else(|| {
            let found: Vec<&str> = self.file.names().collect();
            let found = linwright_run::shown(&found.join(", "));
            self.wrong(format!("has the arrays {found}; expected one of {}", names.join(", ")))
        })
    }

    /// Triples of (structures, atoms, 3) numbers.
    fn triples(
        &self,
        (name, array): (&str, NpzArray),
        sizes: Option<[usize; 2]>,
    ) -> Result<Vec<[f64; 3]>, MoleculeError> {
        let fits = matches!(array.shape[..], [a, b, 3] if sizes.is_none_or(|own| own == [a, b]));
        if !fits {
            let found = &array.shape;
            let expected = sizes.map_or("(structures, atoms, 3)".into(), |[a, b]| {
                format!("({a}, {b}, 3), as positions and atomic numbers have it")
            });
            let what = format!("has an array {name} of shape {found:?}; expected {expected}");
            return Err(self.wrong(what));
        }
        Ok(array.numbers.as_chunks().0.to_vec())
    }

    /// Atomic numbers, the same for all structures.
    fn species(&self, atoms: usize) -> Result<Vec<u8>, MoleculeError> {
        let (name, array) = self.need(&SPECIES)?;
        let rows: Vec<&[f64]> = array.numbers.chunks(atoms.max(1)).collect();
        let first = rows.first().copied().unwrap_or(&[]);
        if first.len() != atoms || rows.iter().any(|row| *row != first) {
            return Err(self.wrong(format!(
                "has an array {name} of shape {:?}; expected {atoms} atomic numbers, the same for all structures",
                array.shape
            )));
        }
        let number = |(atom, value): (usize, &f64)| match *value {
            value if value.fract() == 0.0 && (1.0..=118.0).contains(&value) => Ok(value as u8),
            value => Err(self.wrong(format!(
                "has {value} as atomic number {atom} of {name}; expected 1 to 118"
            ))),
        };
        first.iter().enumerate().map(number).collect()
    }

    fn structures(&self) -> Result<Vec<Structure>, MoleculeError> {
        let (name, positions) = self.need(&POSITIONS)?;
        let sizes = match positions.shape[..] {
            [structures, atoms, 3] => [structures, atoms],
            _ => [0; 2],
        };
        let [structures, atoms] = sizes;
        let positions = self.triples((name, positions), None)?;
        let species = self.species(atoms)?;
        let energies = self.any(&ENERGIES)?;
        if let Some((name, energies)) = &energies
            && energies.numbers.len() != structures
        {
            let found = &energies.shape;
            let what = format!("has an array {name} of shape {found:?}; expected ({structures},)");
            return Err(self.wrong(what));
        }
        let forces = match self.any(&FORCES)? {
            Some(array) => Some(self.triples(array, Some(sizes))?),
            None => None,
        };
        let own = |all: &Vec<[f64; 3]>, index: usize| all[index * atoms..][..atoms].to_vec();
        let one = |index: usize| Structure {
            species: species.clone(),
            positions: own(&positions, index),
            labels: Labels {
                energy: energies.as_ref().map(|(_, energies)| energies.numbers[index]),
                forces: forces.as_ref().map(|forces| own(forces, index)),
                ..Labels::default()
            },
            ..Structure::default()
        };
        Ok((0..structures).map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Written by numpy.savez: two waters; the second file has forces of one of them only.
    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tensornet").join(name)
    }

    #[test]
    fn arrays_of_md17_become_structures() {
        let found = read_npz(&file("md17.npz")).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (&found[1].species[..], found[1].positions[0]),
            (&[8, 1, 1][..], [0.0, 0.0, 0.2])
        );
        assert_eq!((found[0].labels.energy, found[1].labels.energy), (Some(-1.5), Some(-1.25)));
        assert_eq!(found[1].labels.forces.as_ref().unwrap()[0], [9.0, 10.0, 11.0]);
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused_by_name() {
        let error = read_npz(&file("rmd17.npz")).unwrap_err().to_string();
        assert!(error.contains("forces") && error.contains("[1, 3, 3]"), "{error}");
        let error = read_npz(&file("a_lightning.ckpt")).unwrap_err().to_string();
        assert!(error.contains("a_lightning.ckpt") && error.contains("coords"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.npz");
        let bytes = std::fs::read(file("md17.npz")).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(read_npz(&path).unwrap_err().to_string().contains("cut.npz"));
    }
}
