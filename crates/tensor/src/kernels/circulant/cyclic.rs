//! Cyclic convolution of real vectors of any length through their spectra.

use super::complex::Complex;
use super::passes::{Spectral, there_and_back};
use super::plan::{FftPlan, is_smooth, root};
use crate::Scalar;
use crate::kernels::registers::{Lanes, Plain};

/// A single complex number.
type One = Complex<Plain<f64, 1>>;

fn one([re, im]: [f64; 2]) -> One {
    Complex { re: Plain::splat(re), im: Plain::splat(im) }
}

fn parts(value: One) -> [f64; 2] {
    [value.re.first(), value.im.first()]
}

/// Transform for cyclic convolutions of vectors of any length n.
///
/// A length with small factors (2, 3, 5, 7) is transformed directly. Otherwise the convolution is
/// embedded into one of length at least 2 n - 1 by zero padding: cheaper than a transform of length
/// n (Bluestein), which would need two of that length.
#[derive(Clone, Debug)]
pub struct CyclicTransform<T> {
    features: usize,
    /// Plan of length n or of the padded length.
    pub(super) plan: FftPlan<T>,
    /// The same in `f64`, for parameters and gradients.
    wide: FftPlan<f64>,
    chirp: Option<Chirp>,
}

/// A transform of a length with large factors as a cyclic convolution (Bluestein 1970).
#[derive(Clone, Debug)]
struct Chirp {
    /// `exp(-π i t² / n)`.
    factors: Vec<[f64; 2]>,
    /// Spectrum of their conjugates, divided by the padded length.
    spectrum: Vec<[f64; 2]>,
}

/// Keeps a spectrum in transform order.
struct Keep<'a>(&'a mut [[f64; 2]]);

impl Spectral<Plain<f64, 1>> for Keep<'_> {
    const BACK: bool = false;

    #[inline(always)]
    fn at(&mut self, place: usize, value: One) -> One {
        self.0[place] = parts(value);
        value
    }
}

/// Multiplies by a spectrum.
pub(super) struct Multiply<'a, T>(pub(super) &'a [[T; 2]]);

impl<V: Lanes> Spectral<V> for Multiply<'_, V::Number> {
    #[inline(always)]
    fn at(&mut self, place: usize, value: Complex<V>) -> Complex<V> {
        value.times(&self.0[place])
    }

    #[inline(always)]
    fn at_each<const R: usize>(&mut self, first: usize, values: &mut [Complex<V>; R]) {
        // One bounds check for all.
        let factors = &self.0[first..][..R];
        for k in 0..R {
            values[k] = values[k].times(&factors[k]);
        }
    }
}

/// Spectrum of `data` in transform order; overwrites the data.
fn spectrum_of(plan: &FftPlan<f64>, data: &mut [One]) -> Vec<[f64; 2]> {
    let mut spectrum = vec![[0.0; 2]; plan.len()];
    there_and_back(plan, data, &mut Keep(&mut spectrum));
    spectrum
}

/// The shortest length of at least `least` with a large power of two as a factor.
fn padded(least: usize) -> usize {
    let odd_parts = [1_usize, 3, 5, 7, 9, 15, 21, 25, 27];
    let fit = |odd: usize| odd * least.div_ceil(odd).next_power_of_two();
    odd_parts.into_iter().map(fit).min().unwrap_or(least)
}

impl Chirp {
    fn new(n: usize, plan: &FftPlan<f64>) -> Self {
        // The square modulo 2 n, so that the angle is exact.
        let square = |t: usize| (t as u128 * t as u128 % (2 * n as u128)) as usize;
        let factors: Vec<[f64; 2]> = (0..n).map(|t| root(square(t), 2 * n)).collect();
        let mut conjugate = vec![one([0.0; 2]); plan.len()];
        for (t, &[re, im]) in factors.iter().enumerate() {
            conjugate[t] = one([re, -im]);
            conjugate[(plan.len() - t) % plan.len()] = one([re, -im]);
        }
        let scale = 1.0 / plan.len() as f64;
        let mut spectrum = spectrum_of(plan, &mut conjugate);
        spectrum.iter_mut().flatten().for_each(|v| *v *= scale);
        Self { factors, spectrum }
    }

