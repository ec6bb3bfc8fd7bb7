//! Radial functions and the filters computed from them, with slopes.
//!
//! A filter depends on the distance alone, so its slope is the tangent along the distance; both
//! directions of a pair share it. The last row is that of distance zero, for atoms themselves.

use super::batch::Batch;
use super::config::{RadialKind, TensorNetConfig};
use super::curve::{activated, through_activation};
use super::linear::{
    Gradients, Packs, Values, backward, backward_with, forward, forward_with, parameters,
};
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
    pub(crate) cutoffs: Vec<Dual<T>>,
}

/// A filter and the data for its gradients.
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

    /// Filters of the embedding, without the data for their gradients.
    fn embedding_filter(&self, radial: &Radial<T>) -> Rows<Dual<T>> {
        let (h, rows) = (self.config.channels, radial.cutoffs.len());
        let mut all = Rows::<Dual<T>>::unset(rows, 3 * h);
        for (part, slot) in self.embedding.filters.iter().enumerate() {
            let own = forward((&self.packs, slot), &radial.functions);
            for (to, from) in all.planes.iter_mut().zip(&own.planes) {
                to.view_mut().columns(part * h, h).copy_from(from.view());
            }
        }
        all.scale_rows(&radial.cutoffs);
        all
    }

    /// Filters of a layer.
    fn layer_filter(&self, radial: &Radial<T>, layer: usize) -> Filter<T> {
        let slots = self.layers[layer].filters.iter().collect();
        let activation = self.config.activation;
        let packs = &self.packs;
        let net = Perceptron { slots, packs, values: None, activation, ends_active: true };
        let (mut rows, kept) = net.forward(radial.functions.clone());
        rows.scale_rows(&radial.cutoffs);
        Filter { rows, kept }
    }

    /// All filters of a batch that depend on distances alone, for any number of passes.
    pub(crate) fn filters(&self, batch: &Batch) -> Filters<T> {
        let length = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let radial = self.radial(batch.neighbours.pairs.iter().map(|pair| length(pair.vector)));
        let embedding = self.embedding_filter(&radial);
        // Those of charged models depend on the charges too.
        let layers = if self.charges.is_empty() { self.layers.len() } else { 0 };
        let layers = (0..layers).map(|layer| self.layer_filter(&radial, layer));
        let (layers, values) = (layers.collect(), Values::default());
        Filters { layers, embedding, radial, values }
    }

    /// Adds gradients of the parameters of a layer's filter, from those of value (in the tangents)
    /// and slope (in the values).
    pub(crate) fn layer_filter_parameters(
        &self,
        layer: usize,
        filters: &Filters<T>,
        mut gradient: Rows<Dual<T>>,
        into: &mut Gradients<T>,
    ) {
        gradient.scale_rows(&filters.radial.cutoffs);
        let slots = &self.layers[layer].filters;
        for (k, slot) in slots.iter().enumerate().rev() {
            let (x, z) = &filters.layers[layer].kept[k];
            through_activation(self.config.activation, z, &mut gradient);
            parameters(slot, x, &gradient, &(0..x.rows()), into);
            if k > 0 {
                gradient = backward((&self.packs, slot), x, &gradient);
            }
        }
    }

    /// The same for the embedding.
    pub(crate) fn embedding_filter_parameters(
        &self,
        radial: &Radial<T>,
        mut gradient: Rows<Dual<T>>,
        into: &mut Gradients<T>,
    ) {
        let (h, rows) = (self.config.channels, gradient.rows());
        gradient.scale_rows(&radial.cutoffs);
        for (part, slot) in self.embedding.filters.iter().enumerate() {
            let mut dy = Rows::<Dual<T>>::unset(rows, h);
            for (to, from) in dy.planes.iter_mut().zip(&gradient.planes) {
                to.view_mut().copy_from(from.view().columns(part * h, h));
            }
            parameters(slot, &radial.functions, &dy, &(0..rows), into);
        }
    }
}

/// Filters of all pairs of a batch: they depend on distances and weights alone.
pub(crate) struct Filters<T: Scalar> {
    pub(crate) radial: Radial<T>,
    pub(crate) embedding: Rows<Dual<T>>,
    /// Those of layers; none if they are [directed](super::directed).
    pub(crate) layers: Vec<Filter<T>>,
    /// Values shared by two passes with these filters.
    pub(crate) values: Values<T>,
}

/// A multilayer perceptron with a nonlinearity after every layer, except possibly the last.
pub(crate) struct Perceptron<'a, T: Scalar> {
    pub(crate) slots: Vec<&'a LinearSlot<T>>,
    pub(crate) packs: &'a Packs,
    /// Values that may be known.
    pub(crate) values: Option<&'a Values<T>>,
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
            let z = forward_with(self.values, (self.packs, *slot), &x);
            let next = match self.active(k) {
                true => activated(self.activation, &z),
                false => z.clone(),
            };
            kept.push((std::mem::replace(&mut x, next), z));
        }
        (x, kept)
    }

    pub(crate) fn backward<N: Number<Real = T>>(
        &self,
        kept: &[(Rows<N>, Rows<N>)],
        mut dy: Rows<N>,
        mut into: Option<&mut Gradients<T>>,
    ) -> Rows<N> {
        for (k, (slot, (x, z))) in self.slots.iter().zip(kept).enumerate().rev() {
            if self.active(k) {
                through_activation(self.activation, z, &mut dy);
            }
            if let Some(into) = into.as_deref_mut() {
                parameters(slot, x, &dy, &(0..x.rows()), into);
            }
            dy = backward_with(self.values, (self.packs, *slot), x, &dy);
        }
        dy
    }
}
