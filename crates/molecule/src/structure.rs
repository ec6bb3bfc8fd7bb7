//! Atoms with their cell, charge and labels.

use crate::error::MoleculeError;
use crate::units::Units;
use crate::vectors::{cross, dot};
use crate::xyz::{LabelKeys, number, parse_numbers, xyz_numbers};
use std::collections::BTreeMap;

/// Names of energies and stresses of atoms in ASE.
const PER_ATOM: [&str; 2] = ["energies", "stresses"];
/// Prefix of labels from the input in files with predictions.
const INPUT: &str = "input_";
/// Suffix of deviations of an ensemble.
const DEVIATION: &str = "_std";

/// Whether a name is that of an input label kept by an evaluation.
fn is_kept_label(name: &str) -> bool {
    name.strip_prefix(INPUT).is_some_and(is_label)
}

/// Whether a name is that of an ensemble's deviation of a label.
fn is_deviation(name: &str) -> bool {
    name.strip_suffix(DEVIATION).is_some_and(is_label)
}

/// Whether a name is that of a label, an input label, or a deviation.
fn is_of_label(name: &str) -> bool {
    let name = name.strip_prefix(INPUT).unwrap_or(name);
    is_label(name) || is_deviation(name)
}

/// Whether this name denotes an energy, forces, stress or virial.
fn is_label(name: &str) -> bool {
    let LabelKeys { energy, forces, stress, virial, .. } = LabelKeys::default();
    let all = [energy, forces, stress, virial].concat();
    all.iter().any(|known| known == name) || PER_ATOM.contains(&name)
}

/// Whether a label of a file has these values, directly or as the virial of a stress.
fn says(key: &str, text: &str, numbers: &[f64], volume: f64) -> bool {
    let found = match parse_numbers(text).as_deref() {
        Some(&[xx, yy, zz, yz, xz, xy]) => vec![xx, xy, xz, xy, yy, yz, xz, yz, zz],
        Some(found) => found.to_vec(),
        None => return false,
    };
    let is_virial = LabelKeys::default().virial.iter().any(|known| known == key);
    let scale = |x: &f64| if is_virial { -x / volume } else { *x };
    found.iter().map(scale).eq(numbers.iter().copied())
}

/// One molecule or periodic box, in the units of its file (electron volts and angstroms by
/// default).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structure {
    /// Atomic numbers, one for each atom.
    pub species: Vec<u8>,
    /// Positions, one for each atom.
    pub positions: Vec<[f64; 3]>,
    /// The periodic cell, or none for an open molecule.
    pub cell: Option<Cell>,
    /// Momenta, one for each atom, in roots of atomic mass unit times energy, as in ASE.
    pub momenta: Option<Vec<[f64; 3]>>,
    /// Masses in atomic mass units, one for each atom, if they differ from those of the elements.
    pub masses: Option<Vec<f64>>,
    /// Fixed coordinates of each atom, for dynamics and relaxation.
    pub held: Option<Vec<[bool; 3]>>,
    /// Total charge in elementary charges.
    pub charge: f64,
    /// Reference values, if present in the data.
    pub labels: Labels,
    /// Further values of the frame by name, as text from the file; readers keep them for writers.
    pub info: BTreeMap<String, String>,
    /// Further values of every atom, also as text.
    pub columns: Vec<Column>,
}

/// Values of every atom as text from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Type of its words, as in extended XYZ: `S`, `R`, `I` or `L`.
    pub kind: String,
    /// Words of an atom.
    pub width: usize,
    /// A line for each atom: its words with a blank between them.
    pub text: String,
}

/// A periodic cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Lattice vectors as rows.
    pub rows: [[f64; 3]; 3],
    /// Whether each lattice vector repeats.
    pub periodic: [bool; 3],
}

/// Reference values of a structure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// Total energy.
    pub energy: Option<f64>,
    /// Forces, one for each atom.
    pub forces: Option<Vec<[f64; 3]>>,
    /// Stress (energy per volume, tensile positive, as in ASE), rows of a 3 x 3 matrix.
    pub stress: Option<[[f64; 3]; 3]>,
    /// Partial charges, one for each atom.
    pub charges: Option<Vec<f64>>,
}