    fn transform(&self, plan: &FftPlan<f64>, x: &[[f64; 2]]) -> Vec<[f64; 2]> {
        let mut data = vec![one([0.0; 2]); plan.len()];
        for ((data, &x), factor) in data.iter_mut().zip(x).zip(&self.factors) {
            *data = one(x).times(factor);
        }
        there_and_back(plan, &mut data, &mut Multiply(&self.spectrum));
        let product = |(&value, factor): (&One, &[f64; 2])| parts(value.times(factor));
        data.iter().zip(&self.factors).map(product).collect()
    }
}

impl<T: Scalar> CyclicTransform<T> {
    /// Transform for vectors of `features` numbers.
    ///
    /// # Panics
    /// If `features` is zero.
    #[must_use]
    pub fn new(features: usize) -> Self {
        assert!(features > 0, "vectors without numbers");
        let len = if is_smooth(features) { features } else { padded(2 * features - 1) };
        let wide = FftPlan::new(len);
        let chirp = (len > features).then(|| Chirp::new(features, &wide));
        Self { features, plan: FftPlan::new(len), wide, chirp }
    }

    /// Length of the vectors.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Frequencies of the half spectrum of a real vector: `floor(n / 2) + 1`.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.features / 2 + 1
    }

    /// `X_k = Σ_t x_t exp(-2 π i k t / n)`, all n of them.
    fn transform(&self, x: &[[f64; 2]]) -> Vec<[f64; 2]> {
        if let Some(chirp) = &self.chirp {
            return chirp.transform(&self.wide, x);
        }
        let mut data: Vec<One> = x.iter().map(|&x| one(x)).collect();
        let mut spectrum = vec![[0.0; 2]; x.len()];
        for (value, &k) in spectrum_of(&self.wide, &mut data).into_iter().zip(self.wide.order()) {
            spectrum[k as usize] = value;
        }
        spectrum
    }

    /// Half spectrum `X_k`, k from 0 to `floor(n / 2)`, of a real vector.
    ///
    /// # Panics
    /// If the vector has another length.
    #[must_use]
    #[track_caller]
    pub fn half_spectrum(&self, vector: &[f64]) -> Vec<[f64; 2]> {
        assert_eq!(vector.len(), self.features, "numbers of a vector");
        let complex: Vec<[f64; 2]> = vector.iter().map(|&x| [x, 0.0]).collect();
        let mut spectrum = self.transform(&complex);
        spectrum.truncate(self.bins());
        self.self_conjugate(&mut spectrum);
        spectrum
    }

    /// The real vector of a half spectrum; imaginary parts that a real vector cannot have are
    /// ignored.
    ///
    /// # Panics
    /// If the spectrum has another length.
    #[must_use]
    #[track_caller]
    pub fn vector(&self, half: &[[f64; 2]]) -> Vec<f64> {
        assert_eq!(half.len(), self.bins(), "bins of a half spectrum");
        let mut half = half.to_vec();
        self.self_conjugate(&mut half);
        // The inverse transform is the forward transform of the conjugates.
        let conjugate = |k| {
            let [re, im] = self.bin(&half, k);
            [re, -im]
        };
        let spectrum: Vec<[f64; 2]> = (0..self.features).map(conjugate).collect();
        let scale = 1.0 / self.features as f64;
        self.transform(&spectrum).into_iter().map(|[re, _]| re * scale).collect()
    }

    /// Zeroes the imaginary parts that a real vector cannot have.
    fn self_conjugate(&self, half: &mut [[f64; 2]]) {
        half[0][1] = 0.0;
        if self.features.is_multiple_of(2) {
            half[self.features / 2][1] = 0.0;
        }
    }

    /// Entry k of the whole spectrum.
    fn bin(&self, half: &[[f64; 2]], k: usize) -> [f64; 2] {
        if k < half.len() {
            half[k]
        } else {
            let [re, im] = half[self.features - k];
            [re, -im]
        }
    }

    /// Multiplier for rows: the spectrum over the length of the plan, in transform order.
    pub(super) fn factors(&self, half: &[[f64; 2]]) -> Vec<[T; 2]> {
        let scale = 1.0 / self.plan.len() as f64;
        let cast = |[re, im]: [f64; 2]| [T::from_f64(re * scale), T::from_f64(im * scale)];
        if self.chirp.is_none() {
            assert_eq!(half.len(), self.bins(), "bins of a half spectrum");
            let mut half = half.to_vec();
            self.self_conjugate(&mut half);
            let order = self.wide.order().iter();
            return order.map(|&k| cast(self.bin(&half, k as usize))).collect();
        }
        let (vector, len) = (self.vector(half), self.plan.len());
        let mut data = vec![one([0.0; 2]); len];
        for (t, &x) in vector.iter().enumerate() {
            data[t] = one([x, 0.0]);
            if t > 0 {
                data[len - self.features + t] = one([x, 0.0]);
            }
        }
        spectrum_of(&self.wide, &mut data).into_iter().map(cast).collect()
    }

    /// From the sums of `conj(Z) G` over rows, in transform order: the correlations `Σ_t g_t
    /// z_{t-k}`, k modulo n.
    pub(super) fn correlations(&self, sums: &[[f64; 2]]) -> Vec<f64> {
        let len = self.wide.len();
        let mut data = vec![one([0.0; 2]); len];
        for (&[re, im], &k) in sums.iter().zip(self.wide.order()) {
            data[k as usize] = one([re, -im]);
        }
        let spectrum = spectrum_of(&self.wide, &mut data);
        let (mut lags, scale) = (vec![0.0; len], 1.0 / len as f64);
        for (&[re, _], &k) in spectrum.iter().zip(self.wide.order()) {
            lags[k as usize] = re * scale;
        }
        if len > self.features {
            for k in 1..self.features {
                lags[k] += lags[len - self.features + k];
            }
        }
        lags.truncate(self.features);
        lags
    }

    /// Multiply-adds of one circulant product of one row: the forward and inverse complex
    /// transforms, which carry two rows, and the product with the spectrum; an addition counts as
    /// one.
    #[must_use]
    pub fn macs_per_row(&self) -> u64 {
        self.plan.operations().div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn spectra_are_sums_of_roots_at_every_length() {
        for n in (1..70).chain([96, 97, 127, 128, 143, 169, 202, 256, 300, 385]) {
            let transform = CyclicTransform::<f64>::new(n);
            let x: Vec<f64> = RngKey::new(n as u64).stream().normals(n, 1.0);
            let half = transform.half_spectrum(&x);
            assert_eq!(half.len(), n / 2 + 1);
            for (k, found) in half.iter().enumerate() {
                let mut want = [0.0; 2];
                for (t, x) in x.iter().enumerate() {
                    let angle = std::f64::consts::TAU * (k * t % n) as f64 / n as f64;
                    want = [want[0] + x * angle.cos(), want[1] - x * angle.sin()];
                }
                let off = (found[0] - want[0]).hypot(found[1] - want[1]);
                assert!(off < 1e-13 * n as f64, "n {n}, bin {k}: {found:?}, expected {want:?}");
            }
            for (found, x) in transform.vector(&half).iter().zip(&x) {
                assert!((found - x).abs() < 1e-13, "n {n}: {found} comes back for {x}");
            }
        }
    }

    #[test]
    fn lengths_of_products_fit() {
        for n in 1..3000 {
            let len = padded(2 * n - 1);
            assert!(len >= 2 * n - 1 && is_smooth(len) && len < 4 * n, "{n} in {len}");
        }
    }
}
