//! Errors of rotors from a fixed number of power iterations.

use super::{ConvergenceError, ConvergencePlan, check_progress};
use linwright_measure::timing::MedianRange;
use linwright_run::Monitor;
use linwright_tensor::kernels::spin::{
    bivector_pairs, product_of_simple_rotors, rotor_by_series, skew_matrix,
};
use linwright_tensor::linalg::{PowerSettings, SkewPlane, skew_eigen, skew_power};
use linwright_tensor::{RngKey, parallel};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Evaluated numbers of iterations; the paper allows 20.
pub const ITERATIONS: [usize; 11] = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100];
/// Generators of the bivectors with given angles.
const CHOSEN: usize = 8;
/// Step of central differences of a rotor, at which rounding and truncation errors are about equal.
const STEP: f64 = 1e-5;

/// Distribution of bivectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Angles {
    /// Coefficients from N(0, 1).
    Normal,
    /// Planes of a random frame with the angles 1, 1 - g, 1 - 2g, and so on.
    Apart(f64),
}

impl Angles {
    /// Distributions with given angles.
    pub const CHOSEN: [Self; 4] =
        [Self::Apart(0.1), Self::Apart(0.01), Self::Apart(0.001), Self::Apart(0.0)];

    /// Name of the distribution.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Normal => "normal".to_owned(),
            Self::Apart(0.0) => "angles equal".to_owned(),
            Self::Apart(gap) => format!("angles {gap} apart"),
        }
    }

    fn draw(self, n: usize, key: RngKey) -> Result<Vec<f64>, ConvergenceError> {
        let normals: Vec<f64> = key.stream().normals(n * (n - 1) / 2, 1.0);
        let Self::Apart(gap) = self else { return Ok(normals) };
        let mut bivector = vec![0.0; normals.len()];
        for (k, mut plane) in exact_planes(n, &normals)?.into_iter().enumerate() {
            plane.angle = 1.0 - gap * k as f64;
            bivector.iter_mut().zip(plane.bivector()).for_each(|(sum, b)| *sum += b);
        }
        Ok(bivector)
    }
}

impl Serialize for Angles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for Angles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let mut known = std::iter::once(Self::Normal).chain(Self::CHOSEN);
        let found = known.find(|angles| angles.name() == name);
        found.ok_or_else(|| D::Error::custom(format!("unknown angles {name:?}")))
    }
}

/// Errors after a number of iterations, over all repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccuracyRow {
    /// Distribution of bivectors.
    pub angles: Angles,
    /// Features, 2^n.
    pub features: usize,
    /// Iterations per plane.
    pub iterations: usize,
    /// `|r - exp(b)|`, where `|exp(b)| = 1`.
    pub rotor_error: MedianRange,
    /// Relative error of the derivative of r along a random direction; only for given angles.
    pub derivative_error: Option<MedianRange>,
}

/// Errors of the eigendecomposition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExactRow {
    /// Distribution of bivectors.
    pub angles: Angles,
    /// Features, 2^n.
    pub features: usize,
    /// As in [`AccuracyRow`].
    pub rotor_error: MedianRange,
    /// As in [`AccuracyRow`].
    pub derivative_error: Option<MedianRange>,
}

/// Computation of a rotor from a bivector.
#[derive(Clone, Copy)]
enum Way<'a> {
    Series,
    Exact,
    Power { starts: &'a [Vec<f64>], iterations: usize },
}

/// Errors for one bivector: of the eigendecomposition first, then for each number of iterations.
type Errors = Vec<(f64, Option<f64>)>;

