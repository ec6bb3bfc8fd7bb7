//! A potential of pairs for tests of what works with any potential.

use crate::error::MoleculeError;
use crate::potential::{Potential, Prediction, Wanted};
use crate::structure::Structure;

/// Every pair is a spring of unit stiffness and unit length, a little anharmonic.
pub(crate) struct Springs;

impl Potential for Springs {
    fn cutoff(&self) -> f64 {
        f64::INFINITY
    }

    fn predict(&mut self, structure: &Structure, _: Wanted) -> Result<Prediction, MoleculeError> {
        let places = &structure.positions;
        let mut found = Prediction { forces: vec![[0.0; 3]; places.len()], ..Default::default() };
        for first in 0..places.len() {
            for second in first + 1..places.len() {
                let v: [f64; 3] = std::array::from_fn(|k| places[first][k] - places[second][k]);
                let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
                let stretch = length - 1.0;
                found.energy += 0.5 * stretch * stretch + 0.1 * stretch.powi(4);
                let pull = (stretch + 0.4 * stretch.powi(3)) / length;
                for (axis, v) in v.into_iter().enumerate() {
                    found.forces[first][axis] -= pull * v;
                    found.forces[second][axis] += pull * v;
                }
            }
        }
        Ok(found)
    }
}

/// A triangle that is not at rest.
pub(crate) fn triangle() -> Structure {
    Structure {
        species: vec![6, 1, 8],
        positions: vec![[0.0, 0.0, 0.0], [1.3, 0.1, 0.0], [0.2, 0.9, 0.4]],
        ..Structure::default()
    }
}
