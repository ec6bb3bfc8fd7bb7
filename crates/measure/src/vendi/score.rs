//! Scores of a kernel matrix or of features.

use super::{Order, VendiError, multiply, spectrum};
use linwright_tensor::dtype::DType;
use linwright_tensor::kernels::gemm::Arg;
use linwright_tensor::{Mat, MatRef};

/// Allowed asymmetry of a kernel, relative to its largest entry: rounding error of single-precision
/// sums.
const SYMMETRY: f64 = 1e-6;
/// Allowed deviation of the sum of probabilities from one: rounding error of single-precision sums.
const SUM: f64 = 1e-6;

/// Options of a score besides the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Items<'a> {
    /// Probability of each item; uniform by default.
    pub probabilities: Option<&'a [f64]>,
    /// Whether a kernel is first divided by `√(K_ii K_jj)`.
    pub normalise: bool,
    /// Whether rows of features are used without normalisation to length one.
    pub raw: bool,
    /// The original type of kernel or features, if not double precision: zero eigenvalues perturbed
    /// by its rounding are ignored, as for the rounding of the decomposition.
    pub came_in: Option<DType>,
}

impl Items<'_> {
    /// The largest eigenvalue that may be rounding of a kernel (n, n): n half spacings.
    fn rounding_of_kernel(&self, n: usize, largest: f64) -> f64 {
        self.came_in.map_or(0.0, |dtype| n as f64 * dtype.epsilon() / 2.0 * largest)
    }

    /// The same for features, whose eigenvalues are squares: that of a half spacing, relative to
    /// the sum.
    fn rounding_of_features(&self, total: f64) -> f64 {
        self.came_in.map_or(0.0, |dtype| (dtype.epsilon() / 2.0).powi(2) * total)
    }
}

/// The Vendi score of order q of a kernel `K` (n, n), symmetric and positive semidefinite: the
/// exponential of the Rényi entropy of the eigenvalues of `K_ij √(p_i p_j)`, which is `K / n` for
/// uniform probabilities.
///
/// # Errors
/// [`VendiError`] if the kernel is empty, not square, not symmetric or not finite, or if the
/// probabilities are invalid.
pub fn of_kernel(
    kernel: MatRef<'_, f64>,
    order: Order,
    items: &Items<'_>,
) -> Result<f64, VendiError> {
    let values = spectrum_of_kernel(kernel, items)?;
    let largest = values.first().copied().unwrap_or(0.0);
    Ok(order.score_above(items.rounding_of_kernel(kernel.rows(), largest), &values))
}

/// Eigenvalues for [`of_kernel`], descending.
///
/// # Errors
/// As of [`of_kernel`].
pub fn spectrum_of_kernel(
    kernel: MatRef<'_, f64>,
    items: &Items<'_>,
) -> Result<Vec<f64>, VendiError> {
    let n = kernel.rows();
    check_kernel(kernel)?;
    let mut weights = root_weights(n, items)?;
    if items.normalise {
        for (row, weight) in weights.iter_mut().enumerate() {
            let value = kernel.at(row, row);
            if value <= 0.0 {
                return Err(VendiError::Diagonal { row, value });
            }
            *weight /= value.sqrt();
        }
    }
    let scaled = Mat::from_fn(n, n, |i, j| kernel.at(i, j) * weights[i] * weights[j]);
    Ok(spectrum(scaled)?)
}

