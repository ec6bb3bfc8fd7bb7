//! Molecular dynamics with any [`Potential`]: velocity Verlet at constant energy, and Langevin
//! dynamics at constant temperature by the splitting BAOAB (Leimkuhler and Matthews 2013).
//!
//! Units: angstroms, femtoseconds, electron volts, atomic mass units, kelvins. Random forces depend
//! only on the seed, the step and the atom, so a run that continues from an [`MdState`] is
//! bit-identical to an uninterrupted one.

#[cfg(test)]
mod drift;
mod recording;
mod state;
mod summary;
#[cfg(test)]
mod tests;

pub use recording::{LOG, Recording, TRAJECTORY};
pub use state::{MdState, Thermo};
pub use summary::{Fluctuation, MdSummary};

use crate::error::MoleculeError;
use crate::evaluation::stress;
use crate::potential::{Potential, Prediction, Wanted};
use crate::species::mass;
use crate::structure::Structure;
use linwright_tensor::RngKey;
use serde::{Deserialize, Serialize};

/// Boltzmann constant in electron volts per kelvin (CODATA 2018, exact).
pub const BOLTZMANN: f64 = 8.617_333_262_145_179e-5;
/// Acceleration in angstroms per square femtosecond of one electron volt per angstrom on one atomic
/// mass unit.
pub const ACCELERATION: f64 = 9.648_533_212_331_002e-3;

/// Gigapascals of one electron volt per cubic angstrom (the elementary charge of the SI, exact).
pub const GIGAPASCAL: f64 = 160.217_663_4;

/// What is kept constant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ensemble {
    /// Number, volume and energy.
    Nve,
    /// Number, volume and temperature, by friction and random forces.
    Langevin {
        /// Temperature in kelvins.
        temperature: f64,
        /// Friction in inverse femtoseconds.
        friction: f64,
    },
}

/// How to integrate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DynamicsPlan {
    /// Time step in femtoseconds.
    pub time_step: f64,
    /// What is kept constant.
    pub ensemble: Ensemble,
    /// Seed of random forces.
    pub seed: u64,
}

/// A running simulation.
pub struct Dynamics<'a> {
    potential: &'a mut dyn Potential,
    plan: DynamicsPlan,
    /// Atoms of the current step; its positions are those of the state.
    structure: Structure,
    masses: Vec<f64>,
    velocities: Vec<[f64; 3]>,
    prediction: Prediction,
    step: u64,
}

/// Masses of the atoms of a structure in atomic mass units: its own, or those of the elements.
///
/// # Errors
/// A number that is not an element.
pub fn masses(structure: &Structure) -> Result<Vec<f64>, MoleculeError> {
    if let Some(masses) = &structure.masses {
        return Ok(masses.clone());
    }
    let of = |(atom, number): (usize, &u8)| {
        mass(*number).ok_or(MoleculeError::Element { atom, number: *number })
    };
    structure.species.iter().enumerate().map(of).collect()
}

impl<'a> Dynamics<'a> {
    /// A simulation of `structure` from `state`, or from the structure with its momenta, at rest if
    /// it has none. `masses` are in atomic mass units, one for each atom.
    ///
    /// # Errors
    /// [`MoleculeError::Setting`] for a plan, masses or a state that do not fit, and for atoms none
    /// of which may move, and those of the structure and the potential.
    pub fn new(
        potential: &'a mut dyn Potential,
        mut structure: Structure,
        masses: Vec<f64>,
        plan: DynamicsPlan,
        state: Option<MdState>,
    ) -> Result<Self, MoleculeError> {
        structure.check()?;
        let atoms = structure.positions.len();
        check(&plan, &masses, atoms)?;
        if atoms > 0 && structure.held_coordinates() == 3 * atoms {
            return Err(MoleculeError::Setting {
                name: "structure",
                found: "all of its atoms held by move_mask".to_owned(),
                expected: "at least one coordinate that may move".to_owned(),
            });
        }
        let (velocities, step) = match state {
            Some(state) => {
                state.check(atoms)?;
                structure.positions = state.positions;
                (state.velocities, state.step)
            }
            None => (velocities(&structure, &masses), 0),
        };
        structure.forget_labels();
        structure.forget_velocities();
        structure.momenta = None;
        let mut simulation = Self {
            potential,
            plan,
            structure,
            masses,
            velocities,
            prediction: Prediction::default(),
            step,
        };
        simulation.hold();
        simulation.update_forces()?;
        Ok(simulation)
    }

