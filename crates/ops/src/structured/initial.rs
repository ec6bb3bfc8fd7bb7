//! Initialisation of weights.

use linwright_tensor::{Mat, RngKey, Scalar};

/// A weight (rows, cols) initialised as PyTorch's `Linear` with `inputs` features: uniform up to `1
/// / √inputs`.
pub(super) fn as_of_linear<T: Scalar>(
    rows: usize,
    cols: usize,
    inputs: usize,
    key: RngKey,
) -> Mat<T> {
    let bound = 1.0 / (inputs.max(1) as f64).sqrt();
    let mut stream = key.stream();
    Mat::from_fn(rows, cols, |_, _| T::from_f64(bound * (2.0 * stream.uniform() - 1.0)))
}
