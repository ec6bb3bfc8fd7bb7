//! Arrays that npz and HDF5 data sets have in common, by name: values of atoms that are read, and
//! arrays that are rejected, since ignoring them would change the structures.

use crate::declared::{is_unit, words};
use crate::motion::{is_held, is_velocities};
use linwright_run::shown;

/// Names of total charges: one number, or (structures).
pub(crate) const CHARGES: [&str; 4] = ["Q", "charge", "total_charge", "total_charges"];
/// Names of masses in atomic mass units: (atoms), or (structures, atoms).
pub(crate) const MASSES: [&str; 5] =
    ["masses", "mass", "atomic_masses", "atomic_mass", "initial_masses"];
/// Name of momenta (structures, atoms, 3), as in ASE.
pub(crate) const MOMENTA: &str = "momenta";
/// Words in names of cells.
const CELLS: [&str; 9] =
    ["cell", "cells", "unitcell", "supercell", "cellpar", "box", "boxes", "pbc", "periodic"];
/// Words in names of stresses and virials.
const STRESSES: [&str; 4] = ["stress", "stresses", "virial", "virials"];

/// Rejects arrays that are not read and would change the structures, such as a cell; `place`
/// precedes their names. The error is the end of a sentence.
pub(crate) fn check_unread<'a>(
    place: &str,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let refused = names.find_map(|name| Some((name, unread(name)?)));
    match refused {
        None => Ok(()),
        Some((name, (what, to_do))) => {
            Err(format!("has an array {place}{}, {what}, which is not read; {to_do}", shown(name)))
        }
    }
}

/// Description of an array that is not read, and advice.
fn unread(name: &str) -> Option<(&'static str, &'static str)> {
    let words = words(name);
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&&word[..]));
    if is_unit(name) {
        None
    } else if has(&CELLS) || words.iter().any(|word| word.starts_with("lattice")) {
        Some((
            "a cell",
            "write periodic structures as extended XYZ, or remove the array if they are open \
             molecules",
        ))
    } else if has(&STRESSES) {
        Some((
            "a stress or virial",
            "write periodic structures as extended XYZ, or remove the array: open molecules have \
             none",
        ))
    } else if is_velocities(name) {
        Some(("velocities", "write momenta as in ASE, or remove the array"))
    } else if is_held(name) || words == ["move", "mask"] {
        Some((
            "which atoms may move",
            "write the structures as extended XYZ with a column move_mask, or remove the array",
        ))
    } else {
        None
    }
}

/// Masses of the atoms of all structures.
pub(crate) struct Masses {
    numbers: Vec<f64>,
    atoms: usize,
}

impl Masses {
    /// Masses from an array; the error is the end of a sentence.
    pub(crate) fn of(
        (name, shape): (&str, &[usize]),
        numbers: Vec<f64>,
        [structures, atoms]: [usize; 2],
    ) -> Result<Self, String> {
        if numbers.len() != atoms && numbers.len() != structures * atoms {
            return Err(format!(
                "has an array {name} of shape {shape:?}; expected masses ({atoms},), or \
                 ({structures}, {atoms})"
            ));
        }
        match numbers.iter().find(|mass| !(mass.is_finite() && **mass > 0.0)) {
            Some(mass) => Err(format!(
                "has {mass} in {name}; expected masses in atomic mass units, numbers above zero"
            )),
            None => Ok(Self { numbers, atoms }),
        }
    }

    /// Masses of one structure.
    pub(crate) fn at(&self, index: usize) -> Vec<f64> {
        let start = if self.numbers.len() == self.atoms { 0 } else { index * self.atoms };
        self.numbers[start..][..self.atoms].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_that_make_other_structures_are_refused_by_name() {
        for (name, what) in [
            ("Lattice", "a cell"),
            ("lattice_vectors", "a cell"),
            ("Cell", "a cell"),
            ("unit_cell", "a cell"),
            ("UnitCell", "a cell"),
            ("box_vectors", "a cell"),
            ("PBC", "a cell"),
            ("virials", "a stress or virial"),
            ("dft_stress", "a stress or virial"),
            ("Velocities", "velocities"),
            ("fixed", "which atoms may move"),
            ("move_mask", "which atoms may move"),
        ] {
            let error = check_unread("a/", [name].into_iter()).unwrap_err();
            assert!(error.contains(&format!("a/{name}, {what}, which is not read; ")), "{error}");
        }
        let others = ["R", "z", "masses", "cell_unit", "old_energies", "E_mean", "theory", "md5"];
        check_unread("", others.into_iter()).unwrap();
    }

    #[test]
    fn masses_are_those_of_all_structures_or_of_each() {
        let of = |numbers: &[f64]| Masses::of(("m", &[numbers.len()]), numbers.to_vec(), [3, 2]);
        let shared = of(&[1.0, 2.0]).unwrap();
        assert_eq!((shared.at(0), shared.at(2)), (vec![1.0, 2.0], vec![1.0, 2.0]));
        assert_eq!(of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap().at(1), [3.0, 4.0]);
        assert!(of(&[1.0; 3]).err().unwrap().contains("m of shape [3]; expected masses (2,)"));
        assert!(of(&[1.0, 0.0]).err().unwrap().contains("has 0 in m"));
        assert!(of(&[f64::NAN, 1.0]).err().unwrap().contains("has NaN in m"));
    }
}
