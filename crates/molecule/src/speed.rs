//! Lower bounds for the time of energies and forces on this machine, from the rates of its kernels.
//!
//! A TensorNet with tabulated radial filters does two kinds of work: products of features with
//! weights, and sums over neighbours. Each has an upper limit of its rate, measured here on one
//! thread with everything in the nearest cache.

use crate::tensornet::TensorNetConfig;
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::{Arg, PackedRight};
use linwright_tensor::kernels::irreps::{COMPONENTS, Edges, PARTS, SLAB, Stencil, gather, row_len};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Time of one measurement.
const SPAN: Duration = Duration::from_millis(4);
/// Number of measurements of a rate, the best of which is used.
const MEASUREMENTS: usize = 24;

/// Floating-point operations per second of one thread; a multiply-add is two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelRates {
    /// Products of features with square weights.
    pub products: f64,
    /// Sums over neighbours, without the arithmetic of filters.
    pub sums: f64,
}

impl KernelRates {
    /// Measures the rates for a number of channels.
    ///
    /// # Panics
    /// If channels are zero or not a multiple of 16.
    #[must_use]
    pub fn measured(channels: usize) -> Self {
        assert!(channels > 0 && channels.is_multiple_of(SLAB), "{channels} channels");
        Self { products: products(channels), sums: sums(channels) }
    }

    /// Lower bound in seconds for energy and forces of a structure with this number of directed
    /// edges: `2 (41 + 36 L) H²` operations for each atom, `(54 L + 54) H` for each edge. The cost
    /// model ignores filters, nonlinearities, 3 x 3 products, neighbour lists and memory.
    #[must_use]
    pub fn least_seconds(&self, config: &TensorNetConfig, atoms: usize, edges: usize) -> f64 {
        let (h, l) = (config.channels as f64, config.layers as f64);
        let of_atoms = 2.0 * (41.0 + 36.0 * l) * h * h * atoms as f64;
        let of_edges = 54.0 * (l + 1.0) * h * edges as f64;
        of_atoms / self.products + of_edges / self.sums
    }
}

/// The best rate of some work with the given number of operations.
fn best(operations: usize, mut work: impl FnMut()) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..MEASUREMENTS {
        let (began, mut passes) = (Instant::now(), 0_usize);
        while began.elapsed() < SPAN {
            work();
            passes += 1;
        }
        best = best.max((passes * operations) as f64 / began.elapsed().as_secs_f64());
    }
    best
}

fn products(channels: usize) -> f64 {
    /// Atoms of a block of the fast path.
    const ROWS: usize = 32;
    let weight = Mat::<f32>::from_fn(channels, channels, |i, k| ((i + 2 * k) % 7) as f32 - 3.0);
    let packed = PackedRight::new(Arg::Plain(weight.view()));
    let x = Mat::<f32>::from_fn(ROWS, channels, |i, k| ((3 * i + k) % 5) as f32 - 2.0);
    let mut y = Mat::<f32>::zeros(ROWS, channels);
    best(2 * ROWS * channels * channels, || packed.apply(1, x.view(), y.view_mut()))
}

fn sums(channels: usize) -> f64 {
    /// Few enough that their tensors stay in the cache.
    const ATOMS: usize = 4;
    const NEIGHBOURS: usize = 32;
    let starts: Vec<u32> = (0..=ATOMS).map(|atom| (atom * NEIGHBOURS) as u32).collect();
    let senders: Vec<u32> = (0..ATOMS * NEIGHBOURS).map(|entry| (entry % ATOMS) as u32).collect();
    let stencils = vec![Stencil::at(0); senders.len()];
    let edges = Edges { starts: &starts, senders: &senders, stencils: &stencils };
    let (table, own) = (vec![0.25; row_len(channels)], vec![0.5; PARTS * channels]);
    let y = vec![1.0; ATOMS * COMPONENTS * channels];
    let mut m = vec![0.0; y.len()];
    let operations = 2 * COMPONENTS * channels * senders.len();
    best(operations, || gather(edges, 0..ATOMS, &table, &own, &y, &mut m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_seconds_are_those_of_the_cost_model() {
        // 1000 atoms, 128 channels, two layers, 38,800 edges: 3.70 and 0.80 thousand million.
        let config = TensorNetConfig::new(128, 2, 32, 4.5);
        let rates = KernelRates { products: 200e9, sums: 40e9 };
        let found = rates.least_seconds(&config, 1000, 38_800);
        assert!((found - (3.703e9 / 200e9 + 0.8046e9 / 40e9)).abs() < 1e-5, "{found}");
    }

    #[test]
    fn rates_are_those_of_a_machine() {
        let rates = KernelRates::measured(32);
        for rate in [rates.products, rates.sums] {
            assert!((1e7..1e13).contains(&rate), "{rates:?}");
        }
    }
}
