//! Householder reflections `I - tau v vᵀ` on short columns of `f64`, for functions that are
//! `vectorised`.

/// Number of lanes: one AVX-512 register.
const LANES: usize = 8;

/// Smallest sum of squares for which a reflection is computed.
const MIN_SQUARE: f64 = 1e-280;

/// Overwrites `x` by the `v` of the reflection that maps it to `(beta, 0, ..., 0)`, with `v[0] =
/// 1`; returns `(beta, tau)`. If there is nothing to eliminate, `tau = 0`.
#[inline(always)]
pub(super) fn reflection<const FUSED: bool>(x: &mut [f64]) -> (f64, f64) {
    let first = x[0];
    let rest = dot::<FUSED>(&x[1..], &x[1..]);
    x[0] = 1.0;
    // Smaller squares have lost digits, and such entries are negligible next to 1, to which callers
    // scale: reflections from them would not be orthogonal.
    if first * first + rest < MIN_SQUARE || rest == 0.0 {
        x[1..].fill(0.0);
        return (first, 0.0);
    }
    let norm = (first * first + rest).sqrt();
    let beta = if first > 0.0 { -norm } else { norm };
    let inverse = 1.0 / (first - beta);
    x[1..].iter_mut().for_each(|value| *value *= inverse);
    (beta, (beta - first) / beta)
}

/// `Σ a_i b_i`, in a fixed order.
#[inline(always)]
pub(super) fn dot<const FUSED: bool>(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_end) = a.as_chunks::<LANES>();
    let (b, b_end) = b.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] = multiply_add::<FUSED>(a[lane], b[lane], lanes[lane]);
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_end.iter().zip(b_end)) {
        *lane = multiply_add::<FUSED>(*a, *b, *lane);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// `y += factor x`.
#[inline(always)]
pub(super) fn add_multiple<const FUSED: bool>(factor: f64, x: &[f64], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = multiply_add::<FUSED>(factor, *x, *y);
    }
}

#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn a_reflection_leaves_the_first_number_and_the_length() {
        for len in 1..40 {
            let x: Vec<f64> = RngKey::new(len as u64).stream().normals(len, 1.0);
            let mut v = x.clone();
            let (beta, tau) = reflection::<false>(&mut v);
            let mut image = x.clone();
            let along = tau * dot::<false>(&v, &image);
            add_multiple::<false>(-along, &v, &mut image);
            let naive: f64 = x.iter().map(|x| x * x).sum();
            assert!((beta * beta - naive).abs() < 1e-12 * naive, "{len}");
            assert!((image[0] - beta).abs() < 1e-13 * (1.0 + beta.abs()));
            assert!(image[1..].iter().all(|x| x.abs() < 1e-13), "{image:?}");
        }
        let mut axis = [3.0, 0.0, 0.0];
        assert_eq!(reflection::<false>(&mut axis), (3.0, 0.0));
    }
}
