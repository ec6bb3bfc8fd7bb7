//! Products with a matrix that has a few signs in every row.
//!
//! `y[t(j, q)] += e(j, q) x[j]` for each input `j` and `q < per_input`, with targets `t` and signs
//! `e = ±1`: the sparse Johnson-Lindenstrauss transform without its factor `1/√per_input`. Targets
//! of one input may coincide, and then add up or cancel.
//!
//! Inputs are read in order while the outputs stay in the cache, and the terms of an output are
//! added in the order of the inputs, so its bits depend on nothing else.

/// Bit of a code that says that the sign is minus; the others are the target.
const MINUS: u32 = 1 << 31;

/// Targets below this fit in a code.
pub const MOST_TARGETS: usize = MINUS as usize;

/// Target and sign of an entry in one number.
///
/// # Panics
/// If the target is not below [`MOST_TARGETS`].
#[must_use]
#[track_caller]
pub fn code(target: u32, is_minus: bool) -> u32 {
    assert!(target < MINUS, "target {target}");
    target | if is_minus { MINUS } else { 0 }
}

/// The target of a code, and whether its sign is minus.
#[must_use]
pub fn decode(code: u32) -> (u32, bool) {
    (code & !MINUS, code & MINUS != 0)
}

/// A number with the sign of a code.
#[inline(always)]
fn signed(x: f32, code: u32) -> f32 {
    f32::from_bits(x.to_bits() ^ (code & MINUS))
}

/// Adds the product to `y`. The codes are those of the first input, then those of the second.
///
/// # Panics
/// If there are not `per_input` codes for every number of `x`, or a target is beyond `y`.
#[track_caller]
pub fn add_signed(x: &[f32], codes: &[u32], per_input: usize, y: &mut [f32]) {
    assert_eq!(codes.len(), x.len() * per_input, "codes of {} inputs", x.len());
    if per_input == 1 {
        for (&x, &code) in x.iter().zip(codes) {
            y[(code & !MINUS) as usize] += signed(x, code);
        }
        return;
    }
    for (&x, codes) in x.iter().zip(codes.chunks_exact(per_input.max(1))) {
        for &code in codes {
            y[(code & !MINUS) as usize] += signed(x, code);
        }
    }
}

/// The product with the transpose: `x[j] = Σ_q e(j, q) y[t(j, q)]`.
///
/// # Panics
/// As [`add_signed`].
#[track_caller]
pub fn signed_sums(y: &[f32], codes: &[u32], per_input: usize, x: &mut [f32]) {
    assert_eq!(codes.len(), x.len() * per_input, "codes of {} inputs", x.len());
    for (x, codes) in x.iter_mut().zip(codes.chunks_exact(per_input.max(1))) {
        *x = codes.iter().map(|&code| signed(y[(code & !MINUS) as usize], code)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;

    #[test]
    fn products_equal_their_naive_twins() {
        for (inp, out, per_input) in [(1, 1, 1), (50, 7, 1), (50, 7, 3), (200, 64, 4), (0, 3, 2)] {
            let mut stream = RngKey::new(3).stream();
            let x: Vec<f32> = stream.normals(inp, 1.0);
            let y: Vec<f32> = stream.normals(out, 1.0);
            let entries: Vec<(u32, bool)> = (0..inp * per_input)
                .map(|_| (stream.below(out) as u32, stream.bits() & 1 == 1))
                .collect();
            let codes: Vec<u32> = entries.iter().map(|&(t, minus)| code(t, minus)).collect();
            assert!(codes.iter().zip(&entries).all(|(&code, entry)| decode(code) == *entry));
            let mut dense = vec![vec![0.0f64; out]; inp];
            for (at, &(target, minus)) in entries.iter().enumerate() {
                dense[at / per_input][target as usize] += if minus { -1.0 } else { 1.0 };
            }
            let mut found = vec![1.0; out];
            add_signed(&x, &codes, per_input, &mut found);
            for (t, found) in found.iter().enumerate() {
                let want: f64 = 1.0 + (0..inp).map(|j| dense[j][t] * f64::from(x[j])).sum::<f64>();
                assert!((f64::from(*found) - want).abs() < 1e-5, "{inp} x {out}: {found}, {want}");
            }
            let mut back = vec![7.0; inp];
            signed_sums(&y, &codes, per_input, &mut back);
            for (j, found) in back.iter().enumerate() {
                let want: f64 = (0..out).map(|t| dense[j][t] * f64::from(y[t])).sum();
                assert!((f64::from(*found) - want).abs() < 1e-5, "{inp} x {out}: {found}, {want}");
            }
        }
    }
}
