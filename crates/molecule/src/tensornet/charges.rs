//! Latent charges of TensorNet2, predicted after the embedding and after every layer.
//!
//! A perceptron behind a layer norm maps the invariants `[I ; |A|² ; |S|²]` of an atom (3 channels,
//! the first not squared) to raw charges c and weights h, `q_dim` of each. In every molecule and
//! charge channel, `q_i = c_i + h_i² (Q - Σ c) / (Σ h² + ε)`, so that the charges sum to the
//! molecule's charge Q up to the softening ε. Source: arXiv 2601.00581.

use super::batch::Batch;
use super::directed::each;
use super::linear::Gradients;
use super::norm::{Normed, norm, norm_backward};
use super::number::{Number, Rows};
use super::parts::invariants;
use super::radial::{Kept, Perceptron};
use super::weights::{ChargePredictor, TensorNet};
use linwright_tensor::Scalar;
use linwright_tensor::kernels::irreps::PART_OF;

/// Added to sums of squared weights, as in the reference.
const SOFTENING: f64 = 1e-6;

/// Data kept by the predictor of one stage.
pub(crate) struct ChargePass<N: Number> {
    norm: Normed<N>,
    perceptron: Kept<N>,
    /// Raw charges, then weights: (atoms, 2 q_dim).
    raw: Rows<N>,
    /// By molecule, the inverse sums of squared weights, then the missing charges.
    sums: Rows<N>,
    /// Charges that sum to those of molecules: (atoms, q_dim).
    pub(crate) charges: Rows<N>,
}

/// `I` of a component `t0`.
fn third<N: Number>() -> N {
    N::real((1.0_f64 / 3.0).sqrt())
}

impl<T: Scalar> TensorNet<T> {
    fn charge_net<'a>(&'a self, predictor: &'a ChargePredictor<T>) -> Perceptron<'a, T> {
        let slots = predictor.linears.iter().collect();
        let (packs, activation) = (&self.packs, self.config.activation);
        Perceptron { slots, packs, values: None, activation, ends_active: false }
    }

    /// Charges from the tensors x of a stage; none for a model without charges.
    pub(crate) fn charge_pass<N: Number<Real = T>>(
        &self,
        stage: usize,
        batch: &Batch,
        x: &Rows<N>,
    ) -> Option<ChargePass<N>> {
        let predictor = self.charges.get(stage)?;
        let mut input = invariants(x);
        each(batch.atoms(), x.cols(), |i, j| input.set(i, j, x.at(i, j) * third()));
        let (normed, norm) = norm(&predictor.norm, &input);
        let (raw, perceptron) = self.charge_net(predictor).forward(normed);
        let width = raw.cols() / 2;
        let start = |molecule: usize, k: usize| {
            N::real(if k < width { SOFTENING } else { batch.charges[molecule] })
        };
        let mut sums = Rows::from_fn(batch.charges.len(), 2 * width, start);
        each(batch.atoms(), width, |i, k| {
            let (molecule, h) = (batch.molecules[i], raw.at(i, width + k));
            sums.add(molecule, k, h * h);
            sums.add(molecule, width + k, -raw.at(i, k));
        });
        each(batch.charges.len(), width, |m, k| sums.set(m, k, sums.at(m, k).inverse()));
        let charge = |i: usize, k: usize| {
            let (molecule, h) = (batch.molecules[i], raw.at(i, width + k));
            raw.at(i, k) + h * h * sums.at(molecule, k) * sums.at(molecule, width + k)
        };
        let charges = Rows::from_fn(batch.atoms(), width, charge);
        Some(ChargePass { norm, perceptron, raw, sums, charges })
    }

    /// Adds the contribution of the charges to the gradient of the tensors x of a stage.
    pub(crate) fn charge_back<N: Number<Real = T>>(
        &self,
        stage: usize,
        (batch, x, kept): (&Batch, &Rows<N>, &ChargePass<N>),
        of_charges: &Rows<N>,
        (gradient, mut into): (&mut Rows<N>, Option<&mut Gradients<T>>),
    ) {
        let predictor = &self.charges[stage];
        let of_raw = kept.through_equilibration(batch, of_charges);
        let net = self.charge_net(predictor);
        let dy = net.backward(&kept.perceptron, of_raw, into.as_deref_mut());
        let dy = norm_backward(&predictor.norm, &kept.norm, &dy, into);
        let h = x.cols();
        each(batch.atoms(), h, |i, j| {
            let (t, mut g) = (x.nine(i, j), gradient.nine(i, j));
            g[0] += dy.at(i, j) * third();
            for (c, g) in g.iter_mut().enumerate().skip(1) {
                let part = PART_OF[c];
                *g += dy.at(i, part * h + j) * t[c] * N::real(2.0);
            }
            gradient.set_nine(i, j, g);
        });
    }
}

impl<N: Number> ChargePass<N> {
    /// Gradients of raw charges and weights from those of charges.
    fn through_equilibration(&self, batch: &Batch, of_charges: &Rows<N>) -> Rows<N> {
        let width = of_charges.cols();
        let weight = |i: usize, k: usize| self.raw.at(i, width + k);
        let over = |i: usize, k: usize| self.sums.at(batch.molecules[i], k);
        let missing = |i: usize, k: usize| self.sums.at(batch.molecules[i], width + k);
        // Gradients of sums of squared weights, then of the missing charges.
        let mut of_sums = Rows::<N>::zeros(self.sums.rows(), 2 * width);
        each(batch.atoms(), width, |i, k| {
            let h = weight(i, k);
            let share = of_charges.at(i, k) * h * h * over(i, k);
            of_sums.add(batch.molecules[i], k, -(share * missing(i, k) * over(i, k)));
            of_sums.add(batch.molecules[i], width + k, share);
        });
        Rows::from_fn(batch.atoms(), 2 * width, |i, k| {
            let molecule = batch.molecules[i];
            if k < width {
                return of_charges.at(i, k) - of_sums.at(molecule, width + k);
            }
            let k = k - width;
            let direct = of_charges.at(i, k) * over(i, k) * missing(i, k);
            weight(i, k) * (direct + of_sums.at(molecule, k)) * N::real(2.0)
        })
    }
}
