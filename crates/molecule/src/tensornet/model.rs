//! Energies, forces and virials of a TensorNet.

use super::back::EdgeGradients;
use super::batch::Batch;
use super::config::{Family, Head, Reduction};
use super::linear::Gradients;
use super::number::{Dual, Number, Rows};
use super::pass::Pass;
use super::weights::TensorNet;
use crate::{MoleculeError, Potential, Prediction, Structure, Wanted};
use linwright_ops::Op;
use linwright_tensor::Scalar;

/// Energies and forces of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchPrediction {
    /// Energy of each structure.
    pub energies: Vec<f64>,
    /// Output of each atom, times the factor of the model.
    pub atom_energies: Vec<f64>,
    /// Forces on all atoms; empty unless wanted.
    pub forces: Vec<[f64; 3]>,
    /// Sum of the virials; zero unless forces were wanted.
    pub virial: [[f64; 3]; 3],
}

/// A type of numbers that models compute in: `f32` or `f64`.
pub trait Precision: Scalar {
    /// Energies, and forces with the virial if wanted, by the exact path.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] for a model that has no energy.
    fn evaluate(
        model: &TensorNet<Self>,
        batch: &Batch,
        wanted: Wanted,
    ) -> Result<BatchPrediction, MoleculeError>;

    /// What the head gives for each atom, before the factor of the model.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] for a model of another family.
    fn outputs(model: &TensorNet<Self>, batch: &Batch) -> Result<Vec<f64>, MoleculeError>;
}

macro_rules! precision {
    ($type:ident) => {
        impl Precision for $type {
            fn evaluate(
                model: &TensorNet<Self>,
                batch: &Batch,
                wanted: Wanted,
            ) -> Result<BatchPrediction, MoleculeError> {
                model.evaluate_in::<$type>(batch, wanted)
            }

            fn outputs(model: &TensorNet<Self>, batch: &Batch) -> Result<Vec<f64>, MoleculeError> {
                model.check_runs()?;
                let pass: Pass<$type> = model.pass(batch, None);
                Ok(pass.outputs.planes[0].data().iter().map(|x| x.to_f64()).collect())
            }
        }
    };
}

precision!(f32);
precision!(f64);

impl<T: Scalar> TensorNet<T> {
    /// Refuses a model of another family, and slots whose operators are not linear.
    pub(crate) fn check_runs(&self) -> Result<(), MoleculeError> {
        if self.config.model == Family::Tensornet2 {
            let (found, expected) = ("tensornet2".into(), "tensornet".into());
            return Err(MoleculeError::Architecture { option: "model", found, expected });
        }
        match self.linears().into_iter().find(|slot| matches!(slot.op(), Op::Map(_))) {
            None => Ok(()),
            Some(slot) => Err(MoleculeError::NotLinear {
                site: slot.id().0.clone(),
                kind: slot.op().map().spec().kind().to_owned(),
            }),
        }
    }

    fn has_energy(&self) -> Result<(), MoleculeError> {
        self.check_runs()?;
        if self.config.head != Head::Scalar {
            let (found, expected) = (format!("{:?}", self.config.head), "Scalar".into());
            return Err(MoleculeError::Architecture { option: "output_model", found, expected });
        }
        Ok(())
    }

    /// Factor of each atom's output.
    fn factors(&self, batch: &Batch) -> Vec<f64> {
        let mut atoms = vec![0usize; batch.charges.len()];
        batch.molecules.iter().for_each(|molecule| atoms[*molecule] += 1);
        let of = |molecule: &usize| match self.config.reduction {
            Reduction::Add => self.std,
            Reduction::Mean => self.std / atoms[*molecule] as f64,
        };
        batch.molecules.iter().map(of).collect()
    }

