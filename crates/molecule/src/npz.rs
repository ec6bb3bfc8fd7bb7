//! Data sets in archives of numpy, compressed or not: the arrays of MD17 and sGDML (`z`, `R`, `E`,
//! `F`), of rMD17 (`nuclear_charges`, `coords`, `energies`, `forces`), of torchmd-net's `Custom`.
//!
//! All structures have the same atoms, with `masses` and `momenta` if the file has them. They
//! declare the units of the file, such as sGDML's `e_unit` and `r_unit`. Arrays that are not read
//! and would change the structures, such as a cell, are an error.

use crate::arrays::{CHARGES, MASSES, MOMENTA, Masses, check_unread};
use crate::declared;
use crate::error::MoleculeError;
use crate::structure::{Labels, Structure};
use linwright_data::inflate;
use linwright_files::{NpzArray, NpzFile};
use linwright_run::shown;
use std::collections::BTreeMap;
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
/// A file that cannot be read, without species or positions, has a cell, declares units that are
/// unknown, or whose arrays do not fit each other.
pub fn read_npz(path: &Path) -> Result<Vec<Structure>, MoleculeError> {
    Archive { path, file: NpzFile::open_packed(path, inflate)? }.structures()
}

/// All structures of an archive in memory, called `path` in errors.
///
/// # Errors
/// As [`read_npz`].
pub fn parse_npz(path: &Path, bytes: Vec<u8>) -> Result<Vec<Structure>, MoleculeError> {
    Archive { path, file: NpzFile::from_bytes(path, bytes, inflate)? }.structures()
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
            let found = shown(&found.join(", "));
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
                format!("({a}, {b}, 3), as for positions and atomic numbers")
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

    /// The units that the file declares, as pairs of each structure.
    fn declared(&self) -> Result<BTreeMap<String, String>, MoleculeError> {
        let mut declared = BTreeMap::new();
        for name in self.file.names().filter(|name| declared::is_unit(name)) {
            match self.file.text(name)? {
                Some(text) => {
                    declared::check_name(name, &text).map_err(|what| self.wrong(what))?;
                    declared.insert(name.to_owned(), text);
                }
                None => {
                    // Anything but text and numbers is rejected.
                    self.file.array(name)?;
                    declared::check_number(name).map_err(|what| self.wrong(what))?;
                }
            }
        }
        Ok(declared)
    }

    /// Charges of the structures, if the file has them.
    fn charges(&self, structures: usize) -> Result<Option<Vec<f64>>, MoleculeError> {
        let Some((name, NpzArray { shape, numbers })) = self.any(&CHARGES)? else {
            return Ok(None);
        };
        match numbers[..] {
            [charge] => Ok(Some(vec![charge; structures])),
            _ if numbers.len() == structures => Ok(Some(numbers)),
            _ => Err(self.wrong(format!(
                "has an array {name} of shape {shape:?}; expected one charge, or ({structures},)"
            ))),
        }
    }

    fn structures(&self) -> Result<Vec<Structure>, MoleculeError> {
        check_unread("", self.file.names()).map_err(|what| self.wrong(what))?;
        let (name, positions) = self.need(&POSITIONS)?;
        let sizes = match positions.shape[..] {
            [_, 0, 3] => return Err(self.wrong(format!("has no atoms in {name}"))),
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
        let charges = self.charges(structures)?;
        let masses = self.any(&MASSES)?.map(|(name, NpzArray { shape, numbers })| {
            Masses::of((name, &shape), numbers, sizes).map_err(|what| self.wrong(what))
        });
        let masses = masses.transpose()?;
        let momenta = match self.any(&[MOMENTA])? {
            Some(array) => Some(self.triples(array, Some(sizes))?),
            None => None,
        };
        let declared = self.declared()?;
        let own = |all: &Vec<[f64; 3]>, index: usize| all[index * atoms..][..atoms].to_vec();
        let one = |index: usize| Structure {
            species: species.clone(),
            positions: own(&positions, index),
            momenta: momenta.as_ref().map(|momenta| own(momenta, index)),
            masses: masses.as_ref().map(|masses| masses.at(index)),
            charge: charges.as_ref().map_or(0.0, |charges| charges[index]),
            labels: Labels {
                energy: energies.as_ref().map(|(_, energies)| energies.numbers[index]),
                forces: forces.as_ref().map(|forces| own(forces, index)),
                ..Labels::default()
            },
            info: declared.clone(),
            ..Structure::default()
        };
        Ok((0..structures).map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Units;
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

    /// An archive of these files, compressed or not.
    fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let named = files.iter().map(|(name, bytes)| (format!("{name}.npy"), bytes.clone()));
        linwright_files::zip_archive(&named.collect::<Vec<_>>()).unwrap()
    }

    fn text(text: &str) -> Vec<u8> {
        let count = text.chars().count();
        let header = format!("{{'descr': '<U{count}', 'fortran_order': False, 'shape': (), }}\n");
        let words = text.chars().flat_map(|c| u32::from(c).to_le_bytes());
        let length = (header.len() as u16).to_le_bytes();
        let head = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat();
        head.into_iter().chain(words).collect()
    }

    fn with(more: &[(&str, Vec<u8>)]) -> Result<Vec<Structure>, MoleculeError> {
        let mut files = vec![
            ("z", NpzArray::file_of(&[2], &[6.0, 8.0])),
            ("R", NpzArray::file_of(&[2, 2, 3], &[1.0; 12])),
            ("E", NpzArray::file_of(&[2, 1], &[-1.0, -2.0])),
            ("F", NpzArray::file_of(&[2, 2, 3], &[3.0; 12])),
        ];
        files.extend(more.iter().cloned());
        parse_npz(Path::new("set.npz"), archive(&files))
    }

    #[test]
    fn a_compressed_archive_of_sgdml_declares_its_units() {
        let mut found = read_npz(&file("sgdml.npz")).unwrap();
        let plain = read_npz(&file("md17.npz")).unwrap();
        let units = found[0].settle_units(None, Units::default()).unwrap();
        assert_eq!(units.to_string(), "kcal/mol,A");
        for (one, other) in found.iter().zip(&plain) {
            assert_eq!((&one.species, &one.labels), (&other.species, &other.labels));
        }
        assert_eq!(found.len(), plain.len());
    }

    #[test]
    fn units_charges_and_cells_of_an_archive_are_read_or_refused() {
        let told = Units::parse("kcal/mol,nm").unwrap();
        let settled = |more: &[(&str, Vec<u8>)], told: Option<Units>| {
            let mut own = with(more).unwrap().remove(1);
            let units = own.settle_units(told, Units::default());
            units.map_or_else(|error| error.to_string(), |units| units.to_string())
        };
        let units = |more: &[(&str, Vec<u8>)]| settled(more, None);
        assert_eq!((units(&[]), settled(&[], Some(told))), ("eV,A".into(), told.to_string()));
        let sgdml = [("e_unit", text("kcal/mol")), ("r_unit", text("Ang"))];
        assert_eq!(units(&sgdml), "kcal/mol,A");
        assert_eq!(units(&[("E_unit", text("meV"))]), "meV,A");
        // A length says nothing about energies, of which the user may say the unit.
        let length = [("r_unit", text("nm"))];
        assert!(units(&length).contains("r_unit = nm, but no unit for its energies"));
        assert_eq!(settled(&length, Some(told)), "kcal/mol,nm");
        let mixed = [("e_unit", text("Ha")), ("r_unit", text("Ang")), ("f_unit", text("Ha/bohr"))];
        let mut read = with(&mixed).unwrap();
        let of_file = read[0].settle_units(None, Units::default()).unwrap();
        let force = read[0].labels.forces.as_ref().unwrap()[0][0];
        assert!((force - 3.0 / 0.529_177_210_903).abs() < 1e-12, "{force}");
        assert_eq!(of_file.to_string(), "Hartree,A");
        let odd = units(&[("e_unit", text("stone"))]);
        assert!(odd.contains("e_unit = stone") && odd.contains("kcal/mol"), "{odd}");
        let twice = units(&[("e_unit", text("eV")), ("energy_unit", text("kcal/mol"))]);
        assert!(
            twice.contains("e_unit = eV and energy_unit = kcal/mol, which disagree"),
            "{twice}"
        );
        // Numbers under such names are none.
        assert_eq!(units(&[("per_unit", NpzArray::file_of(&[1], &[1.0]))]), "eV,A");
        let said = |name: &str, bytes: Vec<u8>| with(&[(name, bytes)]).unwrap_err().to_string();
        let number = said("e_unit", NpzArray::file_of(&[1], &[27.2]));
        assert!(number.contains("unit e_unit as a number"), "{number}");
        assert!(said("unit_system", text("cgs")).contains("unit_system = cgs, expected e_unit"));
        let pickled = [b"\x93NUMPY\x01\x00".to_vec(), vec![57, 0]].concat();
        let header = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }   \n";
        let said_units = said("units", [pickled, header.to_vec()].concat());
        assert!(said_units.contains("units") && said_units.contains("|O"), "{said_units}");
        let cell = NpzArray::file_of(&[3, 3], &[1.0; 9]);
        let told = said("Lattice", cell);
        assert!(told.contains("array Lattice, a cell, which is not read"), "{told}");
        let virials = NpzArray::file_of(&[2, 3, 3], &[1.0; 18]);
        assert!(said("virials", virials).contains("array virials, a stress or virial"));
        let moving = NpzArray::file_of(&[2, 2, 3], &[1.0; 12]);
        assert!(said("velocities", moving.clone()).contains("array velocities, velocities"));
        assert_eq!(with(&[("momenta", moving)]).unwrap()[1].momenta, Some(vec![[1.0; 3]; 2]));
        let masses = NpzArray::file_of(&[2], &[12.0, 18.0]);
        assert_eq!(with(&[("masses", masses)]).unwrap()[1].masses, Some(vec![12.0, 18.0]));
        assert!(said("mass", NpzArray::file_of(&[3], &[1.0; 3])).contains("expected masses (2,)"));
        let charges = NpzArray::file_of(&[2], &[1.0, -1.0]);
        assert_eq!(with(&[("Q", charges)]).unwrap()[1].charge, -1.0);
        let charges = NpzArray::file_of(&[1], &[2.0]);
        assert_eq!(with(&[("charge", charges)]).unwrap()[1].charge, 2.0);
        let charges = NpzArray::file_of(&[3], &[2.0; 3]);
        assert!(said("charge", charges).contains("expected one charge, or (2,)"));
        let none = archive(&[
            ("z", NpzArray::file_of(&[0], &[])),
            ("R", NpzArray::file_of(&[1 << 40, 0, 3], &[])),
        ]);
        let error = parse_npz(Path::new("set.npz"), none).unwrap_err().to_string();
        assert!(error.contains("has no atoms in R"), "{error}");
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
