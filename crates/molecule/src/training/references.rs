//! Values subtracted from energies before training: energies of isolated atoms, given or estimated
//! by least squares, or the mean, as in torchmd-net's `standardize`.

use crate::{MoleculeError, Structure, shown_species};
use linwright_tensor::Mat;
use linwright_tensor::linalg::svd;

/// Singular values below this share of the largest are zero: compositions that are multiples of
/// each other determine only one combination of the energies of their elements.
const RANK_TOLERANCE: f64 = 1e-9;

/// Offset, scale and energies of atoms of the targets of a training: the model predicts
/// `offset + Σ_i (scale · output_i + atoms[z_i])`.
#[derive(Clone, Debug, PartialEq)]
pub struct References {
    /// Energies of atoms by atomic number; empty for none.
    pub atoms: Vec<f64>,
    /// Added once to each structure.
    pub offset: f64,
    /// Factor of the output of each atom.
    pub scale: f64,
}

impl Default for References {
    fn default() -> Self {
        Self { atoms: Vec::new(), offset: 0.0, scale: 1.0 }
    }
}

impl References {
    /// Only a scale: that of forces, or without forces that of energies per atom.
    #[must_use]
    pub fn none(structures: &[&Structure]) -> Self {
        Self { scale: scale(structures, &[]), ..Self::default() }
    }

    /// Mean and standard deviation of the energies, as torchmd-net's `standardize`.
    ///
    /// # Errors
    /// A structure without energy.
    pub fn standardised(structures: &[&Structure]) -> Result<Self, MoleculeError> {
        let energies = energies(structures)?;
        let count = energies.len() as f64;
        let offset = energies.iter().sum::<f64>() / count;
        let square = |energy: &f64| (energy - offset) * (energy - offset);
        let variance = energies.iter().map(square).sum::<f64>() / (count - 1.0).max(1.0);
        let scale = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        Ok(Self { atoms: Vec::new(), offset, scale })
    }

    /// Least-squares energies of atoms for the energies of structures; the minimum-norm solution if
    /// compositions are dependent.
    ///
    /// # Errors
    /// A structure without energy, or energies whose squares overflow.
    pub fn least_squares(structures: &[&Structure]) -> Result<Self, MoleculeError> {
        let energies = energies(structures)?;
        let elements = elements(structures);
        let counts = Mat::from_fn(structures.len(), elements.len(), |i, j| {
            let same = structures[i].species.iter().filter(|z| **z == elements[j]);
            same.count() as f64
        });
        // Normal equations: elements are few, structures many.
        let normal = Mat::from_fn(elements.len(), elements.len(), |i, j| {
            (0..counts.rows()).map(|k| counts.at(k, i) * counts.at(k, j)).sum()
        });
        let right: Vec<f64> = (0..elements.len())
            .map(|j| energies.iter().enumerate().map(|(k, e)| counts.at(k, j) * e).sum())
            .collect();
        let parts = svd(normal.view())
            .map_err(|_| MoleculeError::NotFinite { what: "sum of reference energies" })?;
        let largest = parts.s.first().copied().unwrap_or(0.0);
        let mut atoms = vec![0.0; elements.last().map_or(0, |z| usize::from(*z) + 1)];
        for (k, value) in parts.s.iter().enumerate() {
            if *value <= RANK_TOLERANCE * largest {
                continue;
            }
            let along: f64 = right.iter().enumerate().map(|(j, r)| parts.u.at(j, k) * r).sum();
            for (j, z) in elements.iter().enumerate() {
                atoms[usize::from(*z)] += parts.u.at(j, k) * along / value;
            }
        }
        let scale = scale(structures, &atoms);
        Ok(Self { atoms, offset: 0.0, scale })
    }

    /// Energies of isolated atoms: structures of one atom each.
    ///
    /// # Errors
    /// A structure of several atoms or without energy, an element twice, or one of `structures`
    /// that is missing.
    pub fn isolated(alone: &[Structure], structures: &[&Structure]) -> Result<Self, MoleculeError> {
        let mut found = vec![None; 1 + usize::from(u8::MAX)];
        for (index, one) in alone.iter().enumerate() {
            let wrong = |found: String, expected: &str| MoleculeError::Setting {
                name: "isolated atoms",
                found: format!("structure {index} {found}"),
                expected: expected.into(),
            };
            let [species] = one.species[..] else {
                return Err(wrong(format!("has {} atoms", one.species.len()), "one atom each"));
            };
            let energy = one.labels.energy.filter(|energy| energy.is_finite());
            let energy = energy.ok_or_else(|| wrong("has no energy".into(), "an energy each"))?;
            if found[usize::from(species)].replace(energy).is_some() {
                let twice = format!("is {} again", shown_species(species));
                return Err(wrong(twice, "each element once"));
            }
        }
        let elements = elements(structures);
        if let Some(missing) = elements.iter().find(|z| found[usize::from(**z)].is_none()) {
            return Err(MoleculeError::Setting {
                name: "isolated atoms",
                found: format!("no energy of {}", shown_species(*missing)),
                expected: "one of every element of the structures".into(),
            });
        }
        let last = found.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let atoms: Vec<f64> = found[..last].iter().map(|energy| energy.unwrap_or(0.0)).collect();
        let scale = scale(structures, &atoms);
        Ok(Self { atoms, offset: 0.0, scale })
    }

