//! Radial functions and the filters made of them, with slopes.
//!
//! A filter depends on the distance alone, so its slope is the tangent along the distance; both
//! directions of a pair share it. The last row is that of distance zero, for atoms themselves.

use super::config::{RadialKind, TensorNetConfig};
use super::curve::{activated, slope};
use super::linear::{Gradients, backward, forward, parameters};
use super::number::{Dual, Number, Rows};
use super::weights::{RadialBasis, TensorNet};
use linwright_ops::LinearSlot;
use linwright_tensor::Scalar;
use std::f64::consts::PI;

/// Cutoff factor and its slope.
fn cutoff(config: &TensorNetConfig, d: f64, lower: f64) -> [f64; 2] {
    let upper = config.cutoff_upper;
    if d >= upper || (lower > 0.0 && d <= lower) {
        return [0.0; 2];
    }
    let (phase, by) = match lower > 0.0 {
        true => (PI * (2.0 * (d - lower) / (upper - lower) + 1.0), 2.0 * PI / (upper - lower)),
        false => (PI * d / upper, PI / upper),
    };
    [(phase.cos() + 1.0) / 2.0, -by * phase.sin() / 2.0]
}

/// Radial functions of one distance with their slopes.
fn basis<T: Scalar>(config: &TensorNetConfig, basis: &RadialBasis<T>, d: f64) -> Vec<[f64; 2]> {
    let (centres, widths) = (&basis.centres, &basis.widths);
    let [factor, factor_slope] = cutoff(config, d, 0.0);
    let each = |(k, centre): (usize, &T)| {
        let width = widths[k.min(widths.len() - 1)].to_f64();
        match config.radial_kind {
            RadialKind::Expnorm => {
                let alpha = 5.0 / (config.cutoff_upper - config.cutoff_lower);
                let e = (alpha * (config.cutoff_lower - d)).exp();
                let off = e - centre.to_f64();
                let g = (-width * off * off).exp();
                let g_slope = 2.0 * width * off * alpha * e * g;
                [factor * g, factor_slope * g + factor * g_slope]
            }
            RadialKind::Gauss => {
                let off = d - centre.to_f64();
                let g = (-width * off * off).exp();
                [g, -2.0 * width * off * g]
            }
        }
    };
    centres.iter().enumerate().map(each).collect()
}

/// Radial functions of pairs, then those of distance zero.
pub(crate) struct Radial<T: Scalar> {
    /// Functions with slopes.
    pub(crate) functions: Rows<Dual<T>>,
    /// Cutoff factors with slopes.
    cutoffs: Vec<Dual<T>>,
}

/// A filter and what its gradients need.
pub(crate) struct Filter<T: Scalar> {
    /// Filter of the three parts side by side, with slopes.
    pub(crate) rows: Rows<Dual<T>>,
    /// Inputs of the slots and their outputs before the nonlinearity.
    pub(crate) kept: Kept<Dual<T>>,
}

impl<T: Scalar> TensorNet<T> {
    pub(crate) fn radial(&self, distances: impl Iterator<Item = f64>) -> Radial<T> {
        let config = &self.config;
        let all: Vec<f64> = distances.chain([0.0]).collect();
        let values: Vec<_> = all.iter().map(|d| basis(config, &self.basis, *d)).collect();
        let dual = |[value, slope]: [f64; 2], row: usize| {
            let slope = if row + 1 == all.len() { 0.0 } else { slope };
            Dual { value: T::from_f64(value), tangent: T::from_f64(slope) }
        };
        let functions = Rows::from_fn(all.len(), config.radial, |i, j| dual(values[i][j], i));
        let factors = all.iter().map(|d| cutoff(config, *d, config.cutoff_lower));
        let cutoffs = factors.enumerate().map(|(row, factor)| dual(factor, row)).collect();
        Radial { functions, cutoffs }
    }

    /// Filters of the embedding.
    pub(crate) fn embedding_filter(&self, radial: &Radial<T>) -> Filter<T> {
        let h = self.config.channels;
        let parts = self.embedding.filters.each_ref().map(|slot| forward(slot, &radial.functions));
        let at = |i: usize, j: usize| parts[j / h].at(i, j % h) * radial.cutoffs[i];
        Filter { rows: Rows::from_fn(radial.cutoffs.len(), 3 * h, at), kept: Vec::new() }
    }