    /// Draws velocities for a temperature in kelvins and removes the motion of the whole, which is
    /// none where coordinates are held.
    pub fn thermalise(&mut self, temperature: f64) {
        let key = RngKey::new(self.plan.seed).fold("velocities");
        for (atom, velocity) in self.velocities.iter_mut().enumerate() {
            let scale = (BOLTZMANN * temperature * ACCELERATION / self.masses[atom]).sqrt();
            let mut stream = key.fold_index(atom as u64).stream();
            *velocity = std::array::from_fn(|_| scale * stream.normal());
        }
        if self.structure.held.is_some() {
            return self.hold();
        }
        let whole: f64 = self.masses.iter().sum();
        let momentum: [f64; 3] = std::array::from_fn(|axis| {
            self.masses.iter().zip(&self.velocities).map(|(mass, v)| mass * v[axis]).sum()
        });
        for velocity in &mut self.velocities {
            for (own, momentum) in velocity.iter_mut().zip(momentum) {
                *own -= momentum / whole;
            }
        }
    }

    /// One time step.
    ///
    /// # Errors
    /// [`MoleculeError::Diverged`] if positions or velocities are no longer finite, and those of
    /// the potential.
    pub fn advance(&mut self) -> Result<(), MoleculeError> {
        let half = 0.5 * self.plan.time_step;
        self.kick(half);
        match self.plan.ensemble {
            Ensemble::Nve => self.drift(self.plan.time_step),
            Ensemble::Langevin { temperature, friction } => {
                self.drift(half);
                self.exchange(temperature, friction);
                self.drift(half);
            }
        }
        self.step += 1;
        self.update_forces()?;
        self.kick(half);
        let numbers = self.velocities.iter().chain(&self.structure.positions).flatten();
        match numbers.copied().all(f64::is_finite) {
            true => Ok(()),
            false => Err(MoleculeError::Diverged { step: self.step }),
        }
    }

    /// The atoms as they are, without labels.
    #[must_use]
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Steps that were made.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The atoms as they are, with energy, forces, stress and momenta.
    #[must_use]
    pub fn frame(&self) -> Structure {
        let mut frame = self.structure.clone();
        let root = ACCELERATION.sqrt();
        let momentum = |(v, mass): (&[f64; 3], &f64)| v.map(|v| mass * v / root);
        frame.momenta = Some(self.velocities.iter().zip(&self.masses).map(momentum).collect());
        let Prediction { energy, forces, .. } = &self.prediction;
        let stress = stress(&self.structure, &self.prediction);
        frame.replace_labels(*energy, forces.clone(), stress);
        frame.info.insert("step".into(), self.step.to_string());
        frame.info.insert("time_fs".into(), format!("{:?}", self.time()));
        frame
    }

    fn time(&self) -> f64 {
        self.step as f64 * self.plan.time_step
    }

    /// Energies, temperature and pressure.
    #[must_use]
    pub fn thermo(&self) -> Thermo {
        let square = |v: &[f64; 3]| v.iter().map(|x| x * x).sum::<f64>();
        let twice: f64 = self.masses.iter().zip(&self.velocities).map(|(m, v)| m * square(v)).sum();
        let kinetic = 0.5 * twice / ACCELERATION;
        let degrees = (3 * self.masses.len() - self.structure.held_coordinates()) as f64;
        let volume = self.structure.cell.and_then(|cell| cell.bulk_volume());
        let virial: f64 = (0..3).map(|axis| self.prediction.virial[axis][axis]).sum();
        let energy = self.prediction.energy;
        Thermo {
            step: self.step,
            time: self.time(),
            potential_energy: energy,
            kinetic_energy: kinetic,
            total_energy: energy + kinetic,
            temperature: 2.0 * kinetic / (degrees * BOLTZMANN),
            pressure: volume.map(|volume| GIGAPASCAL * (2.0 * kinetic + virial) / (3.0 * volume)),
        }
    }

