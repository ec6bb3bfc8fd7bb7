//! Second moments of inputs and targets of a site.

mod decomposed;
mod stored;
mod sums;

use decomposed::Decomposed;
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::{Mat, MatRef};
use std::sync::Arc;

pub use sums::{InputSums, TargetSums};

/// Columns of the Gram matrix that are multiplied together.
const COLUMNS: usize = 256;

/// Sums over inputs `x` (inp) of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct InputStats {
    /// Σ x xᵀ, (inp, inp): the Gram matrix, not centred.
    pub sxx: Mat<f64>,
    /// Σ x (inp).
    pub sx: Vec<f64>,
    /// Σ |x| (inp).
    pub absolute: Vec<f64>,
    /// Number of samples.
    pub count: u64,
    /// What sites that share these sums compute from them once.
    decomposed: Decomposed,
}

/// Sums over samples of inputs `x` (inp) and targets `y` (out) of a site, in double precision.
/// [`InputSums`] and [`TargetSums`] collect them.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteStats {
    /// Sums over the inputs, shared by sites that read one input.
    pub inputs: Arc<InputStats>,
    /// Σ y xᵀ, (out, inp).
    pub syx: Mat<f64>,
    /// Σ |y|².
    pub syy: f64,
    /// Σ y (out).
    pub sy: Vec<f64>,
}

impl InputStats {
    /// Sums over `count` samples: Σ x xᵀ (inp, inp), Σ x and Σ |x|.
    #[must_use]
    pub fn new(sxx: Mat<f64>, sx: Vec<f64>, absolute: Vec<f64>, count: u64) -> Self {
        Self { sxx, sx, absolute, count, decomposed: Decomposed::default() }
    }

    /// Number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.sx.len()
    }

    /// The largest possible rank of the second moments of this number of samples: one less if they
    /// are centred.
    #[must_use]
    pub fn rank(&self) -> usize {
        let is_centred = self.sx.iter().all(|sum| *sum == 0.0);
        (self.count as usize).saturating_sub(usize::from(is_centred))
    }

    /// The number of samples for means; one if there are none.
    fn samples(&self) -> f64 {
        self.count.max(1) as f64
    }

    /// Mean over samples of `|A x|²`, for a matrix A (out, inp).
    ///
    /// # Panics
    /// If the numbers of features differ.
    #[must_use]
    #[track_caller]
    pub fn power_of(&self, a: MatRef<'_, f64>) -> f64 {
        let (out, inp) = (a.rows(), self.features());
        assert_eq!(a.cols(), inp, "features of a matrix");
        let mut sum = 0.0;
        // By symmetry, blocks of the Gram matrix below the diagonal count twice.
        for start in (0..inp).step_by(COLUMNS) {
            let (count, left) = (COLUMNS.min(inp - start), inp - start);
            let mut part = Mat::zeros(out, count);
            let mut add = |from: usize, rows: usize, times: f64| {
                let gram = self.sxx.view().rows_range(from, rows).columns(start, count);
                let columns = a.columns(from, rows);
                product(times, columns.into(), gram.into(), part.view_mut(), Write::Set);
                let products = (0..out).map(|o| dot(part.row(o), &a.row(o)[start..start + count]));
                sum += products.sum::<f64>();
            };
            add(start, count, 1.0);
            add(start + count, left - count, 2.0);
        }
        sum.max(0.0) / self.samples()
    }

    /// Mean over samples of `A x`, for a matrix A (out, inp).
    #[must_use]
    pub fn mean_of(&self, a: MatRef<'_, f64>) -> Vec<f64> {
        (0..a.rows()).map(|o| dot(a.row(o), &self.sx) / self.samples()).collect()
    }

    /// Centred sums of the same samples. Sums of |x| are unchanged.
    #[must_use]
    pub fn centred(&self) -> Self {
        // A copy has no decomposition yet.
        let mut out = self.clone();
        for (i, xi) in self.sx.iter().enumerate() {
            let row = out.sxx.row_mut(i).iter_mut().zip(&self.sx);
            row.for_each(|(s, xj)| *s -= xi * xj / self.samples());
        }
        out.sx.fill(0.0);
        out
    }
}