    /// Filters of a layer.
    pub(crate) fn layer_filter(&self, radial: &Radial<T>, layer: usize) -> Filter<T> {
        let mut x = radial.functions.clone();
        let mut kept = Vec::new();
        for slot in &self.layers[layer].filters {
            let z = forward(slot, &x);
            let next = through(&z, |z| activated(self.config.activation, z));
            kept.push((std::mem::replace(&mut x, next), z));
        }
        for i in 0..x.rows() {
            (0..x.cols()).for_each(|j| x.set(i, j, x.at(i, j) * radial.cutoffs[i]));
        }
        Filter { rows: x, kept }
    }

    /// Adds gradients of the parameters of a layer's filter, from those of value (in the tangents)
    /// and slope (in the values).
    pub(crate) fn layer_filter_parameters(
        &self,
        layer: usize,
        (radial, filter): (&Radial<T>, &Filter<T>),
        gradient: &Rows<Dual<T>>,
        into: &mut Gradients<T>,
    ) {
        let (rows, cols) = (gradient.rows(), gradient.cols());
        let mut dy = Rows::from_fn(rows, cols, |i, j| gradient.at(i, j) * radial.cutoffs[i]);
        for (k, slot) in self.layers[layer].filters.iter().enumerate().rev() {
            let (x, z) = &filter.kept[k];
            for i in 0..rows {
                for j in 0..z.cols() {
                    dy.set(i, j, dy.at(i, j) * slope(self.config.activation, z.at(i, j)));
                }
            }
            parameters(slot, x, &dy, &(0..rows), into);
            if k > 0 {
                dy = backward(slot, x, &dy);
            }
        }
    }

    /// The same for the embedding.
    pub(crate) fn embedding_filter_parameters(
        &self,
        radial: &Radial<T>,
        gradient: &Rows<Dual<T>>,
        into: &mut Gradients<T>,
    ) {
        let (h, rows) = (self.config.channels, gradient.rows());
        for (part, slot) in self.embedding.filters.iter().enumerate() {
            let at = |i: usize, j: usize| gradient.at(i, part * h + j) * radial.cutoffs[i];
            let dy = Rows::from_fn(rows, h, at);
            parameters(slot, &radial.functions, &dy, &(0..rows), into);
        }
    }
}

/// A function of each number.
pub(crate) fn through<N: Number>(x: &Rows<N>, f: impl Fn(N) -> N) -> Rows<N> {
    Rows::from_fn(x.rows(), x.cols(), |i, j| f(x.at(i, j)))
}

/// A multilayer perceptron whose every layer but perhaps the last ends in a nonlinearity.
pub(crate) struct Perceptron<'a, T: Scalar> {
    pub(crate) slots: Vec<&'a LinearSlot<T>>,
    pub(crate) activation: super::config::Nonlinearity,
    /// Whether the last layer has one, too.
    pub(crate) ends_active: bool,
}

/// Inputs of its slots, and their outputs before the nonlinearity.
pub(crate) type Kept<N> = Vec<(Rows<N>, Rows<N>)>;

impl<T: Scalar> Perceptron<'_, T> {
    fn active(&self, k: usize) -> bool {
        self.ends_active || k + 1 < self.slots.len()
    }

    pub(crate) fn forward<N: Number<Real = T>>(&self, mut x: Rows<N>) -> (Rows<N>, Kept<N>) {
        let mut kept = Vec::new();
        for (k, slot) in self.slots.iter().enumerate() {
            let z = forward(slot, &x);
            let next = match self.active(k) {
                true => through(&z, |z| activated(self.activation, z)),
                false => z.clone(),
            };
            kept.push((std::mem::replace(&mut x, next), z));
        }
        (x, kept)
    }

    pub(crate) fn backward<N: Number<Real = T>>(
        &self,
        kept: &Kept<N>,
        mut dy: Rows<N>,
        mut into: Option<&mut Gradients<T>>,
    ) -> Rows<N> {
        for (k, (slot, (x, z))) in self.slots.iter().zip(kept).enumerate().rev() {
            if self.active(k) {
                let at = |i, j| dy.at(i, j) * slope(self.activation, z.at(i, j));
                dy = Rows::from_fn(z.rows(), z.cols(), at);
            }
            if let Some(into) = into.as_deref_mut() {
                parameters(slot, x, &dy, &(0..x.rows()), into);
            }
            dy = backward(slot, x, &dy);
        }
        dy
    }
}
