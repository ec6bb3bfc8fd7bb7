//! Coulomb energy of the latent charges of TensorNet2.
//!
//! `E = Σ_{i<j} Σ_k w_k q_ik q_jk K(d_ij) / Σ_k w_k` over all stages and channels k, with
//! `K(d) = C (1 - s(d)) / d`, `s(d) = exp(1 - 1 / (1 - (d / 4.6)²))` below 4.6, which removes the
//! energy of near pairs. With a cutoff r, `1 / d` is that of a reaction field,
//! `1 / d + d² (ε - 1) / ((2 ε + 1) r³) - 3 ε / ((2 ε + 1) r)` with ε = 78.3, which vanishes at r.
//! Half of a pair's energy belongs to each atom. Energies are in electron volts and lengths in
//! angstroms, regardless of the units of the other outputs.
//!
//! Source: torchmd-net's head `ScalarPlusWeightedCoulomb`; the screening is that of AIMNet2.
//! Deviation: atoms see all images of a periodic cell within the cutoff.

use super::batch::Batch;
use super::charges::ChargePass;
use super::graph::Edge;
use super::number::{Dual, Number, Rows};
use super::weights::TensorNet;
use linwright_tensor::Scalar;

/// Half of the energy of two unit charges times their distance, in eV A, as in the reference.
const HALF_COULOMB: f64 = 0.5 * 27.211_386_024_367_243 * 0.529_177_210_563_841_1;
/// Distance from which pairs have their full energy.
const SCREENED: f64 = 4.6;
/// Largest argument of the screening.
const LARGEST: f64 = 1.0 - 1e-6;
/// Relative permittivity of the reaction field.
const PERMITTIVITY: f64 = 78.3;

/// Half of the energy of two unit charges, with its slope.
fn half_energy(d: f64, cutoff: Option<f64>) -> [f64; 2] {
    let x = (d / SCREENED).min(LARGEST);
    let rest = 1.0 - x * x;
    let near = (1.0 - 1.0 / rest).exp();
    let near_slope = match d / SCREENED < LARGEST {
        true => -near * 2.0 * x / (rest * rest * SCREENED),
        false => 0.0,
    };
    let (square, constant) = cutoff.map_or((0.0, 0.0), |r| {
        let over = 1.0 / (2.0 * PERMITTIVITY + 1.0);
        ((PERMITTIVITY - 1.0) * over / r.powi(3), 3.0 * PERMITTIVITY * over / r)
    });
    let (far, far_slope) = (1.0 / d + square * d * d - constant, 2.0 * square * d - 1.0 / (d * d));
    let factor = HALF_COULOMB;
    [factor * (1.0 - near) * far, factor * ((1.0 - near) * far_slope - near_slope * far)]
}

/// The charges of two atoms at one stage, and the shares of the channels.
struct Stage<'a, N: Number> {
    charges: &'a Rows<N>,
    shares: &'a [N],
}

impl<T: Scalar> TensorNet<T> {
    fn stages<'a, N: Number<Real = T>>(
        charges: &'a [ChargePass<N>],
        shares: &'a [N],
    ) -> impl Iterator<Item = Stage<'a, N>> {
        let width = shares.len() / charges.len().max(1);
        let shares = shares.chunks(width.max(1));
        charges.iter().zip(shares).map(|(stage, shares)| Stage { charges: &stage.charges, shares })
    }

    /// Weights of the charges divided by their sum.
    fn shares<N: Number<Real = T>>(&self) -> Vec<N> {
        let sum: f64 = self.coulomb_weights.iter().map(|weight| weight.to_f64()).sum();
        self.coulomb_weights.iter().map(|weight| N::real(weight.to_f64() / sum)).collect()
    }

    /// Half of the energy of two unit charges at the distance of an edge, with its slope.
    fn kernel(&self, edge: &Edge) -> Dual<T> {
        let cutoff = self.config.charges.as_ref().and_then(|charges| charges.coulomb_cutoff);
        let [value, tangent] = half_energy(edge.distance, cutoff).map(T::from_f64);
        Dual { value, tangent }
    }

    /// Adds Coulomb energies to the outputs of atoms.
    pub(crate) fn add_coulomb<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        (far, charges): (&[Edge], &[ChargePass<N>]),
        outputs: &mut Rows<N>,
    ) {
        let shares = self.shares();
        for (pair, edge) in batch.far.iter().zip(far) {
            let [first, second] = [pair.first, pair.second].map(|atom| atom as usize);
            let mut product = N::ZERO;
            for stage in Self::stages(charges, &shares) {
                for (k, share) in stage.shares.iter().enumerate() {
                    product += *share * stage.charges.at(first, k) * stage.charges.at(second, k);
                }
            }
            let half = product * edge.of(self.kernel(edge));
            outputs.add(first, 0, half);
            outputs.add(second, 0, half);
        }
    }

    /// Gradients of the charges of all stages and of the distances of far pairs, from those of
    /// the outputs of atoms.
    pub(crate) fn coulomb_back<N: Number<Real = T>>(
        &self,
        batch: &Batch,
        (far, charges): (&[Edge], &[ChargePass<N>]),
        seeds: &Rows<N>,
    ) -> (Vec<Rows<N>>, Vec<f64>) {
        let shares = self.shares();
        let mut of_charges: Vec<Rows<N>> = charges
            .iter()
            .map(|stage| Rows::zeros(stage.charges.rows(), stage.charges.cols()))
            .collect();
        let mut distances = Vec::with_capacity(far.len());
        for (pair, edge) in batch.far.iter().zip(far) {
            let [first, second] = [pair.first, pair.second].map(|atom| atom as usize);
            let seed = seeds.at(first, 0) + seeds.at(second, 0);
            let kernel = self.kernel(edge);
            let along = seed * edge.of(kernel);
            let mut product = N::ZERO;
            for (stage, to) in Self::stages(charges, &shares).zip(&mut of_charges) {
                for (k, share) in stage.shares.iter().enumerate() {
                    let (a, b) = (stage.charges.at(first, k), stage.charges.at(second, k));
                    product += *share * a * b;
                    to.add(first, k, along * *share * b);
                    to.add(second, k, along * *share * a);
                }
            }
            distances.push((seed * product).parts().0.to_f64() * kernel.tangent.to_f64());
        }
        (of_charges, distances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_pair_energies_equal_differences() {
        for cutoff in [None, Some(6.0)] {
            for k in 1..60 {
                let (d, h) = (0.1 * f64::from(k), 1e-6);
                let [below, at, above] = [d - h, d, d + h].map(|d| half_energy(d, cutoff));
                let want = (above[0] - below[0]) / (2.0 * h);
                assert!((at[1] - want).abs() < 1e-6 * (1.0 + want.abs()), "{d}: {at:?} {want}");
            }
        }
    }

    #[test]
    fn pair_energies_are_screened_near_and_coulombs_law_far() {
        // Nothing at the origin, the whole energy from 4.6 on, nothing at the cutoff.
        assert!(half_energy(1e-3, None)[0].abs() < 1e-2);
        assert!((2.0 * half_energy(10.0, None)[0] - 1.439_964_5).abs() < 1e-6);
        assert!(half_energy(6.0, Some(6.0))[0].abs() < 1e-14);
    }
}
