//! Second moments of what goes through a site.

use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::{Mat, MatRef, Scalar};

/// Rows converted to double precision at a time.
const BLOCK: usize = 512;

/// Sums over samples of inputs `x` (inp) seen by a site and targets `y` (out) wanted from it, in
/// double precision. Sums of two shards add up, see [`SiteStats::merge`].
#[derive(Clone, Debug, PartialEq)]
pub struct SiteStats {
    /// Σ x xᵀ, (inp, inp): the Gram matrix, not centred.
    pub sxx: Mat<f64>,
    /// Σ y xᵀ, (out, inp).
    pub syx: Mat<f64>,
    /// Σ |y|².
    pub syy: f64,
    /// Number of samples.
    pub count: u64,
}

impl SiteStats {
    /// No samples yet.
    #[must_use]
    pub fn new(out: usize, inp: usize) -> Self {
        Self { sxx: Mat::zeros(inp, inp), syx: Mat::zeros(out, inp), syy: 0.0, count: 0 }
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

    /// Adds rows to Σ x xᵀ alone. Sites that read the same input share this sum: one of them adds
    /// inputs and targets, the others targets alone, and copy it.
    pub fn add_inputs(&mut self, x: MatRef<'_, f32>) {
        for start in (0..x.rows()).step_by(BLOCK) {
            let x = wide(x.rows_range(start, BLOCK.min(x.rows() - start)));
            let xt = Arg::Transposed(x.view());
            product(1.0, xt, x.view().into(), self.sxx.view_mut(), Write::Add);
        }
    }

    /// Adds rows to all sums but Σ x xᵀ.
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
        self.syy += other.syy;
        self.count += other.count;
    }

    /// Mean over samples of `|y - A x|²`, for a dense map A (out, inp).
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

    /// Mean over samples of `|y|²`: the error of the zero map.
    #[must_use]
    pub fn target_power(&self) -> f64 {
        self.syy / self.count.max(1) as f64
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
}
