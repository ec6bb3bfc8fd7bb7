//! Branches with a leaky nonlinearity in registers of AVX-512 and AVX2: left to the compiler, the
//! comparison inside keeps the loop out of vector registers.
#![allow(
    unsafe_code,
    reason = "vector loads and stores take raw pointers; every function states its bounds"
)]

use super::{Branch, BranchSums, Group, LANES};
use crate::Scalar;
use crate::kernels::gemm::Write;
use crate::kernels::instructions::Instructions;
use std::any::TypeId;
use std::arch::x86_64::{
    __m256, __m512, _CMP_LE_OQ, _mm256_add_ps, _mm256_blendv_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_mul_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm256_sub_ps, _mm512_add_ps,
    _mm512_cmp_ps_mask, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_blend_ps, _mm512_mul_ps,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps, _mm512_sub_ps,
};

/// Columns of one group of samples, one after the other.
type Columns<'a> = &'a [[f32; LANES]];
type ColumnsMut<'a> = &'a mut [[f32; LANES]];

/// [`Branch::forward`] of one group; returns false if the numbers or this machine are not
/// supported.
pub(super) fn forward<T: Scalar>(
    branch: Branch<'_, T>,
    group: Group<'_, T>,
    y: &mut [[T; LANES]],
    write: Write,
    slope: T,
) -> bool {
    let Some(here) = machine::<T>() else {
        return false;
    };
    let run = Run::new(branch, &group, slope);
    let (x, y) = (same(group.x), same_mut(y));
    let moments = [bytemuck::cast_slice(&group.mean), bytemuck::cast_slice(&group.scale)];
    // SAFETY: this machine has the instructions; `Branch::check` has found the lengths right and
    // the order within them.
    unsafe {
        match here {
            Instructions::Avx512 => avx512::forward(run, x, moments, y, write),
            Instructions::Avx2 | Instructions::Common => avx2::forward(run, x, moments, y, write),
        }
    }
    true
}

/// [`super::backward_group`] of a leaky nonlinearity; returns false if the numbers or this machine
/// are not supported.
pub(super) fn backward<T: Scalar>(
    branch: Branch<'_, T>,
    group: Group<'_, T>,
    dy: &[[T; LANES]],
    dx: &mut [[T; LANES]],
    slope: T,
) -> Option<BranchSums> {
    let here = machine::<T>()?;
    let run = Run::new(branch, &group, slope);
    let (x, dy, dx) = (same(group.x), same(dy), same_mut(dx));
    let moments = [bytemuck::cast_slice(&group.mean), bytemuck::cast_slice(&group.scale)];
    // SAFETY: as in `forward`.
    Some(unsafe {
        match here {
            Instructions::Avx512 => avx512::backward(run, x, moments, dy, dx),
            Instructions::Avx2 | Instructions::Common => avx2::backward(run, x, moments, dy, dx),
        }
    })
}

fn machine<T: Scalar>() -> Option<Instructions> {
    let here = Instructions::here();
    let single = TypeId::of::<T>() == TypeId::of::<f32>();
    (single && here > Instructions::Common).then_some(here)
}

fn same<T: Scalar>(columns: &[[T; LANES]]) -> Columns<'_> {
    bytemuck::cast_slice::<T, f32>(columns.as_flattened()).as_chunks().0
}

fn same_mut<T: Scalar>(columns: &mut [[T; LANES]]) -> ColumnsMut<'_> {
    bytemuck::cast_slice_mut::<T, f32>(columns.as_flattened_mut()).as_chunks_mut().0
}

/// Arguments of one call.
#[derive(Clone, Copy)]
struct Run<'a> {
    order: Option<&'a [u32]>,
    normalized: bool,
    weight: f32,
    slope: f32,
    first: usize,
    step: usize,
}

impl<'a> Run<'a> {
    fn new<T: Scalar>(branch: Branch<'a, T>, group: &Group<'_, T>, slope: T) -> Self {
        let single = |v: T| v.to_f64() as f32;
        let Branch { order, epsilon, weight, .. } = branch;
        let Group { first, step, .. } = *group;
        let (weight, slope) = (single(weight), single(slope));
        Self { order, normalized: epsilon.is_some(), weight, slope, first, step }
    }

