//! Energies of pairs of atoms and their derivatives by distance, in electron volts and angstroms.

use super::dispersion;
use crate::error::MoleculeError;
use std::f64::consts::PI;

/// The energy of a pair, and its derivative by distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) energy: f64,
    pub(super) slope: f64,
}

impl Value {
    /// A product, by the rule of products.
    pub(super) fn times(self, other: Self) -> Self {
        Self {
            energy: self.energy * other.energy,
            slope: self.slope * other.energy + self.energy * other.slope,
        }
    }
}

/// Two atoms: their numbers in the structure, their elements, and their distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Atoms {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) species: [u8; 2],
    pub(super) distance: f64,
}

/// Coulomb energy of two charges with this product.
pub(super) fn coulomb(constant: f64, product: f64, distance: f64) -> Value {
    let energy = constant * product / distance;
    Value { energy, slope: -energy / distance }
}

/// Screened repulsion of nuclei, which vanishes smoothly at the cutoff.
pub(super) fn zbl(constant: f64, cutoff: f64, atoms: &Atoms) -> Value {
    /// Terms of the screening function: factor and rate.
    const TERMS: [(f64, f64); 4] =
        [(0.1818, 3.2), (0.5099, 0.9423), (0.2802, 0.4029), (0.02817, 0.2016)];
    const BOHR: f64 = 0.529_177_210_903;
    let [first, second] = atoms.species.map(f64::from);
    let length = 0.8854 * BOHR / (first.powf(0.23) + second.powf(0.23));
    let mut screening = Value { energy: 0.0, slope: 0.0 };
    for (factor, rate) in TERMS {
        let term = factor * (-rate * atoms.distance / length).exp();
        screening.energy += term;
        screening.slope -= rate / length * term;
    }
    let angle = PI / cutoff;
    let at = angle * atoms.distance;
    let fade = Value { energy: 0.5 * (at.cos() + 1.0), slope: -0.5 * angle * at.sin() };
    coulomb(constant, first * second, atoms.distance).times(screening).times(fade)
}

/// Damped dispersion.
pub(super) fn d2(atoms: &Atoms) -> Result<Value, MoleculeError> {
    let of = |which: usize| {
        let (species, atom) = (atoms.species[which], [atoms.first, atoms.second][which]);
        dispersion::parameters(species).ok_or_else(|| MoleculeError::Prior {
            what: format!(
                "D2 has no parameters for atom {atom} of atomic number {species}, expected 1 to 54; leave out the prior or the structure"
            ),
        })
    };
    let ((c6, radius), (other_c6, other_radius)) = (of(0)?, of(1)?);
    let (reach, d) = (radius + other_radius, atoms.distance);
    let damping = 1.0 / (1.0 + (-20.0 * (d / reach - 1.0)).exp());
    let damping = Value { energy: damping, slope: 20.0 / reach * damping * (1.0 - damping) };
    let energy = -(c6 * other_c6).sqrt() / d.powi(6);
    Ok(Value { energy, slope: -6.0 * energy / d }.times(damping))
}

/// A function that goes from zero at `from` to one at `to`.
pub(super) fn switch([from, to]: [f64; 2], distance: f64) -> Value {
    let phase = ((distance - from) / (to - from)).clamp(0.0, 1.0);
    let energy = 0.5 * (1.0 - (PI * phase).cos());
    // At both ends, the sine is zero up to rounding.
    let slope =
        if phase > 0.0 && phase < 1.0 { 0.5 * PI * (PI * phase).sin() / (to - from) } else { 0.0 };
    Value { energy, slope }
}
