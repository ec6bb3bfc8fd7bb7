//! The change of basis in registers of AVX-512 and AVX2.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take raw pointers; every function states its bounds"
)]

use super::basis::{Sheet, SpinBasis};
use super::chunk::Chunk;
use crate::Scalar;
use crate::kernels::gemm::Write;
use crate::kernels::instructions::Instructions;
use std::any::TypeId;
use std::arch::x86_64::{
    __m256, __m512, _mm256_add_ps, _mm256_fmadd_ps, _mm256_fnmadd_ps, _mm256_loadu_ps,
    _mm256_mul_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm256_sub_ps, _mm512_add_ps, _mm512_fmadd_ps,
    _mm512_fnmadd_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_storeu_ps,
    _mm512_sub_ps,
};

/// [`SpinBasis::represent`] of one sheet; returns false for unsupported widths or machines.
pub(super) fn represent<T: Scalar>(
    basis: &SpinBasis,
    sheet: &Sheet,
    x: &[T],
    chunk: Chunk,
    out: &mut [T],
) -> bool {
    let Some(lanes) = lanes::<T>(chunk.width) else {
        return false;
    };
    let (x, out) = (bytemuck::cast_slice(x), bytemuck::cast_slice_mut(out));
    let run = Run { basis, sheet, chunk };
    // SAFETY: this machine has the instructions; `change.rs` has found the lengths right.
    unsafe {
        match (lanes, basis.columns) {
            (16, 1) => avx512::represent::<1>(run, x, out),
            (16, 2) => avx512::represent::<2>(run, x, out),
            (16, 4) => avx512::represent::<4>(run, x, out),
            (16, 8) => avx512::represent::<8>(run, x, out),
            (16, _) => avx512::represent::<16>(run, x, out),
            (_, 1) => avx2::represent::<1>(run, x, out),
            (_, 2) => avx2::represent::<2>(run, x, out),
            (_, 4) => avx2::represent::<4>(run, x, out),
            _ => avx2::represent::<8>(run, x, out),
        }
    }
    true
}

/// [`SpinBasis::recover`] of one sheet; returns false for unsupported widths or machines.
pub(super) fn recover<T: Scalar>(
    basis: &SpinBasis,
    sheet: &Sheet,
    data: &[T],
    chunk: Chunk,
    y: &mut [T],
    write: Write,
) -> bool {
    let Some(lanes) = lanes::<T>(chunk.width) else {
        return false;
    };
    let (data, y) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(y));
    let run = Run { basis, sheet, chunk };
    // SAFETY: as in `represent`.
    unsafe {
        match (lanes, basis.columns) {
            (16, 1) => avx512::recover::<1>(run, data, y, write),
            (16, 2) => avx512::recover::<2>(run, data, y, write),
            (16, 4) => avx512::recover::<4>(run, data, y, write),
            (16, 8) => avx512::recover::<8>(run, data, y, write),
            (16, _) => avx512::recover::<16>(run, data, y, write),
            (_, 1) => avx2::recover::<1>(run, data, y, write),
            (_, 2) => avx2::recover::<2>(run, data, y, write),
            (_, 4) => avx2::recover::<4>(run, data, y, write),
            _ => avx2::recover::<8>(run, data, y, write),
        }
    }
    true
}

/// Number of lanes of the best register that divides the width.
fn lanes<T: Scalar>(width: usize) -> Option<usize> {
    let here = Instructions::here();
    if TypeId::of::<T>() != TypeId::of::<f32>() || width == 0 {
        None
    } else if here >= Instructions::Avx512 && width.is_multiple_of(16) {
        Some(16)
    } else if here >= Instructions::Avx2 && width.is_multiple_of(8) {
        Some(8)
    } else {
        None
    }
}

/// Arguments of one call.
#[derive(Clone, Copy)]
struct Run<'a> {
    basis: &'a SpinBasis,
    sheet: &'a Sheet,
    chunk: Chunk,
}

/// Largest number of blades in one strand: 128 columns, two blades per place.
const MAX_BLADES: usize = 256;

impl Run<'_> {
    /// Calls `work` for each strand with the offsets of its entries, the offsets of its blades, and
    /// their signs times `factor`.
    #[inline(always)]
    fn strands(self, factor: f32, mut work: impl FnMut(&[usize], &[usize], &[f32])) {
        let Self { basis, sheet, chunk } = self;
        let blades = basis.columns * sheet.blades;
        let (mut places, mut signs) = ([0; MAX_BLADES], [0.0; MAX_BLADES]);
        let mut entries = [0; MAX_BLADES / 2];
        for (strand, sources) in basis.strands().zip(sheet.sources.chunks_exact(blades)) {
            for ((place, sign), source) in places.iter_mut().zip(&mut signs).zip(sources) {
                *place = chunk.place(source.coordinate);
                *sign = factor * source.sign;
            }
            for (j, entry) in entries[..basis.columns].iter_mut().enumerate() {
                *entry = strand.entry(j) * chunk.width;
            }
            work(&entries[..basis.columns], &places[..blades], &signs[..blades]);
        }
    }
}