    /// Position of the source of column `k`.
    #[inline(always)]
    fn source(self, k: usize) -> usize {
        self.order.map_or(k, |order| order[k] as usize) * self.step + self.first
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn choose_avx512(v: __m512, above: __m512, below: __m512) -> __m512 {
    let mask = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(v, _mm512_setzero_ps());
    _mm512_mask_blend_ps(mask, above, below)
}

#[target_feature(enable = "avx2")]
#[inline]
fn choose_avx2(v: __m256, above: __m256, below: __m256) -> __m256 {
    // The sign decides: this only differs at minus zero, where it only selects the slope at the
    // kink.
    _mm256_blendv_ps(above, below, v)
}

macro_rules! kernels {
    ($module:ident, $features:literal, $vector:ident, $lanes:literal, $choose:ident,
     [$set:ident, $load:ident, $store:ident, $add:ident, $sub:ident, $mul:ident, $fmadd:ident]) => {
        mod $module {
            use super::*;

            const REGISTERS: usize = LANES / $lanes;

            /// # Safety
            /// The columns hold [`LANES`] numbers each.
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn registers(column: &[f32]) -> [$vector; REGISTERS] {
                // SAFETY: as many numbers as the registers have.
                std::array::from_fn(|r| unsafe { $load(column.as_ptr().add(r * $lanes)) })
            }

            /// # Safety
            /// `y` and `x` have equal lengths, and sources are within it.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn forward(
                run: Run<'_>,
                x: Columns<'_>,
                moments: [&[f32]; 2],
                y: ColumnsMut<'_>,
                write: Write,
            ) {
                // SAFETY: moments have [`LANES`] numbers each.
                let [mean, scale] = moments.map(|moment| unsafe { registers(moment) });
                let (weight, slope) = ($set(run.weight), $set(run.weight * run.slope));
                let add = write == Write::Add;
                for (k, y) in y.iter_mut().skip(run.first).step_by(run.step).enumerate() {
                    // SAFETY: the caller's contract.
                    let x = unsafe { registers(x.get_unchecked(run.source(k))) };
                    for r in 0..REGISTERS {
                        let v = $mul($sub(x[r], mean[r]), scale[r]);
                        let factor = $choose(v, weight, slope);
                        // SAFETY: the column holds the register.
                        unsafe {
                            let to = y.as_mut_ptr().add(r * $lanes);
                            let sum =
                                if add { $fmadd(factor, v, $load(to)) } else { $mul(factor, v) };
                            $store(to, sum);
                        }
                    }
                }
            }

            /// # Safety
            /// All columns have equal lengths, and sources are within it.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn backward(
                run: Run<'_>,
                x: Columns<'_>,
                moments: [&[f32]; 2],
                dy: Columns<'_>,
                dx: ColumnsMut<'_>,
            ) -> BranchSums {
                // SAFETY: moments have [`LANES`] numbers each.
                let [mean, scale] = moments.map(|moment| unsafe { registers(moment) });
                let (one, slope) = ($set(1.0), $set(run.slope));
                let (weight, zero) = ($set(run.weight), $set(0.0));
                let mut by_value = [zero; REGISTERS];
                let mut below = [zero; REGISTERS];
                let mut total = [zero; REGISTERS];
                let mut along = [zero; REGISTERS];
                for (k, at) in (run.first..x.len()).step_by(run.step).enumerate() {
                    let from = run.source(k);
                    // SAFETY: the caller's contract.
                    let (x, dy) = unsafe { (registers(&x[at]), registers(dy.get_unchecked(from))) };
                    for r in 0..REGISTERS {
                        let v = $mul($sub(x[r], mean[r]), scale[r]);
                        let factor = $choose(v, one, slope);
                        let d = $mul($mul(weight, dy[r]), factor);
                        by_value[r] = $fmadd(dy[r], $mul(factor, v), by_value[r]);
                        below[r] = $fmadd(dy[r], $choose(v, zero, v), below[r]);
                        total[r] = $add(total[r], d);
                        along[r] = $fmadd(d, v, along[r]);
                        // SAFETY: as above.
                        unsafe {
                            $store(dx.get_unchecked_mut(at).as_mut_ptr().add(r * $lanes), d);
                        }
                    }
                }
                if run.normalized {
                    let count = $set(1.0 / (x.len() / run.step).max(1) as f32);
                    let [total, along] = [total, along].map(|sums| sums.map(|s| $mul(s, count)));
                    for at in (run.first..x.len()).step_by(run.step) {
                        let (d, x) = (&mut dx[at], &x[at]);
                        // SAFETY: columns have [`LANES`] numbers each.
                        unsafe {
                            let (x, before) = (registers(x), registers(d));
                            for r in 0..REGISTERS {
                                let v = $mul($sub(x[r], mean[r]), scale[r]);
                                let off = $sub($sub(before[r], total[r]), $mul(v, along[r]));
                                $store(d.as_mut_ptr().add(r * $lanes), $mul(scale[r], off));
                            }
                        }
                    }
                }
                let sum = |registers: [$vector; REGISTERS]| {
                    let mut lanes = [0.0f32; LANES];
                    for (r, register) in registers.into_iter().enumerate() {
                        // SAFETY: as many lanes as the registers have.
                        unsafe { $store(lanes.as_mut_ptr().add(r * $lanes), register) };
                    }
                    lanes.into_iter().map(f64::from).sum::<f64>()
                };
                BranchSums { weight: sum(by_value), slope: f64::from(run.weight) * sum(below) }
            }
        }
    };
}

