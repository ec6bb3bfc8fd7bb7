//! The three parametrisations of a circulant-diagonal operator, and their gradients.

use crate::{Buffer, BufferMut, Grads, OpError, Param, ParamMut};
use linwright_tensor::Scalar;
use linwright_tensor::kernels::circulant::{
    CyclicTransform, exponentials, from_polar, log_of_product,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parametrisation of diagonals d and circulants with columns c and spectra h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CirculantParameterisation {
    /// d and c.
    Time,
    /// d, and real and imaginary parts of h.
    Raw,
    /// `d = ± e^t`, `h = ± e^(r + i φ)` with fixed signs: always invertible, and `log|det W|` is
    /// linear in the parameters.
    #[default]
    Polar,
}

/// The factors themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Values {
    /// (m, n).
    pub(super) diagonals: Vec<f64>,
    /// m - 1 half spectra.
    pub(super) spectra: Vec<Vec<[f64; 2]>>,
}

/// Parameters of all factors, one row per factor in each tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameters<T> {
    pub(super) kind: CirculantParameterisation,
    features: usize,
    /// d, or t: (m, n).
    diagonals: Vec<T>,
    /// c: (m - 1, n); or a or r: (m - 1, bins).
    even: Vec<T>,
    /// b or φ of the complex bins, (m - 1, n - bins); empty for c.
    odd: Vec<T>,
    /// 1 for a negative number, (m, n); polar parameters only.
    diagonal_signs: Vec<u32>,
    /// 1 for a negative real bin, first and, for even n, last: (m - 1, 1 or 2); polar only.
    spectrum_signs: Vec<u32>,
}

/// Number of bins of a half spectrum.
fn bins(features: usize) -> usize {
    features / 2 + 1
}

/// Indices of the real bins.
fn real_bins(features: usize) -> usize {
    if features.is_multiple_of(2) { 2 } else { 1 }
}

/// Multiplicity of bin k of the half spectrum in the whole one.
fn weight(k: usize, features: usize) -> f64 {
    if k == 0 || 2 * k == features { 1.0 } else { 2.0 }
}

fn sign(negative: u32) -> f64 {
    if negative == 1 { -1.0 } else { 1.0 }
}

fn cast<T: Scalar>(numbers: impl IntoIterator<Item = f64>) -> Vec<T> {
    numbers.into_iter().map(T::from_f64).collect()
}

/// Number of values, with indices, of `factors` diagonals. Saturates.
pub(super) fn numbers(kind: CirculantParameterisation, factors: usize, features: usize) -> u64 {
    let (m, n) = (factors as u64, features as u64);
    let values = m.saturating_mul(2).saturating_sub(1).saturating_mul(n);
    let signs = m.saturating_sub(1).saturating_mul(real_bins(features) as u64);
    match kind {
        CirculantParameterisation::Time | CirculantParameterisation::Raw => values,
        CirculantParameterisation::Polar => {
            values.saturating_add(m.saturating_mul(n)).saturating_add(signs)
        }
    }
}

impl Values {
    /// The first number that is zero or not finite.
    pub(super) fn singular(&self, kind: &'static str) -> Result<(), OpError> {
        let bad = |value: f64| value == 0.0 || !value.is_finite();
        // Checks all first, without a search: a loop without early exit vectorises.
        let squares = self.spectra.iter().flatten().map(|[re, im]| re * re + im * im);
        let good = |least: f64| move |good, value: f64| good & (value >= least) & value.is_finite();
        let diagonals = self.diagonals.iter().map(|d| d.abs());
        if diagonals.fold(true, good(f64::from_bits(1)))
            & squares.fold(true, good(f64::MIN_POSITIVE))
        {
            return Ok(());
        }
        let features = self.diagonals.len() / (self.spectra.len() + 1);
        for (j, diagonal) in self.diagonals.chunks_exact(features).enumerate() {
            if let Some(index) = diagonal.iter().position(|&d| bad(d)) {
                let (part, value) = (format!("diagonal {j}"), diagonal[index]);
                return Err(OpError::Singular { kind, part, index, value });
            }
        }
        for (j, spectrum) in self.spectra.iter().enumerate() {
            if let Some(index) = spectrum.iter().position(|[re, im]| bad(re.hypot(*im))) {
                let value = spectrum[index][0].hypot(spectrum[index][1]);
                let part = format!("spectrum of circulant {j}");
                return Err(OpError::Singular { kind, part, index, value });
            }
        }
        Ok(())
    }