impl SiteStats {
    /// Sums over one batch of inputs `x` (rows, inp) with targets `y` (rows, out).
    ///
    /// # Panics
    /// If the shapes do not match.
    #[must_use]
    #[track_caller]
    pub fn of(x: MatRef<'_, f32>, y: MatRef<'_, f32>) -> Self {
        let (mut inputs, mut targets) =
            (InputSums::new(x.cols()), TargetSums::new(y.cols(), x.cols()));
        inputs.add(x);
        targets.add(x, y);
        targets.finish(Arc::new(inputs.finish()))
    }

    /// Sums over inputs with their products with a weight (out, inp) as targets.
    ///
    /// # Panics
    /// If the numbers of features differ.
    #[must_use]
    #[track_caller]
    pub fn of_map(inputs: &Arc<InputStats>, weight: MatRef<'_, f64>) -> Self {
        let InputStats { sxx, sx, .. } = &**inputs;
        let mut syx = Mat::zeros(weight.rows(), weight.cols());
        product(1.0, weight.into(), sxx.view().into(), syx.view_mut(), Write::Set);
        let rows = 0..weight.rows();
        let syy: f64 = rows.clone().map(|o| dot(weight.row(o), syx.row(o))).sum();
        let sy = rows.map(|o| dot(weight.row(o), sx)).collect();
        Self { inputs: Arc::clone(inputs), syx, syy: syy.max(0.0), sy }
    }

    /// Sums over the same inputs with the products of a weight (out, features) and the targets in
    /// place of the targets; `targets` are the sums over these as inputs.
    ///
    /// # Panics
    /// If the numbers of features differ.
    #[must_use]
    #[track_caller]
    pub fn mapped(&self, targets: &InputStats, weight: MatRef<'_, f64>) -> Self {
        let mut syx = Mat::zeros(weight.rows(), self.inputs.features());
        product(1.0, weight.into(), self.syx.view().into(), syx.view_mut(), Write::Set);
        let syy = targets.power_of(weight) * targets.samples();
        let sy = (0..weight.rows()).map(|o| dot(weight.row(o), &self.sy)).collect();
        Self { inputs: Arc::clone(&self.inputs), syx, syy, sy }
    }

    /// The sums of the same samples with some of their features.
    ///
    /// # Panics
    /// If a feature does not exist.
    #[must_use]
    #[track_caller]
    pub fn with_columns(&self, columns: &[usize]) -> Self {
        let InputStats { sxx, sx, absolute, count, .. } = &*self.inputs;
        let n = columns.len();
        let inputs = InputStats::new(
            Mat::from_fn(n, n, |i, j| sxx.at(columns[i], columns[j])),
            columns.iter().map(|column| sx[*column]).collect(),
            columns.iter().map(|column| absolute[*column]).collect(),
            *count,
        );
        let syx = Mat::from_fn(self.sy.len(), n, |o, j| self.syx.at(o, columns[j]));
        Self { inputs: Arc::new(inputs), syx, syy: self.syy, sy: self.sy.clone() }
    }

    /// The sums of the same samples by the coordinates `Bᵀ x` of their inputs, for B (inp, n). Sums
    /// of absolute values, which cannot be derived from these, are zero.
    #[must_use]
    pub fn through(&self, basis: MatRef<'_, f64>) -> Self {
        let InputStats { sxx, sx, count, .. } = &*self.inputs;
        let (inp, n, out) = (basis.rows(), basis.cols(), self.sy.len());
        let mut half = Mat::zeros(inp, n);
        product(1.0, sxx.view().into(), basis.into(), half.view_mut(), Write::Set);
        let (mut second, mut syx) = (Mat::zeros(n, n), Mat::zeros(out, n));
        let transposed = Arg::Transposed(basis);
        product(1.0, transposed, half.view().into(), second.view_mut(), Write::Set);
        product(1.0, self.syx.view().into(), basis.into(), syx.view_mut(), Write::Set);
        let along = |j: usize| (0..inp).map(|i| basis.at(i, j) * sx[i]).sum();
        let sx = (0..n).map(along).collect();
        let inputs = InputStats::new(second, sx, vec![0.0; n], *count);
        Self { inputs: Arc::new(inputs), syx, syy: self.syy, sy: self.sy.clone() }
    }

