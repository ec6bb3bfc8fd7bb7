//! Second moments of inputs and targets of a site.

use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::{Mat, MatRef, Scalar};

/// Rows converted to double precision at a time.
const BLOCK: usize = 512;

/// Sums over samples of inputs `x` (inp) and targets `y` (out) of a site, in double precision. Sums
/// of two shards add up, see [`SiteStats::merge`].
#[derive(Clone, Debug, PartialEq)]
pub struct SiteStats {
    /// Σ x xᵀ, (inp, inp): the Gram matrix, not centred.
    pub sxx: Mat<f64>,
    /// Σ y xᵀ, (out, inp).
    pub syx: Mat<f64>,
    /// Σ |y|².
    pub syy: f64,
    /// Σ x (inp).
    pub sx: Vec<f64>,
    /// Σ y (out).
    pub sy: Vec<f64>,
    /// Σ |x| (inp).
    pub absolute: Vec<f64>,
    /// Number of samples.
    pub count: u64,
}

impl SiteStats {
    /// Sums over no samples.
    #[must_use]
    pub fn new(out: usize, inp: usize) -> Self {
        Self {
            sxx: Mat::zeros(inp, inp),
            syx: Mat::zeros(out, inp),
            syy: 0.0,
            sx: vec![0.0; inp],
            sy: vec![0.0; out],
            absolute: vec![0.0; inp],
            count: 0,
        }
    }

    /// Adds rows `x` (rows, inp) with targets `y` (rows, out).
    ///
    /// # Panics
    /// If the shapes do not match.
    #[track_caller]
    pub fn add(&mut self, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        self.add_inputs(x);
        self.add_targets(x, y);
    }

    /// Adds rows to Σ x xᵀ only. Sites with the same input share this sum: one of them adds inputs
    /// and targets, the others targets only.
    pub fn add_inputs(&mut self, x: MatRef<'_, f32>) {
        for start in (0..x.rows()).step_by(BLOCK) {
            let x = wide(x.rows_range(start, BLOCK.min(x.rows() - start)));
            let xt = Arg::Transposed(x.view());
            product(1.0, xt, x.view().into(), self.sxx.view_mut(), Write::Add);
        }
    }

    /// Adds rows to all sums except Σ x xᵀ.
    ///
    /// # Panics
    /// If the shapes do not match.
    #[track_caller]
    pub fn add_targets(&mut self, x: MatRef<'_, f32>, y: MatRef<'_, f32>) {
        assert_eq!(x.rows(), y.rows(), "one target for each input");
        for start in (0..x.rows()).step_by(BLOCK) {
            let rows = BLOCK.min(x.rows() - start);
            let (x, y) = (wide(x.rows_range(start, rows)), wide(y.rows_range(start, rows)));
            let yt = Arg::Transposed(y.view());
            product(1.0, yt, x.view().into(), self.syx.view_mut(), Write::Add);
            self.syy += y.data().iter().map(|v| v * v).sum::<f64>();
            add_rows(&mut self.sx, &x);
            for i in 0..rows {
                let row = self.absolute.iter_mut().zip(x.row(i));
                row.for_each(|(sum, x)| *sum += x.abs());
            }
            add_rows(&mut self.sy, &y);
        }
        self.count += x.rows() as u64;
    }

    /// Adds the sums of another shard.
    ///
    /// # Panics
    /// If the shapes differ.
    #[track_caller]
    pub fn merge(&mut self, other: &Self) {
        let shape = |s: &Self| (s.syx.rows(), s.syx.cols());
        assert_eq!(shape(self), shape(other), "statistics of different sites");
        let add = |a: &mut Mat<f64>, b: &Mat<f64>| {
            a.data_mut().iter_mut().zip(b.data()).for_each(|(a, b)| *a += b);
        };
        add(&mut self.sxx, &other.sxx);
        add(&mut self.syx, &other.syx);
        let add = |a: &mut [f64], b: &[f64]| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        add(&mut self.sx, &other.sx);
        add(&mut self.sy, &other.sy);
        add(&mut self.absolute, &other.absolute);
        self.syy += other.syy;
        self.count += other.count;
    }

    /// Mean over samples of `|y - A x|²`, for a dense matrix A (out, inp).
    #[must_use]
    pub fn squared_error(&self, a: &Mat<f64>) -> f64 {
        let mut a_sxx = Mat::zeros(a.rows(), a.cols());
        product(1.0, a.view().into(), self.sxx.view().into(), a_sxx.view_mut(), Write::Set);
        let dot = |p: &Mat<f64>, q: &Mat<f64>| {
            p.data().iter().zip(q.data()).map(|(p, q)| p * q).sum::<f64>()
        };
        let sum = self.syy - 2.0 * dot(a, &self.syx) + dot(a, &a_sxx);
        sum.max(0.0) / self.count.max(1) as f64
    }

