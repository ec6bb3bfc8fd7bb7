//! The invariant decomposition of a bivector: its rotation planes and angles.
//!
//! `b = Σ_k angle_k u_k ∧ v_k` with floor(n / 2) commuting simple bivectors, so that `exp(b) = Π_k
//! (cos angle_k + sin angle_k u_k v_k)`, and `exp(b) x exp(-b)` turns plane k by twice the angle.
//!
//! Source: arXiv 2507.11688, section 3.2. Deviation: by the eigendecomposition of the skew matrix
//! of b, exact for equal angles too, where the paper iterates a power method.

use super::Rotor;
use crate::{OpError, Structured};
use linwright_tensor::kernels::spin::skew_matrix;
use linwright_tensor::linalg::{SkewPlane, skew_eigen};

/// One term `angle · (u ∧ v)` of a bivector.
pub type RotorPlane = SkewPlane;

/// The floor(n / 2) planes of a bivector, largest angle first. Its n (n - 1) / 2 coefficients are
/// in lexicographic order of i < j.
///
/// # Errors
/// [`OpError::InvalidValues`] if their number fits no n, or they are not finite.
///
/// ```
/// let planes = linwright_ops::rotor_planes(&[0.5, 0.0, 0.0])?; // b = e_0 e_1 / 2 of three
/// assert_eq!(planes.len(), 1);
/// assert!((planes[0].angle - 0.5).abs() < 1e-12);
/// # Ok::<(), linwright_ops::OpError>(())
/// ```
pub fn rotor_planes(bivector: &[f64]) -> Result<Vec<RotorPlane>, OpError> {
    let invalid = |reason: &str| OpError::InvalidValues {
        kind: <Rotor<f64> as Structured<f64>>::KIND,
        name: "bivector".into(),
        reason: reason.into(),
    };
    let count = bivector.len();
    let n = (0..=count + 1)
        .find(|n| n * n.saturating_sub(1) / 2 >= count)
        .filter(|n| n * n.saturating_sub(1) / 2 == count)
        .ok_or_else(|| invalid("has a number of coefficients other than n (n - 1) / 2"))?;
    let skew = skew_matrix(bivector, n);
    let eigen = skew_eigen(skew.view()).map_err(|_| invalid("has coefficients not finite"))?;
    Ok(eigen.planes())
}
