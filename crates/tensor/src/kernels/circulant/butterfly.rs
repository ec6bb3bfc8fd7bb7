//! Small discrete Fourier transforms in registers, `y_k = Σ_q x_q exp(-2 π i q k / R)`.
//!
//! The inverse transform gives the same numbers with y_k and y_{R-k} exchanged, so there is no
//! second set of butterflies.

use super::complex::Complex;
use crate::Scalar;
use crate::kernels::registers::Lanes;
use std::f64::consts::FRAC_1_SQRT_2;

/// In-place transform; `roots` as in [`super::plan::Level`].
#[inline(always)]
pub(super) fn butterfly<V: Lanes, const R: usize>(
    x: &mut [Complex<V>; R],
    roots: &[[V::Number; 2]],
) {
    match R {
        1 => {}
        2 => (x[0], x[1]) = (x[0].plus(x[1]), x[0].minus(x[1])),
        4 => [x[0], x[1], x[2], x[3]] = of_four([x[0], x[1], x[2], x[3]]),
        8 => of_eight(x),
        _ => of_odd(x, roots),
    }
}

#[inline(always)]
fn of_four<V: Lanes>([a, b, c, d]: [Complex<V>; 4]) -> [Complex<V>; 4] {
    let (sum, difference) = (a.plus(c), a.minus(c));
    let (other_sum, turned) = (b.plus(d), b.minus(d));
    [
        sum.plus(other_sum),
        difference.minus_i(turned),
        sum.minus(other_sum),
        difference.plus_i(turned),
    ]
}

#[inline(always)]
fn of_eight<V: Lanes, const R: usize>(x: &mut [Complex<V>; R]) {
    let even = of_four([x[0], x[2], x[4], x[6]]);
    let odd = of_four([x[1], x[3], x[5], x[7]]);
    let root = V::splat(V::Number::from_f64(FRAC_1_SQRT_2));
    (x[0], x[4]) = (even[0].plus(odd[0]), even[0].minus(odd[0]));
    (x[2], x[6]) = (even[2].minus_i(odd[2]), even[2].plus_i(odd[2]));
    // Rotations by an eighth: (1 - i) / √2 and (-1 - i) / √2.
    let (sum, difference) = (odd[1].re.plus(odd[1].im), odd[1].im.minus(odd[1].re));
    x[1] = Complex {
        re: sum.times_plus(root, even[1].re),
        im: difference.times_plus(root, even[1].im),
    };
    x[5] = Complex {
        re: sum.times_from(root, even[1].re),
        im: difference.times_from(root, even[1].im),
    };
    let (sum, difference) = (odd[3].re.plus(odd[3].im), odd[3].im.minus(odd[3].re));
    x[3] = Complex {
        re: difference.times_plus(root, even[3].re),
        im: sum.times_from(root, even[3].im),
    };
    x[7] = Complex {
        re: difference.times_from(root, even[3].re),
        im: sum.times_plus(root, even[3].im),
    };
}

/// Sums and differences of the pairs (k, R - k), multiplied by cosines and sines.
#[inline(always)]
fn of_odd<V: Lanes, const R: usize>(x: &mut [Complex<V>; R], roots: &[[V::Number; 2]]) {
    let roots = &roots[..R];
    let (mut sums, mut differences) = (*x, *x);
    let mut total = x[0];
    for k in 1..=R / 2 {
        sums[k] = x[k].plus(x[R - k]);
        differences[k] = x[k].minus(x[R - k]);
        total = total.plus(sums[k]);
    }
    let first = x[0];
    x[0] = total;
    for j in 1..=R / 2 {
        let mut even = first;
        let mut odd = differences[1].scaled(roots[j][1]);
        for k in 1..=R / 2 {
            let [cos, sin] = roots[j * k % R];
            let (cos, sin) = (V::splat(cos), V::splat(sin));
            even = Complex {
                re: sums[k].re.times_plus(cos, even.re),
                im: sums[k].im.times_plus(cos, even.im),
            };
            if k > 1 {
                odd = Complex {
                    re: differences[k].re.times_plus(sin, odd.re),
                    im: differences[k].im.times_plus(sin, odd.im),
                };
            }
        }
        (x[j], x[R - j]) = (even.minus_i(odd), even.plus_i(odd));
    }
}
