//! Walsh-Hadamard transforms in registers of AVX-512 and AVX2.
//!
//! The levels within a register are permutations and sign changes, those across registers are
//! butterflies of as many registers as there are; a row of 2,048 numbers is read and written twice,
//! in the first-level cache.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take raw pointers; every function states its bounds"
)]

use crate::Scalar;
use crate::kernels::instructions::Instructions;
use std::any::TypeId;
use std::arch::x86_64::{
    __m256, __m512, _MM_HINT_T0, _mm_prefetch, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_permute_ps, _mm256_permute2f128_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm256_sub_ps,
    _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_permute_ps, _mm512_set1_ps,
    _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_sub_ps,
};

/// Numbers of a cache line.
const LINE: usize = 16;

/// Transforms one vector in place; returns false for unsupported lengths or machines.
pub(super) fn row<T: Scalar>(data: &mut [T]) -> bool {
    match machine::<T>() {
        Instructions::Avx512 if data.len() >= 16 => {
            // SAFETY: this machine has the instructions; the length is a power of two.
            unsafe { avx512::row(bytemuck::cast_slice_mut(data)) };
            true
        }
        Instructions::Avx512 | Instructions::Avx2 if data.len() >= 8 => {
            // SAFETY: as above.
            unsafe { avx2::row(bytemuck::cast_slice_mut(data)) };
            true
        }
        Instructions::Common | Instructions::Avx2 | Instructions::Avx512 => false,
    }
}

/// Transforms `width` interleaved vectors in place; returns false for unsupported lengths or
/// machines.
pub(super) fn columns<T: Scalar>(data: &mut [T], width: usize) -> bool {
    match machine::<T>() {
        Instructions::Avx512 if width.is_multiple_of(16) => {
            // SAFETY: this machine has the instructions; the vectors' length is a power of two.
            unsafe { avx512::levels(bytemuck::cast_slice_mut(data), width) };
            true
        }
        Instructions::Avx512 | Instructions::Avx2 if width.is_multiple_of(8) => {
            // SAFETY: as above.
            unsafe { avx2::levels(bytemuck::cast_slice_mut(data), width) };
            true
        }
        Instructions::Common | Instructions::Avx2 | Instructions::Avx512 => false,
    }
}

fn machine<T: Scalar>() -> Instructions {
    if TypeId::of::<T>() == TypeId::of::<f32>() {
        Instructions::here()
    } else {
        Instructions::Common
    }
}

/// The levels within a register of AVX-512.
#[inline]
#[target_feature(enable = "avx512f")]
fn within_avx512(v: __m512) -> __m512 {
    let v = _mm512_fmadd_ps(v, signs_avx512(1), _mm512_permute_ps::<0b10_11_00_01>(v));
    let v = _mm512_fmadd_ps(v, signs_avx512(2), _mm512_permute_ps::<0b01_00_11_10>(v));
    let v = _mm512_fmadd_ps(v, signs_avx512(4), _mm512_shuffle_f32x4::<0b10_11_00_01>(v, v));
    _mm512_fmadd_ps(v, signs_avx512(8), _mm512_shuffle_f32x4::<0b01_00_11_10>(v, v))
}

/// A minus sign in the lanes whose index has this bit.
#[inline]
#[target_feature(enable = "avx512f")]
fn signs_avx512(bit: usize) -> __m512 {
    let signs: [f32; 16] = std::array::from_fn(|lane| if lane & bit == 0 { 1.0 } else { -1.0 });
    // SAFETY: as many numbers as lanes.
    unsafe { _mm512_loadu_ps(signs.as_ptr()) }
}

/// The levels within a register of AVX2.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn within_avx2(v: __m256) -> __m256 {
    let v = _mm256_fmadd_ps(v, signs_avx2(1), _mm256_permute_ps::<0b10_11_00_01>(v));
    let v = _mm256_fmadd_ps(v, signs_avx2(2), _mm256_permute_ps::<0b01_00_11_10>(v));
    _mm256_fmadd_ps(v, signs_avx2(4), _mm256_permute2f128_ps::<1>(v, v))
}

/// A minus sign in the lanes whose index has this bit.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn signs_avx2(bit: usize) -> __m256 {
    let signs: [f32; 8] = std::array::from_fn(|lane| if lane & bit == 0 { 1.0 } else { -1.0 });
    // SAFETY: as many numbers as lanes.
    unsafe { _mm256_loadu_ps(signs.as_ptr()) }
}