pub(super) fn rows(
    plan: &ConvergencePlan,
    monitor: &mut dyn Monitor,
) -> Result<(Vec<AccuracyRow>, Vec<ExactRow>), ConvergenceError> {
    let random = plan.generators.iter().map(|&n| (Angles::Normal, n));
    let cases: Vec<(Angles, usize)> =
        random.chain(Angles::CHOSEN.map(|angles| (angles, CHOSEN))).collect();
    let (mut accuracy, mut exact) = (Vec::new(), Vec::new());
    for (done, &(angles, n)) in cases.iter().enumerate() {
        check_progress(monitor, done, cases.len())?;
        let key = RngKey::new(plan.seed).fold(&angles.name()).fold_index(n as u64);
        let repeats = (0..plan.repeats as u64).collect();
        let errors: Vec<Errors> =
            parallel::map(repeats, |_, repeat| errors(angles, n, key.fold_index(repeat)))
                .into_iter()
                .collect::<Result<_, _>>()?;
        let spreads = |place: usize| {
            let rotor: Vec<f64> = errors.iter().map(|of_one| of_one[place].0).collect();
            let derivative: Vec<f64> = errors.iter().filter_map(|of_one| of_one[place].1).collect();
            let derivative = (!derivative.is_empty()).then(|| MedianRange::of(&derivative));
            (MedianRange::of(&rotor), derivative)
        };
        let features = 1 << n;
        let (rotor_error, derivative_error) = spreads(0);
        exact.push(ExactRow { angles, features, rotor_error, derivative_error });
        for (place, &iterations) in ITERATIONS.iter().enumerate() {
            let (rotor_error, derivative_error) = spreads(place + 1);
            let row = AccuracyRow { angles, features, iterations, rotor_error, derivative_error };
            accuracy.push(row);
        }
    }
    Ok((accuracy, exact))
}

fn errors(angles: Angles, n: usize, key: RngKey) -> Result<Errors, ConvergenceError> {
    let b = angles.draw(n, key.fold("bivector"))?;
    let start = |k: usize| key.fold("start").fold_index(k as u64).stream().normals(n, 1.0);
    let starts: Vec<Vec<f64>> = (0..n / 2).map(start).collect();
    let direction: Option<Vec<f64>> =
        (angles != Angles::Normal).then(|| key.fold("direction").stream().normals(b.len(), 1.0));
    let truth = Way::Series.rotor(n, &b)?;
    let slope = |way: Way<'_>| direction.as_ref().map(|e| way.derivative(n, &b, e)).transpose();
    let true_slope = slope(Way::Series)?;
    let steps = ITERATIONS.map(|iterations| Way::Power { starts: &starts, iterations });
    let error = |way: Way<'_>| {
        let value = distance(&way.rotor(n, &b)?, &truth);
        let slope = slope(way)?.zip(true_slope.as_ref());
        let relative = slope.map(|(found, truth)| distance(&found, truth) / length(truth));
        Ok((value, relative))
    };
    [Way::Exact].into_iter().chain(steps).map(error).collect()
}

impl Way<'_> {
    fn rotor(self, n: usize, b: &[f64]) -> Result<Vec<f64>, ConvergenceError> {
        let parts: Vec<Vec<f64>> = match self {
            Self::Series => return Ok(rotor_by_series(n, b)),
            Self::Exact => exact_planes(n, b)?.iter().map(SkewPlane::bivector).collect(),
            Self::Power { starts, iterations } => {
                let settings = PowerSettings { most: iterations, tolerance: 0.0 };
                let skew = skew_matrix(b, n);
                let found = skew_power(skew.view(), starts, settings)
                    .map_err(|source| ConvergenceError::Numerics { generators: n, source })?;
                let rest = bivector_pairs(n).map(|(i, j)| found.rest.at(i, j)).collect();
                let planes = found.planes.iter().map(|found| found.plane.bivector());
                planes.chain([rest]).collect()
            }
        };
        Ok(product_of_simple_rotors(n, &parts))
    }

    /// Derivative by central differences.
    fn derivative(self, n: usize, b: &[f64], e: &[f64]) -> Result<Vec<f64>, ConvergenceError> {
        let moved = |step: f64| {
            let b: Vec<f64> = b.iter().zip(e).map(|(b, e)| b + step * e).collect();
            self.rotor(n, &b)
        };
        let (ahead, behind) = (moved(STEP)?, moved(-STEP)?);
        Ok(ahead.iter().zip(&behind).map(|(a, b)| (a - b) / (2.0 * STEP)).collect())
    }
}

fn exact_planes(n: usize, b: &[f64]) -> Result<Vec<SkewPlane>, ConvergenceError> {
    let eigen = skew_eigen(skew_matrix(b, n).view());
    let eigen = eigen.map_err(|source| ConvergenceError::Numerics { generators: n, source })?;
    Ok(eigen.planes())
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn length(a: &[f64]) -> f64 {
    a.iter().map(|a| a * a).sum::<f64>().sqrt()
}
