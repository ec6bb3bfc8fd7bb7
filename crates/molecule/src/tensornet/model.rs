//! Energies, forces and virials of a TensorNet.

use super::back::EdgeGradients;
use super::batch::Batch;
use super::config::Reduction;
use super::graph::Edge;
use super::linear::Gradients;
use super::number::{Dual, Number, Rows};
use super::pass::Pass;
use super::radial::Filters;
use super::weights::TensorNet;
use crate::neighbours::PairSource;
use crate::{MoleculeError, Pair, Potential, Prediction, Structure, Wanted};
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
    /// [`MoleculeError::Architecture`] for a model whose head is not an energy.
    fn evaluate(
        model: &TensorNet<Self>,
        batch: &Batch,
        wanted: Wanted,
    ) -> Result<BatchPrediction, MoleculeError>;

    /// Output of the head for each atom, before the factor of the model: a number, or the
    /// components of a vector or matrix.
    fn outputs(model: &TensorNet<Self>, batch: &Batch) -> Vec<f64>;
}

macro_rules! precision {
    ($type:ident) => {
        impl Precision for $type {
            fn evaluate(
                model: &TensorNet<Self>,
                batch: &Batch,
                wanted: Wanted,
            ) -> Result<BatchPrediction, MoleculeError> {
                model.evaluate_in::<$type>(batch, &model.filters(batch), wanted)
            }

            fn outputs(model: &TensorNet<Self>, batch: &Batch) -> Vec<f64> {
                model.contributions::<$type>(batch)
            }
        }
    };
}

precision!(f32);
precision!(f64);

impl<T: Scalar> TensorNet<T> {
    /// Refuses slots whose operators are not linear.
    pub(crate) fn check_linear(&self) -> Result<(), MoleculeError> {
        match self.linears().into_iter().find(|slot| matches!(slot.op(), Op::Map(_))) {
            None => Ok(()),
            Some(slot) => Err(MoleculeError::NotLinear {
                site: slot.id().0.clone(),
                kind: slot.op().map().spec().kind().to_owned(),
            }),
        }
    }

    fn has_energy(&self) -> Result<(), MoleculeError> {
        if self.config.head.is_energy() {
            return self.check_linear();
        }
        let found = format!("{:?}, which is not an energy", self.config.head);
        let expected = "Scalar or ScalarPlusWeightedCoulomb".into();
        Err(MoleculeError::Architecture { option: "output_model", found, expected })
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

    /// Energies, and forces if wanted, with the filters of the batch.
    pub(crate) fn evaluate_in<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        filters: &Filters<T>,
        wanted: Wanted,
    ) -> Result<BatchPrediction, MoleculeError> {
        self.has_energy()?;
        let pass: Pass<N> = self.pass(batch, filters, None);
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
            let gradients = self.back_to_edges(batch, (filters, &pass), seeds);
            forces(batch, &pass, &gradients, &mut result);
        }
        Ok(result)
    }

    /// Gradients of all parameters of `Σ_m of_energies_m E_m + Σ_i of_forces_i · F_i`, by the names
    /// of their tensors: those of a loss from its gradients by energies and forces.
    pub(crate) fn loss_gradients(
        &self,
        (batch, filters): (&Batch, &Filters<T>),
        of_energies: &[f64],
        of_forces: &[[f64; 3]],
    ) -> Gradients<T> {
        let direction: Vec<[f64; 3]> = of_forces.iter().map(|g| g.map(|x| -x)).collect();
        let pass: Pass<Dual<T>> = self.pass(batch, filters, Some(&direction));
        let factors = self.factors(batch);
        let seed = |i: usize, _| {
            let of_energy = of_energies[batch.molecules[i]];
            Dual { value: T::from_f64(factors[i]), tangent: T::from_f64(factors[i] * of_energy) }
        };
        let seeds = Rows::from_fn(batch.atoms(), 1, seed);
        self.back_to_parameters(batch, (filters, &pass), seeds)
    }
}

fn forces<N: Number>(
    batch: &Batch,
    pass: &Pass<N>,
    gradients: &EdgeGradients,
    result: &mut BatchPrediction,
) {
    result.forces = vec![[0.0; 3]; batch.atoms()];
    let mut add = |pair: &Pair, edge: &Edge, of_distance: f64, of_unit: [f64; 3]| {
        let along: f64 = (0..3).map(|a| of_unit[a] * edge.unit[a]).sum();
        let of_vector: [f64; 3] = std::array::from_fn(|a| {
            let across = (of_unit[a] - edge.unit[a] * along) / edge.distance;
            of_distance * edge.unit[a] + across
        });
        for (a, g) in of_vector.into_iter().enumerate() {
            result.forces[pair.first as usize][a] -= g;
            result.forces[pair.second as usize][a] += g;
            (0..3).for_each(|b| result.virial[a][b] -= g * pair.vector[b]);
        }
    };
    for (index, pair) in batch.neighbours.pairs.iter().enumerate() {
        add(pair, &pass.graph.edges[index], gradients.distance[index], gradients.unit[index]);
    }
    for ((pair, edge), of_distance) in batch.far.iter().zip(&pass.far).zip(&gradients.far) {
        add(pair, edge, *of_distance, [0.0; 3]);
    }
}

/// A TensorNet as a potential, by the exact path.
#[derive(Clone, Debug)]
pub struct TensorNetPotential<T: Scalar> {
    model: TensorNet<T>,
    pairs: PairSource,
}

impl<T: Precision> TensorNetPotential<T> {
    /// The potential of a model.
    #[must_use]
    pub fn new(model: TensorNet<T>) -> Self {
        let pairs = PairSource::new(model.config.cutoff());
        Self { model, pairs }
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
        let neighbours = self.pairs.of(structure)?.clone();
        let batch = Batch::with_neighbours(&[structure], neighbours, &self.model.config);
        let batch = batch.map_err(MoleculeError::of_only_structure)?;
        let found = T::evaluate(&self.model, &batch, wanted)?;
        let prediction = Prediction {
            energy: found.energies[0],
            atom_energies: found.atom_energies,
            forces: found.forces,
            virial: found.virial,
            deviation: None,
        };
        prediction.finite()
    }

    fn keep_pairs(&mut self, skin: f64) -> Result<(), MoleculeError> {
        self.pairs.keep(skin)
    }
}