impl Structure {
    /// Converts positions, cell, momenta and labels to other units. Charges have none.
    pub fn convert(&mut self, from: Units, to: Units) {
        if from == to {
            return;
        }
        let length = from.length_to(to);
        let times = |values: &mut [[f64; 3]], factor: f64| {
            values.iter_mut().flatten().for_each(|value| *value *= factor);
        };
        times(&mut self.positions, length);
        if let Some(Cell { rows, .. }) = &mut self.cell {
            times(rows, length);
        }
        if let Some(momenta) = &mut self.momenta {
            times(momenta, from.energy_to(to).sqrt());
        }
        if let Some(energy) = &mut self.labels.energy {
            *energy *= from.energy_to(to);
        }
        if let Some(forces) = &mut self.labels.forces {
            times(forces, from.force_to(to));
        }
        if let Some(stress) = &mut self.labels.stress {
            times(stress, from.stress_to(to));
        }
    }

    /// Checks that there is one position for each species, that all numbers are finite, and that
    /// per-atom labels have one value for every atom.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), MoleculeError> {
        let atoms = self.species.len();
        let counts = [
            ("positions", Some(self.positions.len())),
            ("momenta", self.momenta.as_ref().map(Vec::len)),
            ("masses", self.masses.as_ref().map(Vec::len)),
            ("rows of fixed coordinates", self.held.as_ref().map(Vec::len)),
            ("forces", self.labels.forces.as_ref().map(Vec::len)),
            ("partial charges", self.labels.charges.as_ref().map(Vec::len)),
        ];
        for (what, found) in counts {
            if let Some(found) = found.filter(|found| *found != atoms) {
                return Err(MoleculeError::Atoms { atoms, what, found });
            }
        }
        if let Some(found) =
            self.columns.iter().map(|c| c.text.lines().count()).find(|n| *n != atoms)
        {
            return Err(MoleculeError::Atoms { atoms, what: "rows of a further column", found });
        }
        for (atom, position) in self.positions.iter().enumerate() {
            // Squares of larger ones overflow.
            if let Some(axis) = position.iter().position(|x| !x.is_finite() || x.abs() > 1e100) {
                let value = position[axis];
                let expected = "a finite number of at most 1e100";
                return Err(MoleculeError::Position { atom, axis, value, expected });
            }
        }
        Ok(())
    }

    /// Sets the labels to those of a prediction. Labels in the file that readers would mistake for
    /// them are renamed with the prefix `input_`.
    pub fn replace_labels(
        &mut self,
        energy: f64,
        forces: Vec<[f64; 3]>,
        stress: Option<[[f64; 3]; 3]>,
    ) {
        let charges = self.labels.charges.take();
        let labels = Labels { energy: Some(energy), forces: Some(forces), stress, charges };
        let old = std::mem::replace(&mut self.labels, labels);
        let (labelled, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.info)
            .into_iter()
            .partition(|(name, _)| is_label(name) || is_deviation(name));
        self.info.extend(others);
        // Labels of an earlier evaluation are predictions, and so are its deviations.
        let was_evaluated = self.info.keys().any(|name| is_kept_label(name));
        let labelled: Vec<_> = labelled
            .into_iter()
            .filter(|(name, _)| !(was_evaluated && is_deviation(name)))
            .collect();
        let by_columns = |s: [[f64; 3]; 3]| [0, 1, 2].map(|k| s.map(|row| row[k])).concat();
        let volume = self.cell.map_or(0.0, |cell| cell.volume());
        let own = [
            ("energy", old.energy.map(|energy| vec![energy])),
            ("stress", old.stress.map(by_columns)),
        ];
        for (name, numbers) in own {
            let Some(numbers) = numbers.filter(|_| !was_evaluated) else { continue };
            let is_kept = |(key, text): &(String, String)| says(key, text, &numbers, volume);
            if !labelled.iter().any(is_kept) {
                self.info.entry(format!("{INPUT}{name}")).or_insert_with(|| xyz_numbers(&numbers));
            }
        }
        for (name, text) in labelled {
            self.info.entry(format!("{INPUT}{name}")).or_insert(text);
        }
        self.rename_columns(old.forces.as_deref());
    }

    /// Columns with labels, renamed as input labels.
    fn rename_columns(&mut self, forces: Option<&[[f64; 3]]>) {
        let (mut labelled, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.columns)
            .into_iter()
            .partition(|c| is_label(&c.name) || is_deviation(&c.name));
        let was_evaluated = others.iter().any(|column| is_kept_label(&column.name));
        labelled.retain(|column| !(was_evaluated && is_deviation(&column.name)));
        if let Some(forces) = forces.filter(|_| !was_evaluated) {
            let is_kept =
                |column: &Column| column.numbers().as_deref() == Some(forces.as_flattened());
            if !labelled.iter().any(is_kept) {
                let text = forces.iter().map(|force| xyz_numbers(force) + "\n").collect();
                let (name, kind) = ("forces".to_owned(), "R".to_owned());
                labelled.push(Column { name, kind, width: 3, text });
            }
        }
        // After several evaluations, the original labels are kept.
        self.columns = others;
        for mut column in labelled {
            column.name.insert_str(0, INPUT);
            if self.column(&column.name).is_none() {
                self.columns.push(column);
            }
        }
    }

    /// Removes energies, forces, stresses and virials under all their names, including input labels
    /// and deviations of an evaluation: they belong to other positions.
    pub fn forget_labels(&mut self) {
        self.info.retain(|name, _| !is_of_label(name));
        self.columns.retain(|column| !is_of_label(&column.name));
        self.labels = Labels { charges: self.labels.charges.take(), ..Labels::default() };
    }

    /// The further column with this name, if any.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Number of fixed coordinates.
    #[must_use]
    pub fn held_coordinates(&self) -> usize {
        self.held.iter().flatten().flatten().filter(|is_held| **is_held).count()
    }
}