    /// The sums of the same samples with one more feature, the same number in all of them.
    #[must_use]
    pub fn with_constant(&self, constant: f64) -> Self {
        let (inp, out) = (self.inputs.features(), self.sy.len());
        let cross = |o: usize, j: usize| match j < inp {
            true => self.syx.at(o, j),
            false => constant * self.sy[o],
        };
        let syx = Mat::from_fn(out, inp + 1, cross);
        let inputs = self.inputs.with_constant(constant);
        Self { inputs, syx, syy: self.syy, sy: self.sy.clone() }
    }

    /// Mean over samples of `|y - A x|²`, for a dense matrix A (out, inp).
    #[must_use]
    pub fn squared_error(&self, a: &Mat<f64>) -> f64 {
        let mut a_sxx = Mat::zeros(a.rows(), a.cols());
        let sxx = self.inputs.sxx.view();
        product(1.0, a.view().into(), sxx.into(), a_sxx.view_mut(), Write::Set);
        let sum = self.syy - 2.0 * dot(a.data(), self.syx.data()) + dot(a.data(), a_sxx.data());
        sum.max(0.0) / self.inputs.samples()
    }

    /// Centred sums of the same samples, for the fit of a map with a bias.
    #[must_use]
    pub fn centred(&self) -> Self {
        let n = self.inputs.samples();
        let mut syx = self.syx.clone();
        for (o, yo) in self.sy.iter().enumerate() {
            let row = syx.row_mut(o).iter_mut().zip(&self.inputs.sx);
            row.for_each(|(s, xj)| *s -= yo * xj / n);
        }
        let syy = (self.syy - dot(&self.sy, &self.sy) / n).max(0.0);
        let inputs = Arc::new(self.inputs.centred());
        Self { inputs, syx, syy, sy: vec![0.0; self.sy.len()] }
    }

    /// Mean over samples of `y - A x`: the optimal bias (out) for a dense matrix A (out, inp).
    #[must_use]
    pub fn mean_residual(&self, a: &Mat<f64>) -> Vec<f64> {
        let residual = |(o, y): (usize, &f64)| y - dot(a.row(o), &self.inputs.sx);
        self.sy.iter().enumerate().map(|o| residual(o) / self.inputs.samples()).collect()
    }

    /// Mean over samples of `|y - A x - b|²`.
    #[must_use]
    pub fn squared_error_with(&self, a: &Mat<f64>, bias: &[f64]) -> f64 {
        let residual = self.mean_residual(a);
        let shift = |(b, r): (&f64, f64)| b * b - 2.0 * b * r;
        (self.squared_error(a) + bias.iter().zip(residual).map(shift).sum::<f64>()).max(0.0)
    }

