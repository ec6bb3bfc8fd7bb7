//! Plan of a transform: radices, twiddle factors and order of frequencies.

use crate::Scalar;
use std::f64::consts::TAU;

/// Supported odd radices.
pub(super) const ODD: [usize; 3] = [3, 5, 7];
/// Complex registers per block: half of a first-level cache of 32 KiB.
const BLOCK: usize = 128;

/// One level of a transform: butterflies of `radix` numbers that are `stride` apart.
#[derive(Clone, Debug)]
pub(super) struct Level<T> {
    pub(super) radix: usize,
    pub(super) stride: usize,
    /// `exp(-2 π i p k / (radix · stride))` for p in 0..stride and k in 1..radix.
    pub(super) twiddles: Vec<[T; 2]>,
    /// `cos` and `sin` of `2 π k / radix`, for odd radices.
    pub(super) roots: Vec<[T; 2]>,
}

/// Plan of an in-place complex transform of one length, whose frequencies stay in output order
/// without a permutation.
#[derive(Clone, Debug)]
pub(super) struct FftPlan<T> {
    len: usize,
    levels: Vec<Level<T>>,
    head: usize,
    order: Vec<u32>,
}

/// Real and imaginary part of `exp(-2 π i k / n)`. The angle is reduced to a quarter in integers,
/// so that it is equally exact for all k.
pub(super) fn root(k: usize, n: usize) -> [f64; 2] {
    let quarters = 4 * (k % n) / n;
    let (sin, cos) = (TAU * (4 * (k % n) - quarters * n) as f64 / (4 * n) as f64).sin_cos();
    match quarters {
        0 => [cos, -sin],
        1 => [-sin, -cos],
        2 => [-cos, sin],
        _ => [sin, cos],
    }
}

/// Whether all prime factors of the length have butterflies.
pub(super) fn is_smooth(len: usize) -> bool {
    let mut rest = len >> len.trailing_zeros();
    for radix in ODD {
        while rest.is_multiple_of(radix) {
            rest /= radix;
        }
    }
    rest == 1
}

/// Odd factors first, so that the last radix, which is fused between the transforms, is large; few
/// levels rather than many.
fn radices(len: usize) -> Vec<usize> {
    let mut twos = len.trailing_zeros();
    let mut rest = len >> twos;
    let mut radices = Vec::new();
    for radix in ODD {
        while rest.is_multiple_of(radix) {
            rest /= radix;
            radices.push(radix);
        }
    }
    assert_eq!(rest, 1, "a length of small factors, not {len}");
    while !twos.is_multiple_of(3) {
        let step = if twos == 1 { 1 } else { 2 };
        radices.push(1 << step);
        twos -= step;
    }
    radices.extend((0..twos / 3).map(|_| 8));
    radices
}

impl<T: Scalar> FftPlan<T> {
    /// A transform of length `len`, which must have small factors.
    pub(super) fn new(len: usize) -> Self {
        let cast = |[re, im]: [f64; 2]| [T::from_f64(re), T::from_f64(im)];
        let mut levels = Vec::new();
        let mut size = len;
        for radix in radices(len) {
            let stride = size / radix;
            let twiddle = |at: usize| cast(root((at / (radix - 1)) * (at % (radix - 1) + 1), size));
            let twiddles = (0..stride * (radix - 1)).map(twiddle).collect();
            let cosine = |k: usize| {
                let [re, im] = root(k, radix);
                cast([re, -im])
            };
            let roots = if radix % 2 == 1 { (0..radix).map(cosine).collect() } else { Vec::new() };
            levels.push(Level { radix, stride, twiddles, roots });
            size = stride;
        }
        let mut order = vec![0_u32];
        for level in levels.iter().rev() {
            let radix = level.radix;
            let block = |k: usize| {
                let frequency = move |&inner: &u32| radix as u32 * inner + k as u32;
                order.iter().map(frequency).collect::<Vec<_>>()
            };
            order = (0..radix).flat_map(block).collect();
        }
        let inner = levels.len().saturating_sub(1);
        let large = |level: &Level<T>| level.radix * level.stride > BLOCK;
        let head = levels[..inner].iter().take_while(|level| large(level)).count();
        Self { len, levels, head, order }
    }

    /// Length of the transform.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Frequency at each index of a spectrum.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Levels over all numbers, and levels within blocks.
    pub(super) fn parts(&self) -> [&[Level<T>]; 2] {
        let (head, rest) = self.levels.split_at(self.head);
        [head, rest]
    }

    /// Length of a block.
    pub(super) fn block(&self) -> usize {
        self.levels.get(self.head).map_or(1, |level| level.radix * level.stride)
    }

    /// Real operations per index of a forward transform, a product with a spectrum and an inverse
    /// transform, a multiply-add counting as one.
    pub(super) fn operations(&self) -> u64 {
        let butterfly = |radix: usize| match radix {
            2 => 4,
            4 => 16,
            8 => 52,
            odd => (odd - 1) * (odd - 1) + 5 * (odd - 1),
        };
        let levels = self.levels.iter().map(|level| {
            let twiddles = if level.stride > 1 { 4 * (level.radix - 1) } else { 0 };
            self.len / level.radix * (butterfly(level.radix) + twiddles)
        });
        (2 * levels.sum::<usize>() + 4 * self.len) as u64
    }
}