    fn evaluate_in<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        wanted: Wanted,
    ) -> Result<BatchPrediction, MoleculeError> {
        self.has_energy()?;
        let pass: Pass<N> = self.pass(batch, None);
        let factors = self.factors(batch);
        let mut result = BatchPrediction {
            energies: vec![self.mean; batch.charges.len()],
            ..Default::default()
        };
        for (atom, factor) in factors.iter().enumerate() {
            let energy = factor * pass.outputs.at(atom, 0).parts().0.to_f64();
            result.energies[batch.molecules[atom]] += energy;
            result.atom_energies.push(energy);
        }
        if wanted.forces {
            let seeds = Rows::from_fn(batch.atoms(), 1, |i, _| N::real(factors[i]));
            let gradients = self.back(batch, &pass, seeds, None);
            forces(batch, &pass, &gradients, &mut result);
        }
        Ok(result)
    }

    /// Gradients of all parameters of `Σ_m of_energies_m E_m + Σ_i of_forces_i · F_i`, by the names
    /// of their tensors: those of a loss from its gradients by energies and forces.
    pub(crate) fn loss_gradients(
        &self,
        batch: &Batch,
        of_energies: &[f64],
        of_forces: &[[f64; 3]],
    ) -> Gradients<T> {
        let direction: Vec<[f64; 3]> = of_forces.iter().map(|g| g.map(|x| -x)).collect();
        let pass: Pass<Dual<T>> = self.pass(batch, Some(&direction));
        let factors = self.factors(batch);
        let seed = |i: usize, _| {
            let of_energy = of_energies[batch.molecules[i]];
            Dual { value: T::from_f64(factors[i]), tangent: T::from_f64(factors[i] * of_energy) }
        };
        let mut gradients = Gradients::new();
        let seeds = Rows::from_fn(batch.atoms(), 1, seed);
        self.back(batch, &pass, seeds, Some(&mut gradients));
        gradients
    }
}

fn forces<N: Number>(
    batch: &Batch,
    pass: &Pass<N>,
    gradients: &EdgeGradients,
    result: &mut BatchPrediction,
) {
    result.forces = vec![[0.0; 3]; batch.atoms()];
    for (index, pair) in batch.neighbours.pairs.iter().enumerate() {
        let (edge, of_unit) = (&pass.edges[index], gradients.unit[index]);
        let along: f64 = (0..3).map(|a| of_unit[a] * edge.unit[a]).sum();
        let of_vector: [f64; 3] = std::array::from_fn(|a| {
            let across = (of_unit[a] - edge.unit[a] * along) / edge.distance;
            gradients.distance[index] * edge.unit[a] + across
        });
        for (a, g) in of_vector.into_iter().enumerate() {
            result.forces[pair.first as usize][a] -= g;
            result.forces[pair.second as usize][a] += g;
            (0..3).for_each(|b| result.virial[a][b] -= g * pair.vector[b]);
        }
    }
}

/// A TensorNet as a potential, by the exact path.
#[derive(Clone, Debug)]
pub struct TensorNetPotential<T: Scalar> {
    model: TensorNet<T>,
}

impl<T: Precision> TensorNetPotential<T> {
    /// The potential of a model.
    #[must_use]
    pub fn new(model: TensorNet<T>) -> Self {
        Self { model }
    }
}

impl<T: Precision> Potential for TensorNetPotential<T> {
    fn cutoff(&self) -> f64 {
        self.model.config.cutoff_upper
    }

    fn predict(
        &mut self,
        structure: &Structure,
        wanted: Wanted,
    ) -> Result<Prediction, MoleculeError> {
        let batch = Batch::new(&[structure], &self.model.config)?;
        let found = T::evaluate(&self.model, &batch, wanted)?;
        let numbers = found.forces.iter().flatten().chain(&found.energies);
        if !numbers.into_iter().all(|number| number.is_finite()) {
            return Err(MoleculeError::NotFinite { what: "energy or force" });
        }
        Ok(Prediction {
            energy: found.energies[0],
            atom_energies: found.atom_energies,
            forces: found.forces,
            virial: found.virial,
        })
    }
}
