//! Radial filters of a model: exact values with derivatives, and tables.

use super::dense::{Affine, curve};
use crate::tensornet::{Nonlinearity, RadialKind, TensorNet, TensorNetConfig};
use linwright_tensor::kernels::irreps::{
    COEFFICIENTS, PARTS, Stencil, filter_row, hermite, row_len,
};
use linwright_tensor::{Mat, Scalar};
use std::f64::consts::PI;

/// Smallest distance covered by tables.
const NEAREST: f64 = 0.5;
/// Distances whose filters are computed together.
const TILE: usize = 256;

/// Radial functions of a model.
#[derive(Clone, Debug)]
struct Basis {
    kind: RadialKind,
    lower: f64,
    upper: f64,
    centres: Vec<f64>,
    widths: Vec<f64>,
}

/// A number and its derivative by the distance.
type Jet = [f64; 2];

impl Basis {
    /// `(cos(π d / upper) + 1) / 2` below the upper cutoff, else zero.
    fn outer(&self, d: f64) -> Jet {
        if d >= self.upper {
            return [0.0; 2];
        }
        let phase = PI * d / self.upper;
        [0.5 * (phase.cos() + 1.0), -0.5 * PI / self.upper * phase.sin()]
    }

    /// The factor of filters, which is zero at and below a positive lower cutoff too.
    fn cutoff(&self, d: f64) -> Jet {
        if self.lower <= 0.0 {
            return self.outer(d);
        }
        if d >= self.upper || d <= self.lower {
            return [0.0; 2];
        }
        let rate = 2.0 * PI / (self.upper - self.lower);
        let phase = rate * (d - self.lower) + PI;
        [0.5 * (phase.cos() + 1.0), -0.5 * rate * phase.sin()]
    }

    fn values(&self, d: f64, k: usize) -> Jet {
        let (centre, width) = (self.centres[k], self.widths[k.min(self.widths.len() - 1)]);
        match self.kind {
            RadialKind::Gauss => {
                let off = d - centre;
                let value = (-width * off * off).exp();
                [value, -2.0 * width * off * value]
            }
            RadialKind::Expnorm => {
                let alpha = 5.0 / (self.upper - self.lower);
                let e = (alpha * (self.lower - d)).exp();
                let off = e - centre;
                let gauss = (-width * off * off).exp();
                let [cut, slope] = self.outer(d);
                [cut * gauss, gauss * (slope + cut * 2.0 * width * off * alpha * e)]
            }
        }
    }
}

/// Filters of one stage as functions of the distance.
#[derive(Clone, Debug)]
enum Stage<T> {
    /// Three linear maps of the radial functions.
    Embedding([Affine<T>; 3]),
    /// Layers with nonlinearities.
    Layer([Affine<T>; 3]),
}

/// All filters of a model, computed in one scalar type.
#[derive(Clone, Debug)]
pub(super) struct Filters<T> {
    basis: Basis,
    channels: usize,
    activation: Nonlinearity,
    /// The embedding, then the layers.
    stages: Vec<Stage<T>>,
}

impl<T: Scalar> Filters<T> {
    pub(super) fn new(model: &TensorNet<f64>) -> Self {
        let TensorNetConfig { radial_kind, cutoff_lower, cutoff_upper, .. } = *model.config();
        let basis = Basis {
            kind: radial_kind,
            lower: cutoff_lower,
            upper: cutoff_upper,
            centres: model.basis.centres.clone(),
            widths: model.basis.widths.clone(),
        };
        let affine = |slots: &[_; 3]| slots.each_ref().map(Affine::new);
        let mut stages = vec![Stage::Embedding(affine(&model.embedding.filters))];
        stages.extend(model.layers.iter().map(|layer| Stage::Layer(affine(&layer.filters))));
        let config = model.config();
        Self { basis, channels: config.channels, activation: config.activation, stages }
    }

    pub(super) fn stages(&self) -> usize {
        self.stages.len()
    }