    /// What is needed to continue.
    #[must_use]
    pub fn state(&self) -> MdState {
        MdState {
            step: self.step,
            positions: self.structure.positions.clone(),
            velocities: self.velocities.clone(),
        }
    }

    fn kick(&mut self, time: f64) {
        let atoms = self.velocities.iter_mut().zip(&self.prediction.forces).zip(&self.masses);
        for ((velocity, force), mass) in atoms {
            for (own, force) in velocity.iter_mut().zip(force) {
                *own += time * ACCELERATION * force / mass;
            }
        }
        self.hold();
    }

    /// Stops the coordinates that are held.
    fn hold(&mut self) {
        let all = self.velocities.iter_mut().zip(self.structure.held.iter().flatten());
        for (velocity, held) in all {
            for (own, _) in velocity.iter_mut().zip(held).filter(|(_, is_held)| **is_held) {
                *own = 0.0;
            }
        }
    }

    fn drift(&mut self, time: f64) {
        for (position, velocity) in self.structure.positions.iter_mut().zip(&self.velocities) {
            for (own, velocity) in position.iter_mut().zip(velocity) {
                *own += time * velocity;
            }
        }
    }

    /// Exact solution of friction and noise over one time step.
    fn exchange(&mut self, temperature: f64, friction: f64) {
        let kept = (-friction * self.plan.time_step).exp();
        let key = RngKey::new(self.plan.seed).fold("langevin").fold_index(self.step);
        for (atom, velocity) in self.velocities.iter_mut().enumerate() {
            let square = BOLTZMANN * temperature * ACCELERATION / self.masses[atom];
            let scale = ((1.0 - kept * kept) * square).sqrt();
            let mut stream = key.fold_index(atom as u64).stream();
            for own in velocity {
                *own = kept * *own + scale * stream.normal();
            }
        }
        self.hold();
    }

    fn update_forces(&mut self) -> Result<(), MoleculeError> {
        self.prediction = self.potential.predict(&self.structure, Wanted { forces: true })?;
        Ok(())
    }
}

/// Velocities in angstroms per femtosecond from the momenta of a structure.
fn velocities(structure: &Structure, masses: &[f64]) -> Vec<[f64; 3]> {
    let root = ACCELERATION.sqrt();
    match &structure.momenta {
        Some(momenta) => {
            momenta.iter().zip(masses).map(|(p, mass)| p.map(|p| p * root / mass)).collect()
        }
        None => vec![[0.0; 3]; masses.len()],
    }
}

fn check(plan: &DynamicsPlan, masses: &[f64], atoms: usize) -> Result<(), MoleculeError> {
    let positive = |name: &'static str, value: f64| match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => Err(MoleculeError::Setting {
            name,
            found: value.to_string(),
            expected: "a positive number".to_owned(),
        }),
    };
    positive("time step", plan.time_step)?;
    if let Ensemble::Langevin { temperature, friction } = plan.ensemble {
        positive("temperature", temperature)?;
        positive("friction", friction)?;
    }
    masses.iter().try_for_each(|mass| positive("mass", *mass))?;
    if atoms == 0 {
        return Err(MoleculeError::Setting {
            name: "structure",
            found: "no atoms".to_owned(),
            expected: "at least one".to_owned(),
        });
    }
    match masses.len() == atoms {
        true => Ok(()),
        false => Err(MoleculeError::Setting {
            name: "masses",
            found: format!("{} masses", masses.len()),
            expected: format!("one for each of {atoms} atoms"),
        }),
    }
}