    /// `log|det W|` and its sign, for values that are not [`Self::singular`].
    pub(super) fn log_abs_det(&self) -> (f64, f64) {
        let features = self.diagonals.len() / (self.spectra.len() + 1);
        let mut log_abs = log_of_product(self.diagonals.iter().copied());
        let mut negative = self.diagonals.iter().filter(|d| **d < 0.0).count();
        for spectrum in &self.spectra {
            let last = bins(features) - 1;
            let real = [0, last];
            for &k in &real[..real_bins(features).min(features)] {
                negative += usize::from(spectrum[k][0] < 0.0);
            }
            let inner = 1..spectrum.len() - (real_bins(features) - 1);
            let sizes = spectrum[inner].iter().map(|[re, im]| re.hypot(*im));
            let ends = real[..real_bins(features)].iter().map(|&k| spectrum[k][0]);
            log_abs += 2.0 * log_of_product(sizes) + log_of_product(ends);
        }
        (log_abs, if negative % 2 == 0 { 1.0 } else { -1.0 })
    }
}

impl<T: Scalar> Parameters<T> {
    /// Converts factors to parameters; for the polar kind they must not be [`Values::singular`].
    pub(super) fn new(
        kind: CirculantParameterisation,
        values: &Values,
        transform: &CyclicTransform<T>,
    ) -> Self {
        let features = transform.features();
        let (bins, reals) = (bins(features), real_bins(features));
        let inner = |spectrum: &Vec<[f64; 2]>| spectrum[1..1 + features - bins].to_vec();
        let spectra = &values.spectra;
        let polar = kind == CirculantParameterisation::Polar;
        let (diagonals, even, odd) = match kind {
            CirculantParameterisation::Time => {
                let columns = spectra.iter().flat_map(|half| transform.vector(half));
                (cast(values.diagonals.iter().copied()), cast(columns), Vec::new())
            }
            CirculantParameterisation::Raw => {
                let re = spectra.iter().flatten().map(|bin| bin[0]);
                let im = spectra.iter().flat_map(inner).map(|bin| bin[1]);
                (cast(values.diagonals.iter().copied()), cast(re), cast(im))
            }
            CirculantParameterisation::Polar => {
                let sizes = spectra.iter().flatten().map(|[re, im]| re.hypot(*im).ln());
                let phases = spectra.iter().flat_map(inner).map(|[re, im]| im.atan2(re));
                (cast(values.diagonals.iter().map(|d| d.abs().ln())), cast(sizes), cast(phases))
            }
        };
        let negative = |value: f64| u32::from(value < 0.0);
        let diagonal_signs = values.diagonals.iter().map(|&d| negative(d));
        let ends = |half: &Vec<[f64; 2]>| [half[0][0], half[bins - 1][0]];
        let spectrum_signs = spectra.iter().flat_map(|half| ends(half).into_iter().take(reals));
        Self {
            kind,
            features,
            diagonals,
            even,
            odd,
            diagonal_signs: diagonal_signs.filter(|_| polar).collect(),
            spectrum_signs: spectrum_signs.filter(|_| polar).map(negative).collect(),
        }
    }

    /// Number m of diagonals.
    pub(super) fn factors(&self) -> usize {
        self.diagonals.len() / self.features
    }

    /// Parameters of circulant j: the real parameters of all bins, or the column, and the imaginary
    /// parameters of the inner bins.
    fn circulant(&self, j: usize) -> (&[T], &[T]) {
        let circulants = self.factors() - 1;
        let (even, odd) = (self.even.len() / circulants, self.odd.len() / circulants);
        (&self.even[j * even..][..even], &self.odd[j * odd..][..odd])
    }

    /// The factors.
    pub(super) fn values(&self, transform: &CyclicTransform<T>) -> Values {
        let mut diagonals: Vec<f64> = self.diagonals.iter().map(|v| v.to_f64()).collect();
        if self.kind == CirculantParameterisation::Polar {
            exponentials(&mut diagonals);
            let pairs = diagonals.iter_mut().zip(&self.diagonal_signs);
            pairs.for_each(|(d, &negative)| *d *= sign(negative));
        }
        let spectrum = |j| self.spectrum(j, transform);
        Values { diagonals, spectra: (0..self.factors() - 1).map(spectrum).collect() }
    }

