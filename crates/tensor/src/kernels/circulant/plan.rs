//! Radices, twiddle factors and the order of frequencies of a transform.

use crate::Scalar;
use std::f64::consts::TAU;

/// Odd radices that have a butterfly.
pub(super) const ODD: [usize; 3] = [3, 5, 7];
/// Complex registers that are transformed in one piece: half of a first-level cache of 32 KiB.
const BLOCK: usize = 128;

/// One step of a transform: butterflies of `radix` numbers that stand `stride` apart.
#[derive(Clone, Debug)]
pub(super) struct Level<T> {
    pub(super) radix: usize,
    pub(super) stride: usize,
    /// `exp(-2 π i p k / (radix · stride))` for p in 0..stride and k in 1..radix.
    pub(super) twiddles: Vec<[T; 2]>,
    /// `cos` and `sin` of `2 π k / radix`, for odd radices.
    pub(super) roots: Vec<[T; 2]>,
}

/// A complex transform of one length, in place, whose frequencies come out in the order that
/// needs no exchange.
#[derive(Clone, Debug)]
pub(super) struct FftPlan<T> {
    len: usize,
    levels: Vec<Level<T>>,
    head: usize,
    order: Vec<u32>,
}

/// Real and imaginary part of `exp(-2 π i k / n)`. The angle is brought into a quarter by whole
/// numbers, so that it is as exact for large k as for small.
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

/// Whether a transform of this length has butterflies for all its factors.
pub(super) fn is_smooth(len: usize) -> bool {
    let mut rest = len >> len.trailing_zeros();
    for radix in ODD {
        while rest.is_multiple_of(radix) {
            rest /= radix;
        }
    }
    rest == 1
}

/// Odd factors first, so that the last radix, of which nothing is stored between transforms, is
/// large; few levels rather than many.
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
    /// A transform of `len` numbers, `len` of small factors.
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

    /// Numbers that are transformed.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The frequency that stands at each place of a transform.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Levels done over all numbers, and those done block by block.
    pub(super) fn parts(&self) -> [&[Level<T>]; 2] {
        let (head, rest) = self.levels.split_at(self.head);
        [head, rest]
    }

    /// Numbers of a block.
    pub(super) fn block(&self) -> usize {
        self.levels.get(self.head).map_or(1, |level| level.radix * level.stride)
    }

    /// Real operations of a transform there, a product with a spectrum and the way back, a
    /// multiply-add counting as one; for a complex number in each place.
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