impl Column {
    /// Its numbers, atom by atom; none if a word is not a number.
    #[must_use]
    pub fn numbers(&self) -> Option<Vec<f64>> {
        self.text.split_whitespace().map(number).collect()
    }
}

impl Cell {
    /// Its volume if it repeats along all its vectors.
    #[must_use]
    pub fn bulk_volume(&self) -> Option<f64> {
        (self.periodic == [true; 3]).then(|| self.volume())
    }

    /// A cell that repeats along all its vectors.
    #[must_use]
    pub fn periodic(rows: [[f64; 3]; 3]) -> Self {
        Self { rows, periodic: [true; 3] }
    }

    /// Its volume, never negative.
    #[must_use]
    pub fn volume(&self) -> f64 {
        dot(&self.rows[0], &cross(&self.rows[1], &self.rows[2])).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::near;

    #[test]
    fn structures_are_converted_and_back() {
        let units = Units::parse("kcal/mol, nm").unwrap();
        let mut structure = Structure {
            species: vec![1],
            positions: vec![[1.0, 2.0, 3.0]],
            cell: Some(Cell::periodic([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])),
            ..Structure::default()
        };
        structure.labels.energy = Some(1.0);
        structure.labels.forces = Some(vec![[1.0, 0.0, 0.0]]);
        structure.labels.stress = Some([[1.0, 0.0, 0.0]; 3]);
        let before = structure.clone();
        structure.convert(units, Units::default());
        assert_eq!(
            (structure.positions[0], structure.cell.unwrap().rows[1][1]),
            ([10.0, 20.0, 30.0], 10.0)
        );
        let energy = structure.labels.energy.unwrap();
        near(energy, 0.043_364_1, 1e-6);
        near(structure.labels.forces.as_ref().unwrap()[0][0], energy / 10.0, 1e-15);
        near(structure.labels.stress.unwrap()[2][0], energy / 1000.0, 1e-15);
        structure.convert(Units::default(), units);
        near(structure.labels.stress.unwrap()[0][0], 1.0, 1e-15);
        assert_eq!(structure.positions, before.positions);
        let copy = structure.clone();
        structure.convert(units, units);
        assert_eq!(structure, copy);
    }
}