    /// Centred sums of the same samples, for the fit of a map with a bias.
    #[must_use]
    pub fn centred(&self) -> Self {
        let n = self.count.max(1) as f64;
        let mut out = self.clone();
        for (i, xi) in self.sx.iter().enumerate() {
            let row = out.sxx.row_mut(i).iter_mut().zip(&self.sx);
            row.for_each(|(s, xj)| *s -= xi * xj / n);
        }
        for (o, yo) in self.sy.iter().enumerate() {
            let row = out.syx.row_mut(o).iter_mut().zip(&self.sx);
            row.for_each(|(s, xj)| *s -= yo * xj / n);
        }
        out.syy = (self.syy - self.sy.iter().map(|y| y * y).sum::<f64>() / n).max(0.0);
        out.sx.fill(0.0);
        out.sy.fill(0.0);
        out
    }

    /// Mean over samples of `y - A x`: the optimal bias (out) for a dense matrix A (out, inp).
    #[must_use]
    pub fn mean_residual(&self, a: &Mat<f64>) -> Vec<f64> {
        let n = self.count.max(1) as f64;
        let mapped = |o: usize| a.row(o).iter().zip(&self.sx).map(|(a, x)| a * x).sum::<f64>();
        self.sy.iter().enumerate().map(|(o, y)| (y - mapped(o)) / n).collect()
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
        self.syy / self.count.max(1) as f64
    }
}

fn add_rows(sum: &mut [f64], rows: &Mat<f64>) {
    for i in 0..rows.rows() {
        sum.iter_mut().zip(rows.row(i)).for_each(|(sum, v)| *sum += v);
    }
}

fn wide(x: MatRef<'_, f32>) -> Mat<f64> {
    Mat::from_fn(x.rows(), x.cols(), |i, j| x.at(i, j).to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    fn random(rows: usize, cols: usize, seed: u64) -> Mat<f32> {
        Mat::from_vec(rows, cols, RngKey::new(seed).stream().normals(rows * cols, 1.0))
    }

    #[test]
    fn error_from_sums_equals_error_from_samples_and_shards_add_up() {
        let (x, y, a) = (random(700, 5, 1), random(700, 3, 2), random(3, 5, 3));
        let mut whole = SiteStats::new(3, 5);
        whole.add(x.view(), y.view());
        let (mut first, mut second) = (SiteStats::new(3, 5), SiteStats::new(3, 5));
        first.add(x.view().rows_range(0, 300), y.view().rows_range(0, 300));
        second.add(x.view().rows_range(300, 400), y.view().rows_range(300, 400));
        first.merge(&second);
        let direct: f64 = (0..700)
            .flat_map(|r| (0..3).map(move |o| (r, o)))
            .map(|(r, o)| {
                let predicted: f32 = (0..5).map(|i| a.at(o, i) * x.at(r, i)).sum();
                f64::from(y.at(r, o) - predicted).powi(2)
            })
            .sum::<f64>()
            / 700.0;
        for stats in [&whole, &first] {
            let error = stats.squared_error(&a.cast());
            assert!((error - direct).abs() < 1e-6 * direct, "{error} is not {direct}");
        }
        assert_eq!(first.count, 700);
    }

    #[test]
    fn centred_sums_are_those_of_rows_less_their_means_and_the_mean_residual_is_the_best_bias() {
        let (x, y) = (random(700, 5, 1), random(700, 3, 2));
        let x = Mat::from_fn(700, 5, |i, j| x.at(i, j) + 2.0 * j as f32);
        let y = Mat::from_fn(700, 3, |i, j| y.at(i, j) - 3.0);
        let a: Mat<f64> = random(3, 5, 3).cast();
        let mut stats = SiteStats::new(3, 5);
        stats.add(x.view(), y.view());
        let less_mean = |m: &Mat<f32>| {
            let n = m.rows() as f32;
            let mean = |j: usize| (0..m.rows()).map(|i| m.at(i, j)).sum::<f32>() / n;
            let means: Vec<f32> = (0..m.cols()).map(mean).collect();
            Mat::from_fn(m.rows(), m.cols(), |i, j| m.at(i, j) - means[j])
        };
        let mut direct = SiteStats::new(3, 5);
        direct.add(less_mean(&x).view(), less_mean(&y).view());
        let centred = stats.centred();
        for (a, b) in [(&centred.sxx, &direct.sxx), (&centred.syx, &direct.syx)] {
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
}
