//! Rotation planes of a skew-symmetric matrix by power iteration: the paper's algorithm, for
//! comparison with [`super::skew_eigen`].
//!
//! `v ← A² v / |A² v|` converges to the plane of the largest angle, changing its sign in every
//! step, since `A² = -angle²` there; `v ∧ (v·b)`, as a matrix `angle (u wᵀ - w uᵀ)` with u = v and
//! `w = Aᵀ v / |A v|`, is subtracted, and the next plane follows. The remainder after floor(n / 2)
//! - 1 planes is taken as the last one.
//!
//! Cost: 2 n² multiply-adds per iteration.
//!
//! Source: arXiv 2507.11688, section 3.2 and its code: at most 20 iterations, until `|v + v_before|
//! < 1e-5`. Deviation: if the remainder is zero, the paper divides zero by zero; here the list of
//! planes ends.
//!
//! Numerical notes: with angles a > a' the error shrinks by (a' / a)² per iteration. For nearly
//! equal angles convergence is slow, the found plane is not invariant, and the remainder does not
//! have rank two: the product of rotors is then not `exp(b)`. For equal angles every plane in their
//! sum is valid, so the value is right, but not its derivative: a perturbation of b separates the
//! angles, and no number of iterations converges.

use super::{NoConvergence, SkewPlane};
use crate::{Mat, MatRef};

/// Stopping criterion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerSettings {
    /// Largest number of iterations per plane.
    pub most: usize,
    /// Tolerance for `|v + v_before|`; zero never stops early.
    pub tolerance: f64,
}

impl Default for PowerSettings {
    /// The paper's settings.
    fn default() -> Self {
        Self { most: 20, tolerance: 1e-5 }
    }
}

/// A plane found by power iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerPlane {
    /// The plane; `u` is the iterated vector, from which a later call may continue.
    pub plane: SkewPlane,
    /// Number of iterations.
    pub iterations: usize,
    /// Whether the tolerance was met.
    pub converged: bool,
}

/// All planes found by power iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerPlanes {
    /// At most floor(n / 2) - 1 planes, in the order found.
    pub planes: Vec<PowerPlane>,
    /// The remainder after these planes, (n, n), taken as the last one.
    pub rest: Mat<f64>,
}

/// One plane of a skew-symmetric matrix, iterated from `start`; none if `start` or its image is
/// zero.
///
/// # Panics
/// If the matrix is not square or `start` of another length.
#[must_use]
pub fn power_plane(
    a: MatRef<'_, f64>,
    start: &[f64],
    settings: PowerSettings,
) -> Option<PowerPlane> {
    assert_eq!((a.rows(), start.len()), (a.cols(), a.cols()), "a square matrix and its vector");
    let mut v = unit(start.to_vec())?;
    let (mut iterations, mut converged) = (0, false);
    while iterations < settings.most && !converged {
        let next = unit(image(a, &image(a, &v)))?;
        let apart: f64 = next.iter().zip(&v).map(|(a, b)| (a + b).powi(2)).sum();
        converged = apart.sqrt() < settings.tolerance;
        v = next;
        iterations += 1;
    }
    let turned = image(a, &v);
    let angle = norm(&turned);
    // A is skew-symmetric: Aᵀ v = -A v.
    let w = unit(turned.into_iter().map(|value| -value).collect())?;
    Some(PowerPlane { plane: SkewPlane { angle, u: v, v: w }, iterations, converged })
}

/// The planes of a skew-symmetric matrix, plane k iterated from `starts[k]`.
///
/// # Errors
/// [`NoConvergence`] if the matrix is not finite.
///
/// # Panics
/// If the matrix is not square, or there are fewer than floor(n / 2) - 1 starts of n numbers.
pub fn skew_power(
    a: MatRef<'_, f64>,
    starts: &[Vec<f64>],
    settings: PowerSettings,
) -> Result<PowerPlanes, NoConvergence> {
    let n = a.rows();
    let wanted = (n / 2).saturating_sub(1);
    assert!(starts.len() >= wanted, "{} starts for {wanted} planes", starts.len());
    if (0..n).any(|i| a.row(i).iter().any(|v| !v.is_finite())) {
        return Err(NoConvergence);
    }
    let mut rest = a.to_mat();
    let mut planes = Vec::with_capacity(wanted);
    for start in &starts[..wanted] {
        let Some(found) = power_plane(rest.view(), start, settings) else { break };
        let SkewPlane { angle, u, v } = &found.plane;
        rest = Mat::from_fn(n, n, |i, j| rest.at(i, j) - angle * (u[i] * v[j] - v[i] * u[j]));
        planes.push(found);
    }
    Ok(PowerPlanes { planes, rest })
}

