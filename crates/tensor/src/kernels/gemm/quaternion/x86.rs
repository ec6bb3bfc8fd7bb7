//! Tiles of AVX-512 and AVX2.

use super::{Multiply, Place, SUMS, Tile};
use crate::kernels::instructions::Instructions;
use std::arch::x86_64::{
    _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps,
    _mm256_setzero_ps, _mm256_storeu_ps, _mm256_sub_ps, _mm512_add_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    _mm512_sub_ps,
};

/// Of 32 registers of AVX-512, 24 hold the result of three rows of quaternions; of 16, 8 hold that of
/// one row of AVX2's.
pub(super) fn all() -> Vec<Tile> {
    const LARGE: [Multiply; 3] = [multiply_avx512::<1>, multiply_avx512::<2>, multiply_avx512::<3>];
    const SMALL: [Multiply; 1] = [multiply_avx2::<1>];
    let here = Instructions::here();
    let large = Tile { lanes: 16, combine: combine_avx512, multiply: &LARGE };
    let small = Tile { lanes: 8, combine: combine_avx2, multiply: &SMALL };
    [(Instructions::Avx512, large), (Instructions::Avx2, small)]
        .into_iter()
        .filter_map(|(needed, tile)| (here >= needed).then_some(tile))
        .collect()
}

/// [`super::Combine`] and [`super::Multiply`] in registers of `$lanes` numbers.
macro_rules! tiles {
    ($combine:ident, $multiply:ident, $features:literal, $lanes:literal,
     [$zero:ident, $set:ident, $load:ident, $store:ident],
     [$fused:ident, $times:ident, $plus:ident, $minus:ident]) => {
        /// # Safety
        /// `x` is valid for `depth` quaternions of two registers, `sums` for two registers of each
        /// of their sums.
        #[target_feature(enable = $features)]
        unsafe fn $combine(depth: usize, x: Place<*const f32>, sums: *mut f32) {
            let half = SUMS / 2;
            for k in 0..depth {
                for register in 0..2 {
                    // SAFETY: the caller's contract.
                    unsafe {
                        let from = x.at.add(k * x.step + register * x.register);
                        let [a, b, c, d] = x.components.map(|component| $load(from.add(component)));
                        let first = [$plus(b, d), $minus(b, d), $plus(a, c), $minus(a, c)];
                        let second = [$minus(d, c), $plus(a, b), $minus(a, b), $plus(c, d)];
                        for place in 0..half {
                            let to = sums.add(((k * half + place) * 2 + register) * $lanes);
                            $store(to, first[place]);
                            $store(to.add(depth * SUMS * $lanes), second[place]);
                        }
                    }
                }
            }
        }

        /// # Safety
        /// The panel holds the sums of `ROWS` times `depth` quaternions, `sums` those of `depth`
        /// quaternions in two registers each; `into` is valid for `ROWS` quaternions of two
        /// registers, to which nobody else has access.
        #[target_feature(enable = $features)]
        unsafe fn $multiply<const ROWS: usize>(
            depth: usize,
            mut panel: *const f32,
            mut sums: *const f32,
            into: Place<*mut f32>,
            (alpha, add): (f32, bool),
        ) {
            // By register, row and component.
            let mut products = [[[$zero(); SUMS / 2]; ROWS]; 2];
            for part in 0..2 {
                for _ in 0..depth {
                    for place in 0..SUMS / 2 {
                        // SAFETY: the caller's contract.
                        unsafe {
                            let at = sums.add(2 * place * $lanes);
                            let (low, high) = ($load(at), $load(at.add($lanes)));
                            for row in 0..ROWS {
                                let factor = $set(*panel.add(row * (SUMS / 2) + place));
                                let [first, second] = &mut products;
                                first[row][place] = $fused(factor, low, first[row][place]);
                                second[row][place] = $fused(factor, high, second[row][place]);
                            }
                        }
                    }
                    panel = panel.wrapping_add(ROWS * (SUMS / 2));
                    sums = sums.wrapping_add(SUMS * $lanes);
                }
                if part == 0 {
                    // Indices keep the sums in registers, iterators would not.
                    for register in 0..2 {
                        for row in 0..ROWS {
                            let [e, f, g, h] = products[register][row];
                            let ([p, q], [r, s]) =
                                ([$plus(e, f), $minus(e, f)], [$plus(g, h), $minus(g, h)]);
                            let negative = $minus($zero(), $plus(r, p));
                            products[register][row] =
                                [$minus(r, p), negative, $plus(q, s), $minus(q, s)];
                        }
                    }
                }
            }
            let alpha = $set(alpha);
            for (register, of_register) in products.into_iter().enumerate() {
                for (row, of_row) in of_register.into_iter().enumerate() {
                    for (product, component) in of_row.into_iter().zip(into.components) {
                        // SAFETY: the caller's contract.
                        unsafe {
                            let to = into.at.add(row * into.step + register * into.register);
                            let to = to.add(component);
                            let scaled = $times(alpha, product);
                            $store(to, if add { $plus($load(to), scaled) } else { scaled });
                        }
                    }
                }
            }
        }
    };
}

tiles!(
    combine_avx512,
    multiply_avx512,
    "avx512f",
    16,
    [_mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps],
    [_mm512_fmadd_ps, _mm512_mul_ps, _mm512_add_ps, _mm512_sub_ps]
);

tiles!(
    combine_avx2,
    multiply_avx2,
    "avx2,fma",
    8,
    [_mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps],
    [_mm256_fmadd_ps, _mm256_mul_ps, _mm256_add_ps, _mm256_sub_ps]
);