    /// Values and derivatives (distances, 3 · channels) of a stage's filters.
    pub(super) fn exactly(&self, stage: usize, distances: &[f64]) -> [Mat<T>; 2] {
        let radial = self.basis.centres.len();
        let functions = |which: usize| {
            Mat::from_fn(distances.len(), radial, |i, k| {
                T::from_f64(self.basis.values(distances[i], k)[which])
            })
        };
        let jet = [functions(0), functions(1)];
        let [mut values, mut slopes] = match &self.stages[stage] {
            Stage::Embedding(linears) => {
                let mut both = [(); 2].map(|()| Mat::zeros(distances.len(), PARTS * self.channels));
                for (part, linear) in linears.iter().enumerate() {
                    let found = linear.jet(&jet);
                    for (all, part_of) in both.iter_mut().zip(found) {
                        let to = all.view_mut().columns(part * self.channels, self.channels);
                        { to }.copy_from(part_of.view());
                    }
                }
                both
            }
            Stage::Layer(linears) => linears.iter().fold(jet, |jet, linear| {
                let mut found = linear.jet(&jet);
                let [values, slopes] = &mut found;
                for (value, slope) in values.data_mut().iter_mut().zip(slopes.data_mut()) {
                    let [y, rate] = curve(self.activation, *value);
                    (*value, *slope) = (y, rate * *slope);
                }
                found
            }),
        };
        for (i, d) in distances.iter().enumerate() {
            let [cut, rate] = self.basis.cutoff(*d).map(T::from_f64);
            for (value, slope) in values.row_mut(i).iter_mut().zip(slopes.row_mut(i)) {
                *slope = cut * *slope + rate * *value;
                *value = cut * *value;
            }
        }
        [values, slopes]
    }

    /// Appends rows of a table whose slopes are derivatives by the distance.
    pub(super) fn append_rows(&self, stage: usize, distances: &[f64], table: &mut Vec<f32>) {
        let zeros = vec![0.0; PARTS * self.channels];
        let (mut values, mut slopes) = (zeros.clone(), zeros.clone());
        for tile in distances.chunks(TILE) {
            let found = self.exactly(stage, tile);
            for i in 0..tile.len() {
                for (to, from) in [&mut values, &mut slopes].into_iter().zip(&found) {
                    to.iter_mut()
                        .zip(from.row(i))
                        .for_each(|(to, from)| *to = from.to_f64() as f32);
                }
                let start = table.len();
                table.resize(start + row_len(self.channels), 0.0);
                filter_row([&values, &slopes, &zeros, &zeros], &mut table[start..]);
            }
        }
    }
}

/// Nodes of the tables: evenly spaced in the logarithm of the distance, since radial functions are
/// narrow near an atom and wide far from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    nearest: f64,
    step: f64,
    intervals: usize,
}

impl Grid {
    pub(super) fn new(config: &TensorNetConfig, intervals: usize) -> Self {
        let TensorNetConfig { cutoff_lower, cutoff_upper, .. } = *config;
        let nearest = NEAREST.max(cutoff_lower).min(0.5 * (cutoff_lower + cutoff_upper));
        let step = (cutoff_upper / nearest).ln() / intervals as f64;
        Self { nearest, step, intervals }
    }

    /// Rows of a table.
    pub(super) fn rows(&self) -> usize {
        self.intervals
    }

    /// Interval of a distance; none below the first node.
    pub(super) fn stencil(&self, d: f64) -> Option<Stencil> {
        if d < self.nearest {
            return None;
        }
        let place = (d / self.nearest).ln() / self.step;
        let row = (place as usize).min(self.intervals - 1);
        Some(Stencil::within(row as u32, place - row as f64, 1.0 / (d * self.step)))
    }

    /// The table of a stage.
    pub(super) fn table(&self, filters: &Filters<f64>, stage: usize) -> Vec<f32> {
        let node = |k: usize| self.nearest * (self.step * k as f64).exp();
        let nodes: Vec<f64> = (0..=self.intervals).map(node).collect();
        let row = row_len(filters.channels);
        let mut table = vec![0.0; self.rows() * row];
        let numbers = PARTS * filters.channels;
        let mut coefficients = [(); COEFFICIENTS].map(|()| vec![0.0; numbers]);
        // Intervals share their border.
        for first in (0..self.intervals).step_by(TILE) {
            let tile = &nodes[first..=(first + TILE).min(self.intervals)];
            let [values, slopes] = filters.exactly(stage, tile);
            for k in 0..tile.len() - 1 {
                let rates = [tile[k] * self.step, tile[k + 1] * self.step];
                for c in 0..numbers {
                    let ends = [values.at(k, c), values.at(k + 1, c)];
                    let slopes = [rates[0] * slopes.at(k, c), rates[1] * slopes.at(k + 1, c)];
                    for (to, found) in coefficients.iter_mut().zip(hermite(ends, slopes)) {
                        to[c] = found as f32;
                    }
                }
                let to = &mut table[(first + k) * row..][..row];
                filter_row(coefficients.each_ref().map(Vec::as_slice), to);
            }
        }
        table
    }
}