kernels!(
    avx512,
    "avx512f",
    __m512,
    16,
    choose_avx512,
    [
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps
    ]
);

kernels!(
    avx2,
    "avx2,fma",
    __m256,
    8,
    choose_avx2,
    [
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps
    ]
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RngKey;
    use crate::kernels::activation::Activation;

    #[test]
    fn every_instruction_set_equals_double_precision() {
        let (features, step) = (21, 2);
        let order = RngKey::new(1).stream().permutation(features);
        let back = super::super::inverse(&order);
        let activation = Activation::Leaky { slope: 0.25 };
        let mut stream = RngKey::new(2).stream();
        let mut draw = || -> Vec<f32> { stream.normals(features * step * LANES, 1.0) };
        let (x, dy) = (draw(), draw());
        let wide = |v: &[f32]| -> Vec<f64> { v.iter().map(|&v| v.into()).collect() };
        let in_double =
            Branch { order: Some(&order), epsilon: Some(1e-5), activation, weight: 0.7 };
        let mut moments = vec![0.0; 2 * step * LANES];
        let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        in_double.forward(&wide(&x), &mut moments, &mut y, Write::Set);
        let sums = in_double.backward(&wide(&x), &moments, &wide(&dy), &mut dx);
        for here in [Instructions::Avx2, Instructions::Avx512] {
            if Instructions::here() < here {
                continue;
            }
            let mut found = BranchSums::default();
            let (mut y_found, mut dx_found) = (vec![0.0f32; x.len()], vec![0.0f32; x.len()]);
            for first in 0..step {
                let (order, weight, slope) = (Some(&order[..]), 0.7, 0.25);
                let run = Run { order, normalized: true, weight, slope, first, step };
                let run_back = Run { order: Some(&back), ..run };
                let moment = |half: usize| -> Vec<f32> {
                    let from = &moments[(half * step + first) * LANES..][..LANES];
                    from.iter().map(|&v| v as f32).collect()
                };
                let [mean, scale] = [moment(0), moment(1)];
                let moments = [&mean[..], &scale[..]];
                let (columns, y) = (same(x.as_chunks().0), same_mut(y_found.as_chunks_mut().0));
                let (dy, dx) = (same(dy.as_chunks().0), same_mut(dx_found.as_chunks_mut().0));
                // SAFETY: this machine has the instructions; all lengths are equal.
                let of_group = unsafe {
                    if here == Instructions::Avx512 {
                        avx512::forward(run, columns, moments, y, Write::Set);
                        avx512::backward(run_back, columns, moments, dy, dx)
                    } else {
                        avx2::forward(run, columns, moments, y, Write::Set);
                        avx2::backward(run_back, columns, moments, dy, dx)
                    }
                };
                found.weight += of_group.weight;
                found.slope += of_group.slope;
            }
            assert!((found.weight - sums.weight).abs() < 1e-4, "{found:?} is not {sums:?}");
            assert!((found.slope - sums.slope).abs() < 1e-4, "{found:?} is not {sums:?}");
            for (found, expected) in y_found.iter().chain(&dx_found).zip(y.iter().chain(&dx)) {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} is not {expected}");
            }
        }
    }
}