/// The Vendi score of order q of the kernel `X Xᵀ` of features X (n, d), whose rows are first
/// normalised to length one: from the eigenvalues of the smaller of `X Xᵀ / n` and `Xᵀ X / n`,
/// which have the same non-zero eigenvalues.
///
/// # Errors
/// [`VendiError`] if there are no features, if they are not finite, if a row is zero, or if the
/// probabilities are invalid.
pub fn of_features(
    features: MatRef<'_, f64>,
    order: Order,
    items: &Items<'_>,
) -> Result<f64, VendiError> {
    let (n, d) = (features.rows(), features.cols());
    if n == 0 || d == 0 {
        return Err(VendiError::Empty { what: "features" });
    }
    check_finite(features)?;
    let mut weights = root_weights(n, items)?;
    for (row, weight) in weights.iter_mut().enumerate() {
        if !items.raw {
            // Relative to the largest entry, whose square may overflow.
            let largest = features.row(row).iter().fold(0.0, |most: f64, v| most.max(v.abs()));
            if largest == 0.0 {
                return Err(VendiError::ZeroRow { row });
            }
            let square: f64 = features.row(row).iter().map(|v| (v / largest).powi(2)).sum();
            *weight /= largest * square.sqrt();
        }
    }
    let scaled = Mat::from_fn(n, d, |i, j| features.at(i, j) * weights[i]);
    let (plain, transposed) = (Arg::Plain(scaled.view()), Arg::Transposed(scaled.view()));
    let gram = if d < n { multiply(transposed, plain) } else { multiply(plain, transposed) };
    let values = spectrum(gram)?;
    let least = items.rounding_of_features(values.iter().sum());
    Ok(order.score_above(least, &values))
}

/// The quality-weighted Vendi score: the mean of the qualities times the score.
///
/// # Errors
/// As for [`of_kernel`], and [`VendiError`] unless there is one non-negative quality per item.
pub fn weighted_by_quality(
    kernel: MatRef<'_, f64>,
    qualities: &[f64],
    order: Order,
    items: &Items<'_>,
) -> Result<f64, VendiError> {
    check_numbers("quality", qualities, kernel.rows())?;
    let mean = qualities.iter().sum::<f64>() / qualities.len() as f64;
    Ok(mean * of_kernel(kernel, order, items)?)
}

/// `√p` of each item.
fn root_weights(n: usize, items: &Items<'_>) -> Result<Vec<f64>, VendiError> {
    let Some(probabilities) = items.probabilities else {
        return Ok(vec![1.0 / (n as f64).sqrt(); n]);
    };
    check_numbers("probability", probabilities, n)?;
    let sum: f64 = probabilities.iter().sum();
    if (sum - 1.0).abs() > SUM {
        return Err(VendiError::Sum { sum });
    }
    Ok(probabilities.iter().map(|p| p.sqrt()).collect())
}

fn check_numbers(what: &'static str, numbers: &[f64], expected: usize) -> Result<(), VendiError> {
    if expected == 0 {
        return Err(VendiError::Empty { what: "items" });
    }
    if numbers.len() != expected {
        let what = if what == "quality" { "qualities" } else { "probabilities" };
        return Err(VendiError::Count { what, expected, found: numbers.len() });
    }
    match numbers.iter().position(|v| !v.is_finite() || *v < 0.0) {
        Some(index) => Err(VendiError::Negative { what, index, value: numbers[index] }),
        None => Ok(()),
    }
}

fn check_finite(matrix: MatRef<'_, f64>) -> Result<(), VendiError> {
    for row in 0..matrix.rows() {
        if let Some(col) = matrix.row(row).iter().position(|v| !v.is_finite()) {
            return Err(VendiError::NonFinite { row, col, value: matrix.at(row, col) });
        }
    }
    Ok(())
}