macro_rules! kernels {
    ($module:ident, $features:literal, $vector:ident, $lanes:literal,
     [$set:ident, $load:ident, $store:ident, $add:ident, $sub:ident, $mul:ident,
      $fmadd:ident, $fnmadd:ident]) => {
        mod $module {
            use super::*;

            /// The Walsh-Hadamard transform of registers.
            #[inline]
            #[target_feature(enable = $features)]
            fn transform<const R: usize>(v: &mut [$vector; R]) {
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

            /// # Safety
            /// `x` holds the chunk's vectors and `out` a sheet of as many; `R` divides the columns
            /// and the lanes divide the width.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn represent<const R: usize>(
                run: Run<'_>,
                x: &[f32],
                out: &mut [f32],
            ) {
                let (width, columns) = (run.chunk.width, run.basis.columns);
                let blades = run.sheet.blades;
                run.strands(1.0, |entries, places, signs| {
                    for group in (0..width).step_by($lanes) {
                        for quarter in 0..columns / R {
                            let mut v = [$set(0.0); R];
                            // Columns `quarter * R ..` of the transform over `columns` are those
                            // of one over R of signed sums.
                            for part in 0..columns / R {
                                let minus = (quarter & part).count_ones() % 2 == 1;
                                for blade in 0..blades {
                                    let first = part * R * blades + blade;
                                    // SAFETY: every source of the sheet is in the chunk and has a
                                    // sign.
                                    let source = |r: usize| unsafe {
                                        let k = first + r * blades;
                                        let place = *places.get_unchecked(k) + group;
                                        let sign = $set(*signs.get_unchecked(k));
                                        (sign, $load(x.as_ptr().add(place)))
                                    };
                                    if minus {
                                        for (r, v) in v.iter_mut().enumerate() {
                                            let (sign, number) = source(r);
                                            *v = $fnmadd(sign, number, *v);
                                        }
                                    } else {
                                        for (r, v) in v.iter_mut().enumerate() {
                                            let (sign, number) = source(r);
                                            *v = $fmadd(sign, number, *v);
                                        }
                                    }
                                }
                            }
                            transform(&mut v);
                            for (r, v) in v.into_iter().enumerate() {
                                // SAFETY: the entry is one of the sheet's.
                                unsafe {
                                    let entry = *entries.get_unchecked(quarter * R + r) + group;
                                    $store(out.as_mut_ptr().add(entry), v);
                                }
                            }
                        }
                    }
                });
            }

            /// # Safety
            /// As for `represent`.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn recover<const R: usize>(
                run: Run<'_>,
                data: &[f32],
                y: &mut [f32],
                write: Write,
            ) {
                let (width, columns) = (run.chunk.width, run.basis.columns);
                let (blades, add) = (run.sheet.blades, write == Write::Add);
                run.strands(run.basis.weight as f32, |entries, places, signs| {
                    for group in (0..width).step_by($lanes) {
                        for quarter in 0..columns / R {
                            let mut v = [$set(0.0); R];
                            for part in 0..columns / R {
                                let minus = (quarter & part).count_ones() % 2 == 1;
                                // SAFETY: the entry is one of the sheet's.
                                let number = |r: usize| unsafe {
                                    let entry = *entries.get_unchecked(part * R + r) + group;
                                    $load(data.as_ptr().add(entry))
                                };
                                if minus {
                                    for (r, v) in v.iter_mut().enumerate() {
                                        *v = $sub(*v, number(r));
                                    }
                                } else {
                                    for (r, v) in v.iter_mut().enumerate() {
                                        *v = $add(*v, number(r));
                                    }
                                }
                            }
                            transform(&mut v);
                            for (r, v) in v.into_iter().enumerate() {
                                for blade in 0..blades {
                                    let k = (quarter * R + r) * blades + blade;
                                    // SAFETY: every source of the sheet is in the chunk, and has a
                                    // sign.
                                    unsafe {
                                        let to =
                                            y.as_mut_ptr().add(*places.get_unchecked(k) + group);
                                        let sign = $set(*signs.get_unchecked(k));
                                        let number = if add {
                                            $fmadd(sign, v, $load(to))
                                        } else {
                                            $mul(sign, v)
                                        };
                                        $store(to, number);
                                    }
                                }
                            }
                        }
                    }
                });
            }
        }
    };
}

kernels!(
    avx512,
    "avx512f",
    __m512,
    16,
    [
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        _mm512_fnmadd_ps
    ]
);

kernels!(
    avx2,
    "avx2,fma",
    __m256,
    8,
    [
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        _mm256_fnmadd_ps
    ]
);