macro_rules! kernels {
    ($module:ident, $features:literal, $vector:ident, $lanes:literal, $most:literal, $within:ident,
     [$set:ident, $load:ident, $store:ident, $add:ident, $sub:ident]) => {
        mod $module {
            use super::*;

            /// # Safety
            /// The length is a power of two of at least the lanes.
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn row(data: &mut [f32]) {
                // SAFETY: the caller's contract.
                unsafe {
                    match data.len() / $lanes {
                        1 => first::<1>(data),
                        2 => first::<2>(data),
                        4 => first::<4>(data),
                        8 => first::<8>(data),
                        _ => first::<$most>(data),
                    }
                    levels(data, $lanes * $most);
                }
            }

            /// The levels from distance `half` on.
            ///
            /// # Safety
            /// The lanes divide `half`, and the length is `half` times a power of two or less.
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn levels(data: &mut [f32], mut half: usize) {
                while half < data.len() {
                    let radix = (data.len() / half).min($most);
                    // SAFETY: the caller's contract.
                    unsafe {
                        match radix {
                            2 => across::<2>(data, half),
                            4 => across::<4>(data, half),
                            8 => across::<8>(data, half),
                            _ => across::<$most>(data, half),
                        }
                    }
                    half *= radix;
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn butterflies<const R: usize>(v: &mut [$vector; R]) {
                let mut half = 1;
                while half < R {
                    for k in 0..R {
                        if k & half == 0 {
                            let (a, b) = (v[k], v[k + half]);
                            (v[k], v[k + half]) = ($add(a, b), $sub(a, b));
                        }
                    }
                    half *= 2;
                }
            }

            /// All levels within `R` registers. Prefetches at a distance of the vector's length:
            /// the next row of a matrix, which the hardware does not prefetch across pages.
            ///
            /// # Safety
            /// `R` registers divide the length.
            #[target_feature(enable = $features)]
            unsafe fn first<const R: usize>(data: &mut [f32]) {
                let next = data.len();
                for part in data.chunks_exact_mut(R * $lanes) {
                    let at = part.as_mut_ptr();
                    for line in (0..R * $lanes).step_by(LINE) {
                        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(next + line).cast());
                    }
                    let mut v = [$set(0.0); R];
                    for (r, v) in v.iter_mut().enumerate() {
                        // SAFETY: the part has as many numbers as the registers.
                        *v = $within(unsafe { $load(at.add(r * $lanes)) });
                    }
                    butterflies(&mut v);
                    for (r, v) in v.into_iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { $store(at.add(r * $lanes), v) };
                    }
                }
            }

            /// The levels of `half`, `2 half` and on to `R half / 2`.
            ///
            /// # Safety
            /// The lanes divide `half`, and `R half` the length.
            #[target_feature(enable = $features)]
            unsafe fn across<const R: usize>(data: &mut [f32], half: usize) {
                for part in data.chunks_exact_mut(R * half) {
                    for start in (0..half).step_by($lanes) {
                        // SAFETY: the register ends within the first `half` numbers of the part.
                        let at = unsafe { part.as_mut_ptr().add(start) };
                        let mut v = [$set(0.0); R];
                        for (r, v) in v.iter_mut().enumerate() {
                            // SAFETY: the part has R times as many.
                            *v = unsafe { $load(at.add(r * half)) };
                        }
                        butterflies(&mut v);
                        for (r, v) in v.into_iter().enumerate() {
                            // SAFETY: as above.
                            unsafe { $store(at.add(r * half), v) };
                        }
                    }
                }
            }
        }
    };
}

kernels!(
    avx512,
    "avx512f",
    __m512,
    16,
    16,
    within_avx512,
    [_mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_sub_ps]
);

kernels!(
    avx2,
    "avx2,fma",
    __m256,
    8,
    8,
    within_avx2,
    [_mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_sub_ps]
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers, so that every order of summation gives the same bits.
    fn integers(len: usize) -> Vec<f32> {
        (0..len).map(|k| (k * 7919 % 31) as f32 - 15.0).collect()
    }

    fn textbook(data: &mut [f32], width: usize) {
        let mut half = width;
        while half < data.len() {
            for k in 0..data.len() {
                if (k / half).is_multiple_of(2) {
                    let (a, b) = (data[k], data[k + half]);
                    (data[k], data[k + half]) = (a + b, a - b);
                }
            }
            half *= 2;
        }
    }

    #[test]
    fn every_instruction_set_equals_the_textbook() {
        for size in (0..=12).map(|levels| 1usize << levels) {
            for width in [1, 16, 32, 48] {
                let mut expected = integers(size * width);
                textbook(&mut expected, width);
                let check = |transform: &dyn Fn(&mut [f32])| {
                    let mut found = integers(size * width);
                    transform(&mut found);
                    assert_eq!(found, expected, "size {size}, width {width}");
                };
                // SAFETY: called where the instructions are found and the lengths match.
                unsafe {
                    if Instructions::here() >= Instructions::Avx2 {
                        match width {
                            1 if size >= 8 => check(&|data| avx2::row(data)),
                            1 => {}
                            _ => check(&|data| avx2::levels(data, width)),
                        }
                    }
                    if Instructions::here() >= Instructions::Avx512 {
                        match width {
                            1 if size >= 16 => check(&|data| avx512::row(data)),
                            1 => {}
                            _ => check(&|data| avx512::levels(data, width)),
                        }
                    }
                }
            }
        }
    }
}