    /// Mean over samples of `|y|²`: the squared error of the zero map.
    #[must_use]
    pub fn target_power(&self) -> f64 {
        self.syy / self.inputs.samples()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    #[test]
    fn error_from_sums_equals_error_from_samples() {
        let (x, y, a) = (random(700, 5, 1), random(700, 3, 2), random(3, 5, 3));
        let stats = SiteStats::of(x.view(), y.view());
        let direct: f64 = (0..700)
            .flat_map(|r| (0..3).map(move |o| (r, o)))
            .map(|(r, o)| {
                let predicted: f32 = (0..5).map(|i| a.at(o, i) * x.at(r, i)).sum();
                f64::from(y.at(r, o) - predicted).powi(2)
            })
            .sum::<f64>()
            / 700.0;
        let error = stats.squared_error(&a.cast());
        assert!((error - direct).abs() < 1e-6 * direct, "{error} is not {direct}");
        assert_eq!(stats.inputs.count, 700);
    }

    #[test]
    fn centred_sums_are_those_of_rows_less_their_means_and_the_mean_residual_is_the_best_bias() {
        let (x, y) = (random(700, 5, 1), random(700, 3, 2));
        let x = Mat::from_fn(700, 5, |i, j| x.at(i, j) + 2.0 * j as f32);
        let y = Mat::from_fn(700, 3, |i, j| y.at(i, j) - 3.0);
        let a: Mat<f64> = random(3, 5, 3).cast();
        let stats = SiteStats::of(x.view(), y.view());
        let less_mean = |m: &Mat<f32>| {
            let n = m.rows() as f32;
            let mean = |j: usize| (0..m.rows()).map(|i| m.at(i, j)).sum::<f32>() / n;
            let means: Vec<f32> = (0..m.cols()).map(mean).collect();
            Mat::from_fn(m.rows(), m.cols(), |i, j| m.at(i, j) - means[j])
        };
        let direct = SiteStats::of(less_mean(&x).view(), less_mean(&y).view());
        let centred = stats.centred();
        for (a, b) in [(&centred.inputs.sxx, &direct.inputs.sxx), (&centred.syx, &direct.syx)] {
            assert!(a.data().iter().zip(b.data()).all(|(a, b)| (a - b).abs() < 1e-2), "{a:?}");
        }
        let bias = stats.mean_residual(&a);
        let best = stats.squared_error_with(&a, &bias);
        assert!((best - centred.squared_error(&a)).abs() < 1e-9 * best);
        assert!((stats.squared_error_with(&a, &[0.0; 3]) - stats.squared_error(&a)).abs() < 1e-9);
        for o in 0..3 {
            let mut other = bias.clone();
            other[o] += 0.01;
            assert!(stats.squared_error_with(&a, &other) > best);
        }
    }

    #[test]
    fn power_and_mean_of_a_map_are_those_of_its_outputs() {
        for inp in [5, COLUMNS, COLUMNS + 70, 2 * COLUMNS + 1] {
            let (x, w) = (random(60, inp, 1), random(3, inp, 2));
            let x = Mat::from_fn(60, inp, |i, j| x.at(i, j) + 1.0);
            let mut sums = InputSums::new(inp);
            sums.add(x.view());
            let stats = sums.finish();
            let mut mean = [0.0f64; 3];
            let mut power = 0.0f64;
            for (r, o) in (0..60).flat_map(|r| (0..3).map(move |o| (r, o))) {
                let product = |i: usize| f64::from(w.at(o, i)) * f64::from(x.at(r, i));
                let output: f64 = (0..inp).map(product).sum();
                mean[o] += output / 60.0;
                power += output.powi(2) / 60.0;
            }
            let wide: Mat<f64> = w.cast();
            assert!((stats.power_of(wide.view()) / power - 1.0).abs() < 1e-6, "{inp}");
            let found = stats.mean_of(wide.view());
            assert!(found.iter().zip(mean).all(|(a, b)| (a - b).abs() < 1e-9), "{inp}");
        }
    }

    #[test]
    fn sums_of_a_map_are_those_of_its_outputs() {
        let (x, w) = (random(900, 5, 1), random(3, 5, 2));
        let outputs = Mat::from_fn(900, 3, |r, o| (0..5).map(|i| w.at(o, i) * x.at(r, i)).sum());
        let direct = SiteStats::of(x.view(), outputs.view());
        let mut inputs = InputSums::new(5);
        inputs.add(x.view());
        let of_map = SiteStats::of_map(&Arc::new(inputs.finish()), w.cast().view());
        assert!(of_map.inputs == direct.inputs && of_map.inputs.count == 900);
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 5e-2);
        assert!(close(of_map.syx.data(), direct.syx.data()) && close(&of_map.sy, &direct.sy));
        assert!((of_map.syy / direct.syy - 1.0).abs() < 1e-6);
    }
}