    fn spectrum(&self, j: usize, transform: &CyclicTransform<T>) -> Vec<[f64; 2]> {
        let (even, odd) = self.circulant(j);
        // The imaginary parameter of bin k, zero for a real bin.
        let odd_of =
            |k: usize| if k == 0 { 0.0 } else { odd.get(k - 1).map_or(0.0, |v| v.to_f64()) };
        match self.kind {
            CirculantParameterisation::Time => {
                let column: Vec<f64> = even.iter().map(|v| v.to_f64()).collect();
                transform.half_spectrum(&column)
            }
            CirculantParameterisation::Raw => {
                even.iter().enumerate().map(|(k, a)| [a.to_f64(), odd_of(k)]).collect()
            }
            CirculantParameterisation::Polar => {
                let reals = real_bins(self.features);
                let signs = &self.spectrum_signs[j * reals..][..reals];
                let mut sizes: Vec<f64> = even.iter().map(|r| r.to_f64()).collect();
                exponentials(&mut sizes);
                let angles: Vec<f64> = (0..sizes.len()).map(odd_of).collect();
                let mut half = from_polar(&sizes, &angles);
                let last = half.len() - 1;
                for (&place, &negative) in [0, last].iter().zip(signs) {
                    half[place][0] *= sign(negative);
                }
                half
            }
        }
    }

    /// Adds parameter gradients, from those of d (m, n) and c (m - 1, n).
    pub(super) fn pull_back(
        &self,
        values: &Values,
        diagonals: &[f64],
        columns: &[f64],
        transform: &CyclicTransform<T>,
        grads: &mut Grads<T>,
    ) {
        let polar = self.kind == CirculantParameterisation::Polar;
        let by_logarithm = |(g, d): (&f64, &f64)| if polar { g * d } else { *g };
        let diagonals = diagonals.iter().zip(&values.diagonals).map(by_logarithm);
        add(grads.get_mut(0), diagonals);
        if self.kind == CirculantParameterisation::Time {
            return add(grads.get_mut(1), columns.iter().copied());
        }
        let bins = bins(self.features);
        for (j, column) in columns.chunks_exact(self.features).enumerate() {
            let mut spectrum = transform.half_spectrum(column);
            for (k, (x, h)) in spectrum.iter_mut().zip(&values.spectra[j]).enumerate() {
                let scale = weight(k, self.features) / self.features as f64;
                let [re, im] = [scale * x[0], scale * x[1]];
                let turned = [h[0] * re + h[1] * im, h[0] * im - h[1] * re];
                *x = if polar { turned } else { [re, im] };
            }
            let inner = self.features - bins;
            add(&mut grads.get_mut(1)[j * bins..][..bins], spectrum.iter().map(|x| x[0]));
            let odd = spectrum[1..1 + inner].iter().map(|x| x[1]);
            add(&mut grads.get_mut(2)[j * inner..][..inner], odd);
        }
    }

    /// Adds `scale` times the gradients of `log|det W|`, for values that are not
    /// [`Values::singular`].
    pub(super) fn log_det_back(
        &self,
        values: &Values,
        scale: f64,
        transform: &CyclicTransform<T>,
        grads: &mut Grads<T>,
    ) {
        if self.kind == CirculantParameterisation::Polar {
            add(grads.get_mut(0), self.diagonals.iter().map(|_| scale));
            let bins = bins(self.features);
            let weights = (0..self.even.len()).map(|k| scale * weight(k % bins, self.features));
            return add(grads.get_mut(1), weights);
        }
        let diagonals: Vec<f64> = values.diagonals.iter().map(|d| scale / d).collect();
        // The gradient of the spectrum is n times the conjugate of its inverse.
        let factor = scale * self.features as f64;
        let inverse = |half: &Vec<[f64; 2]>| {
            let bins: Vec<_> = half.iter().map(|&h| reciprocal(h)).collect();
            let conjugate: Vec<_> =
                bins.iter().map(|[re, im]| [factor * re, -factor * im]).collect();
            transform.vector(&conjugate)
        };
        let columns: Vec<f64> = values.spectra.iter().flat_map(inverse).collect();
        self.pull_back(values, &diagonals, &columns, transform, grads);
    }

