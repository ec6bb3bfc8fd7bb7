//! Relaxation of positions, and optionally of the cell, until no force on an atom is larger than a
//! limit.

mod coordinates;
mod fire;
mod lbfgs;
#[cfg(test)]
mod tests;

use crate::error::MoleculeError;
use crate::potential::{Potential, Prediction, Wanted};
use crate::structure::Structure;
use crate::vectors::dot;
use coordinates::Coordinates;
use fire::Fire;
use lbfgs::Lbfgs;
use linwright_run::Monitor;
use serde::{Deserialize, Serialize};

/// Longest step of an atom in angstroms.
const LONGEST: f64 = 0.2;

/// How to go downhill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Minimiser {
    /// Limited-memory BFGS without line search, as ASE's: fewest evaluations near a minimum.
    #[default]
    Lbfgs,
    /// Fast inertial relaxation engine (Bitzek et al. 2006): robust far from one.
    Fire,
}

impl Minimiser {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Lbfgs, Self::Fire];

    /// Its name, as options have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lbfgs => "lbfgs",
            Self::Fire => "fire",
        }
    }
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelaxationPlan {
    /// How to go downhill.
    pub minimiser: Minimiser,
    /// Largest force on an atom at the end, in electron volts per angstrom.
    pub force: f64,
    /// Whether the cell moves too, until no row of the virial divided by the number of atoms is
    /// larger than `force`, in electron volts, as ASE judges it.
    pub cell: bool,
    /// Largest number of steps.
    pub steps: u64,
}

/// The end of a relaxation.
#[derive(Clone, Debug, PartialEq)]
pub struct Relaxed {
    /// The atoms at the end.
    pub structure: Structure,
    /// Energy and forces there.
    pub prediction: Prediction,
    /// Largest force on an atom there, or row of the virial for each atom if the cell moved.
    pub force: f64,
    /// Steps that were made.
    pub steps: u64,
    /// Whether `force` is as small as was asked for.
    pub is_converged: bool,
}

/// Moves the atoms of `structure`, and its cell if wanted, until the largest force is at most that
/// of the plan. Coordinates that it holds stay, and so do its labels and momenta.
///
/// # Errors
/// [`MoleculeError::Setting`] for a force that is not positive, or a cell that is to move and does
/// not repeat along all its vectors or whose atoms are held, [`MoleculeError::Diverged`] if
/// positions are no longer finite, [`MoleculeError::Interrupted`], and those of the potential.
pub fn relax(
    potential: &mut dyn Potential,
    structure: &Structure,
    plan: &RelaxationPlan,
    monitor: &mut dyn Monitor,
) -> Result<Relaxed, MoleculeError> {
    if !(plan.force.is_finite() && plan.force > 0.0) {
        return Err(MoleculeError::Setting {
            name: "largest force",
            found: plan.force.to_string(),
            expected: "a positive number".to_owned(),
        });
    }
    structure.check()?;
    let (coordinates, mut at) = Coordinates::new(structure, plan.cell)?;
    let mut own = match plan.minimiser {
        Minimiser::Lbfgs => Step::Lbfgs(Lbfgs::default()),
        Minimiser::Fire => Step::Fire(Fire::default()),
    };
    let mut steps = 0;
    loop {
        let structure = coordinates.structure(&at);
        let prediction = potential.predict(&structure, Wanted { forces: true })?;
        let force = coordinates.largest(&prediction);
        let is_converged = force <= plan.force;
        if is_converged || steps == plan.steps {
            return Ok(Relaxed { structure, prediction, force, steps, is_converged });
        }
        if monitor.interrupted() {
            return Err(MoleculeError::Interrupted { step: steps });
        }
        let step = own.step(&at, &coordinates.forces(&at, &prediction));
        for (own, step) in at.iter_mut().flatten().zip(step.iter().flatten()) {
            *own += step;
        }
        steps += 1;
        monitor.progress(steps, plan.steps);
        if !at.iter().flatten().all(|x| x.is_finite()) {
            return Err(MoleculeError::Diverged { step: steps });
        }
    }
}

enum Step {
    Lbfgs(Lbfgs),
    Fire(Fire),
}

impl Step {
    fn step(&mut self, positions: &[[f64; 3]], forces: &[[f64; 3]]) -> Vec<[f64; 3]> {
        let mut step = match self {
            Self::Lbfgs(own) => own.step(positions, forces),
            Self::Fire(own) => own.step(forces),
        };
        let longest = largest(&step);
        if longest > LONGEST {
            step.iter_mut().flatten().for_each(|x| *x *= LONGEST / longest);
        }
        step
    }
}

/// Length of the longest vector.
fn largest(vectors: &[[f64; 3]]) -> f64 {
    vectors.iter().map(|v| dot(v, v).sqrt()).fold(0.0, f64::max)
}

/// Inner product of all atoms.
fn inner(one: &[[f64; 3]], other: &[[f64; 3]]) -> f64 {
    one.iter().zip(other).map(|(a, b)| dot(a, b)).sum()
}