fn image(a: MatRef<'_, f64>, v: &[f64]) -> Vec<f64> {
    (0..a.rows()).map(|i| a.row(i).iter().zip(v).map(|(a, v)| a * v).sum()).collect()
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum::<f64>().sqrt()
}

fn unit(mut v: Vec<f64>) -> Option<Vec<f64>> {
    let length = norm(&v);
    v.iter_mut().for_each(|v| *v /= length);
    (length > 0.0 && v.iter().all(|v| v.is_finite())).then_some(v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;
    use crate::linalg::skew_eigen;

    const PATIENT: PowerSettings = PowerSettings { most: 100_000, tolerance: 1e-13 };

    fn random(n: usize, seed: u64) -> Mat<f64> {
        let mut stream = RngKey::new(seed).stream();
        let draw: Mat<f64> = Mat::from_fn(n, n, |_, _| stream.normal());
        Mat::from_fn(n, n, |i, j| draw.at(i, j) - draw.at(j, i))
    }

    fn starts(n: usize) -> Vec<Vec<f64>> {
        (0..n / 2).map(|k| RngKey::new(9).fold_index(k as u64).stream().normals(n, 1.0)).collect()
    }

    #[test]
    fn with_patience_the_planes_are_the_exact_ones() {
        for n in 2..=9 {
            let a = random(n, n as u64);
            let exact = skew_eigen(a.view()).unwrap().planes();
            let found = skew_power(a.view(), &starts(n), PATIENT).unwrap();
            assert_eq!(found.planes.len(), n / 2 - 1);
            for (found, exact) in found.planes.iter().zip(&exact) {
                assert!(found.converged, "n {n}");
                assert!((found.plane.angle - exact.angle).abs() < 1e-9, "n {n}");
            }
            let last = norm(found.rest.data()) / 2f64.sqrt();
            assert!((last - exact[n / 2 - 1].angle).abs() < 1e-9, "n {n}");
        }
    }

    #[test]
    fn nearly_equal_angles_are_not_told_apart_in_twenty_iterations() {
        let angle = |k: usize| [1.0, 0.99, 0.5][k];
        let a = Mat::from_fn(6, 6, |i, j| match (i / 2 == j / 2, i < j) {
            (true, true) => angle(i / 2),
            (true, false) if i != j => -angle(i / 2),
            _ => 0.0,
        });
        let paper = PowerSettings::default();
        let found = skew_power(a.view(), &starts(6), paper).unwrap();
        assert!(!found.planes[0].converged);
        assert!((found.planes[0].plane.angle - 1.0).abs() > 1e-4, "{:?}", found.planes[0]);
        let exact = skew_eigen(a.view()).unwrap().planes();
        assert!(exact.iter().enumerate().all(|(k, plane)| (plane.angle - angle(k)).abs() < 1e-14));
    }

    #[test]
    fn a_start_on_the_plane_is_there_at_once() {
        let a = random(8, 3);
        let exact = &skew_eigen(a.view()).unwrap().planes()[0];
        let paper = PowerSettings::default();
        let found = power_plane(a.view(), &exact.u, paper).unwrap();
        assert_eq!((found.iterations, found.converged), (1, true));
    }

    #[test]
    fn where_nothing_is_left_the_planes_end() {
        let paper = PowerSettings::default();
        let zero: Mat<f64> = Mat::zeros(6, 6);
        let found = skew_power(zero.view(), &starts(6), paper).unwrap();
        assert!(found.planes.is_empty() && found.rest == zero);
        assert_eq!(power_plane(random(4, 1).view(), &[0.0; 4], paper), None);
        let nan = Mat::from_fn(4, 4, |_, _| f64::NAN);
        assert_eq!(skew_power(nan.view(), &starts(4), paper), Err(NoConvergence));
        for n in 0..2 {
            let empty: Mat<f64> = Mat::zeros(n, n);
            assert!(skew_power(empty.view(), &[], paper).unwrap().planes.is_empty());
        }
    }
}