    /// `log|det W|` and its sign, if the parameters give it without the factors.
    pub(super) fn log_abs_det(&self) -> Option<(f64, f64)> {
        if self.kind != CirculantParameterisation::Polar {
            return None;
        }
        let sum: f64 = self.diagonals.iter().map(|t| t.to_f64()).sum();
        let bins = bins(self.features);
        let spectra = self.even.chunks_exact(bins).map(|r| {
            let all: f64 = r.iter().map(|r| r.to_f64()).sum();
            let end = if real_bins(self.features) == 2 { r[bins - 1].to_f64() } else { 0.0 };
            2.0 * all - r[0].to_f64() - end
        });
        let negative: u32 = self.diagonal_signs.iter().chain(&self.spectrum_signs).sum();
        Some((sum + spectra.sum::<f64>(), sign(negative % 2)))
    }

    fn names(&self) -> [&'static str; 3] {
        match self.kind {
            CirculantParameterisation::Time => ["diagonals", "columns", ""],
            CirculantParameterisation::Raw => ["diagonals", "spectrum_re", "spectrum_im"],
            CirculantParameterisation::Polar => ["log_diagonals", "log_moduli", "phases"],
        }
    }

    fn shape(&self, index: usize, len: usize) -> Vec<usize> {
        let rows = if index == 0 { self.factors() } else { self.factors() - 1 };
        vec![rows, len / rows.max(1)]
    }

    pub(super) fn params(&self) -> Vec<Param<'_, T>> {
        let tensors = [&self.diagonals, &self.even, &self.odd];
        let param = |(k, values): (usize, &'_ Vec<T>)| (k, values.len());
        let shapes: Vec<_> = tensors.iter().enumerate().map(|(k, v)| param((k, v))).collect();
        let all = self.names().into_iter().zip(tensors).zip(shapes);
        all.filter(|((name, _), _)| !name.is_empty())
            .map(|((name, values), (k, len))| Param {
                name: name.into(),
                shape: self.shape(k, len),
                values,
            })
            .collect()
    }

    pub(super) fn params_mut(&mut self) -> Vec<ParamMut<'_, T>> {
        let lens = [self.diagonals.len(), self.even.len(), self.odd.len()];
        let shapes = [0, 1, 2].map(|k| self.shape(k, lens[k]));
        let names = self.names();
        let tensors = [&mut self.diagonals, &mut self.even, &mut self.odd];
        let all = names.into_iter().zip(tensors).zip(shapes);
        all.filter(|((name, _), _)| !name.is_empty())
            .map(|((name, values), shape)| ParamMut { name: name.into(), shape, values })
            .collect()
    }

    pub(super) fn buffers(&self) -> Vec<Buffer<'_>> {
        if self.kind != CirculantParameterisation::Polar {
            return Vec::new();
        }
        vec![
            Buffer { name: "diagonal_signs".into(), values: &self.diagonal_signs },
            Buffer { name: "spectrum_signs".into(), values: &self.spectrum_signs },
        ]
    }

    pub(super) fn buffers_mut(&mut self) -> Vec<BufferMut<'_>> {
        if self.kind != CirculantParameterisation::Polar {
            return Vec::new();
        }
        vec![
            BufferMut { name: "diagonal_signs".into(), values: &mut self.diagonal_signs },
            BufferMut { name: "spectrum_signs".into(), values: &mut self.spectrum_signs },
        ]
    }

    /// Signs are 0 or 1.
    pub(super) fn check(&self, kind: &'static str) -> Result<(), OpError> {
        for buffer in self.buffers() {
            if let Some(at) = buffer.values.iter().position(|&sign| sign > 1) {
                let reason = format!("holds {} at {at}, expected 0 or 1", buffer.values[at]);
                return Err(OpError::InvalidValues { kind, name: buffer.name, reason });
            }
        }
        Ok(())
    }
}

/// The inverse of a complex number, scaled by its larger part where squares might overflow.
pub(super) fn reciprocal([re, im]: [f64; 2]) -> [f64; 2] {
    let square = re * re + im * im;
    if (1e-200..1e200).contains(&square) {
        [re / square, -im / square]
    } else if re.abs() >= im.abs() {
        let ratio = im / re;
        let size = re + im * ratio;
        [1.0 / size, -ratio / size]
    } else {
        let ratio = re / im;
        let size = im + re * ratio;
        [ratio / size, -1.0 / size]
    }
}

fn add<T: Scalar>(to: &mut [T], from: impl Iterator<Item = f64>) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += T::from_f64(from));
}