    /// Sum of the energies of a structure's atoms.
    #[must_use]
    pub fn of_atoms(&self, structure: &Structure) -> f64 {
        let of = |z: &u8| self.atoms.get(usize::from(*z)).copied().unwrap_or(0.0);
        structure.species.iter().map(of).sum()
    }
}

/// Elements of structures, sorted.
#[must_use]
pub fn elements(structures: &[&Structure]) -> Vec<u8> {
    let mut all: Vec<u8> = structures.iter().flat_map(|one| one.species.clone()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn energies(structures: &[&Structure]) -> Result<Vec<f64>, MoleculeError> {
    let of = |(index, one): (usize, &&Structure)| {
        one.labels.energy.ok_or_else(|| MoleculeError::Setting {
            name: "labels",
            found: format!("structure {index} without energy"),
            expected: "an energy of every structure".into(),
        })
    };
    structures.iter().enumerate().map(of).collect()
}

/// Root mean square of force components, or without forces of the residuals of energies per atom.
fn scale(structures: &[&Structure], atoms: &[f64]) -> f64 {
    let of = References { atoms: atoms.to_vec(), ..References::default() };
    let (mut sum, mut count) = (0.0, 0u64);
    for force in structures.iter().flat_map(|one| one.labels.forces.iter().flatten().flatten()) {
        sum += force * force;
        count += 1;
    }
    if count == 0 {
        for one in structures {
            let rest = one.labels.energy.unwrap_or(0.0) - of.of_atoms(one);
            sum += (rest / one.species.len().max(1) as f64).powi(2);
            count += 1;
        }
    }
    let root = (sum / count.max(1) as f64).sqrt();
    if root > 0.0 && root.is_finite() { root } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Labels;

    fn one(species: &[u8], energy: f64) -> Structure {
        let labels = Labels { energy: Some(energy), ..Labels::default() };
        Structure { species: species.to_vec(), labels, ..Structure::default() }
    }

    #[test]
    fn least_squares_find_planted_energies_of_elements() {
        let planted = |species: &[u8]| -> f64 {
            species.iter().map(|z| if *z == 1 { -13.5 } else { -1029.25 }).sum()
        };
        let kinds: [&[u8]; 3] = [&[1, 1], &[6, 1, 1, 1, 1], &[6, 6, 1, 1]];
        let all: Vec<Structure> = kinds.iter().map(|z| one(z, planted(z))).collect();
        let found = References::least_squares(&all.iter().collect::<Vec<_>>()).unwrap();
        assert!((found.atoms[1] + 13.5).abs() < 1e-8 && (found.atoms[6] + 1029.25).abs() < 1e-8);
        assert_eq!((found.atoms.len(), found.offset), (7, 0.0));
    }

    #[test]
    fn one_composition_leaves_its_mean_to_the_atoms() {
        let all = [one(&[8, 1, 1], -30.0), one(&[1, 8, 1], -33.0)];
        let found = References::least_squares(&all.iter().collect::<Vec<_>>()).unwrap();
        assert!((found.of_atoms(&all[0]) + 31.5).abs() < 1e-9);
        assert!((found.scale - 0.5).abs() < 1e-9, "1.5 for three atoms: {}", found.scale);
    }

    #[test]
    fn standardisation_has_mean_and_deviation_of_energies() {
        let all = [one(&[1], 1.0), one(&[1], 2.0), one(&[1], 6.0)];
        let found = References::standardised(&all.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((found.offset, found.scale), (3.0, 7.0_f64.sqrt()));
    }

    #[test]
    fn isolated_atoms_are_checked() {
        let data = [one(&[6, 1], 0.0)];
        let data: Vec<&Structure> = data.iter().collect();
        let good = [one(&[1], -13.6), one(&[6], -1000.0)];
        let found = References::isolated(&good, &data).unwrap();
        assert_eq!(found.of_atoms(data[0]), -1013.6);
        let told =
            |alone: &[Structure]| References::isolated(alone, &data).unwrap_err().to_string();
        assert!(told(&good[..1]).contains("no energy of C"));
        assert!(told(&[good[0].clone(), good[0].clone()]).contains("H again"));
        assert!(told(&[one(&[1, 1], 0.0)]).contains("2 atoms"));
        let silent = Structure { species: vec![6], ..Structure::default() };
        assert!(told(&[good[0].clone(), silent]).contains("no energy"));
    }
}