fn check_kernel(kernel: MatRef<'_, f64>) -> Result<(), VendiError> {
    let (rows, cols) = (kernel.rows(), kernel.cols());
    if rows != cols {
        return Err(VendiError::NotSquare { rows, cols });
    }
    if rows == 0 {
        return Err(VendiError::Empty { what: "items" });
    }
    check_finite(kernel)?;
    let largest =
        (0..rows).flat_map(|i| kernel.row(i)).fold(0.0, |most: f64, value| most.max(value.abs()));
    for row in 0..rows {
        for col in 0..row {
            let difference = (kernel.at(row, col) - kernel.at(col, row)).abs();
            if difference > SYMMETRY * largest {
                return Err(VendiError::NotSymmetric { row, col, difference });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright_tensor::RngKey;

    fn features(n: usize, d: usize, seed: u64) -> Mat<f64> {
        Mat::from_vec(n, d, RngKey::new(seed).stream().normals(n * d, 1.0))
    }

    fn kernel_of(features: &Mat<f64>) -> Mat<f64> {
        let n = features.rows();
        let dot = |i: usize, j: usize| -> f64 {
            features.row(i).iter().zip(features.row(j)).map(|(a, b)| a * b).sum()
        };
        Mat::from_fn(n, n, |i, j| dot(i, j) / (dot(i, i) * dot(j, j)).sqrt())
    }

    const ORDERS: [f64; 8] = [0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 40.0, f64::INFINITY];

    #[test]
    fn rounding_of_fewer_bits_counts_no_items() {
        let basis = features(3, 20, 4);
        let weights = features(12, 3, 6);
        let x = multiply(Arg::Plain(weights.view()), Arg::Plain(basis.view()));
        let zero = Order::new(0.0).unwrap();
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let narrow = |mat: &Mat<f64>| {
                let narrow: Mat<f32> = mat.cast();
                let stored = dtype.decode(&dtype.encode(narrow.data()));
                Mat::from_vec(mat.rows(), mat.cols(), stored).cast::<f64>()
            };
            let items = Items { came_in: Some(dtype), ..Items::default() };
            let score = |order| of_features(narrow(&x).view(), order, &items).unwrap();
            assert!((score(zero) - 3.0).abs() < 1e-12, "{dtype:?}: {}", score(zero));
            let exact = of_features(x.view(), Order::ONE, &Items::default()).unwrap();
            assert!((score(Order::ONE) / exact - 1.0).abs() < 10.0 * dtype.epsilon(), "{dtype:?}");
            let kernel = narrow(&kernel_of(&x));
            let kernel = Mat::from_fn(12, 12, |i, j| (kernel.at(i, j) + kernel.at(j, i)) / 2.0);
            let found = of_kernel(kernel.view(), zero, &items).unwrap();
            assert!((found - 3.0).abs() < 1e-12, "{dtype:?}: {found}");
            // Without its type, rounding errors count as items.
            let plain = of_kernel(kernel.view(), zero, &Items::default()).unwrap();
            assert!(plain > 3.5, "{dtype:?}: {plain}");
        }
    }

    #[test]
    fn laws_of_scores() {
        let plain = Items::default();
        for (n, d) in [(9, 4), (4, 9), (12, 12)] {
            let x = features(n, d, 5);
            let kernel = kernel_of(&x);
            let twice = Mat::from_fn(2 * n, 2 * n, |i, j| kernel.at(i % n, j % n));
            let turned = Mat::from_fn(n, n, |i, j| kernel.at((i + 2) % n, (j + 2) % n));
            let stretched =
                Mat::from_fn(n, n, |i, j| kernel.at(i, j) * (i + 1) as f64 * (j + 1) as f64);
            let alike = vec![1.0 / n as f64; n];
            let mut before = f64::INFINITY;
            for q in ORDERS {
                let order = Order::new(q).unwrap();
                let score = |kernel: &Mat<f64>, items: &Items<'_>| {
                    of_kernel(kernel.view(), order, items).unwrap()
                };
                let vs = score(&kernel, &plain);
                let same =
                    |other: f64| assert!((other / vs - 1.0).abs() < 1e-9, "{q}: {other}, {vs}");
                assert!((1.0 - 1e-12..=n as f64 + 1e-9).contains(&vs), "{vs}");
                assert!(vs <= before + 1e-9, "order {q}: {vs} after {before}");
                before = vs;
                same(score(&twice, &plain));
                same(score(&turned, &plain));
                same(score(&kernel, &Items { probabilities: Some(&alike), ..plain }));
                same(score(&stretched, &Items { normalise: true, ..plain }));
                same(of_features(x.view(), order, &plain).unwrap());
                let quality: Vec<f64> = (0..n).map(|i| i as f64).collect();
                let weighted = weighted_by_quality(kernel.view(), &quality, order, &plain).unwrap();
                same(weighted / ((n - 1) as f64 / 2.0));
            }
        }
        for q in ORDERS {
            let order = Order::new(q).unwrap();
            let ones = Mat::from_fn(6, 6, |_, _| 1.0);
            assert!((of_kernel(ones.view(), order, &plain).unwrap() - 1.0).abs() < 1e-12);
            let identity = Mat::identity(6);
            assert!((of_kernel(identity.view(), order, &plain).unwrap() - 6.0).abs() < 1e-12);
            // All probability on two of six.
            let items = Items { probabilities: Some(&[0.5, 0.5, 0.0, 0.0, 0.0, 0.0]), ..plain };
            assert!((of_kernel(identity.view(), order, &items).unwrap() - 2.0).abs() < 1e-12);
        }
    }

    /// Squares of such numbers lose digits or underflow.
    #[test]
    fn similarities_near_the_end_of_the_range_are_none() {
        for tiny in [1e-99, 1e-140, 1e-158, 1e-160, 1e-162, 1e-300] {
            let noise: Vec<f64> = RngKey::new(1).stream().normals(64, tiny);
            let kernel =
                Mat::from_fn(
                    8,
                    8,
                    |i, j| if i == j { 1.0 } else { noise[8 * i.max(j) + i.min(j)] },
                );
            for q in ORDERS {
                let order = Order::new(q).unwrap();
                let score = of_kernel(kernel.view(), order, &Items::default()).unwrap();
                assert!((score - 8.0).abs() < 1e-12, "{score} of order {q} with {tiny:e}");
            }
        }
    }

    #[test]
    fn bad_kernels_and_features_are_refused() {
        let plain = Items::default();
        let refused = |kernel: Mat<f64>, items: &Items<'_>| {
            of_kernel(kernel.view(), Order::ONE, items).unwrap_err().to_string()
        };
        let identity = || Mat::<f64>::identity(3);
        let with = |i: usize, j: usize, value: f64| {
            let mut kernel = identity();
            *kernel.at_mut(i, j) = value;
            kernel
        };
        let p = |probabilities| Items { probabilities: Some(probabilities), ..plain };
        let normalised = Items { normalise: true, ..plain };
        for (found, expected) in [
            (refused(Mat::zeros(2, 3), &plain), "2 x 3"),
            (refused(Mat::zeros(0, 0), &plain), "no items"),
            (refused(with(2, 1, f64::NAN), &plain), "row 2, column 1 is NaN"),
            (refused(with(2, 1, 0.5), &plain), "(2, 1) and its mirror differ by 5e-1"),
            (refused(identity(), &p(&[0.5, 0.5])), "2 probabilities for 3 items"),
            (refused(identity(), &p(&[0.5, 0.7, -0.2])), "probability of item 2 is -0.2"),
            (refused(identity(), &p(&[0.5, 0.7, 0.2])), "sum to 1.4"),
            (refused(with(1, 1, 0.0), &normalised), "diagonal of the kernel is 0 at row 1"),
        ] {
            assert!(found.contains(expected), "{found:?} lacks {expected:?}");
        }
        let refused = |x: Mat<f64>| of_features(x.view(), Order::ONE, &plain).unwrap_err();
        assert_eq!(refused(Mat::zeros(3, 0)), VendiError::Empty { what: "features" });
        let zero = Mat::from_fn(3, 2, |i, _| if i == 1 { 0.0 } else { 1.0 });
        assert_eq!(refused(zero), VendiError::ZeroRow { row: 1 });
        let quality = weighted_by_quality(identity().view(), &[1.0, 1.0], Order::ONE, &plain);
        assert!(quality.unwrap_err().to_string().contains("2 qualities for 3 items"));
    }
}
