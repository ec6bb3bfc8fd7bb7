//! Chains of short Householder reflections applied to many vectors: the back-transformation from
//! the tridiagonal matrix to the band.
//!
//! Two reflections, of which the second begins one row above the first, are fused: with `a = u₁ᵀ x`
//! and `b = u₂ᵀ x - (u₂ᵀ u₁) a`, `x` becomes `x - u₁ a - u₂ b`. That balances multiply-adds with
//! loads.
#![allow(unsafe_code, reason = "registers are filled number by number")]

use super::registers::{Job, Lanes, Pass, dispatch};
use crate::{MatMut, Scalar, parallel};

/// Length of a reflection.
pub(crate) const LENGTH: usize = 32;
/// Registers of vectors worked on at a time, one number each.
const REGISTERS: usize = 4;
/// Number of chains applied together, so that shared rows stay in cache.
const TOGETHER: usize = 16;

/// Two reflections `I - u uᵀ`, of which the second acts one row above the first.
#[derive(Clone, Copy)]
struct Pair<T> {
    /// For each row the entry of the first and of the second.
    numbers: [[T; 2]; LENGTH + 1],
    /// Inner product of both.
    inner: T,
}

/// Reflections `I - u uᵀ` of length [`LENGTH`]: sweep j has them at rows `j + 1 + k LENGTH`.
///
/// Their product, sweep 0 first, transforms vectors of the tridiagonal matrix to those of the band.
pub(crate) struct Sweeps<T> {
    /// For every two sweeps the pairs at all k.
    chains: Vec<Vec<Pair<T>>>,
}

impl<T: Scalar> Sweeps<T> {
    /// From the entries of each sweep, its reflections one after another.
    pub(crate) fn of(sweeps: &[Vec<f64>]) -> Self {
        let chains = parallel::map(sweeps.chunks(2).collect(), |_, both| {
            let none = [0.0; LENGTH];
            let firsts = both.get(1).map_or(&[][..], |later| later.as_chunks::<LENGTH>().0);
            let seconds = both[0].as_chunks::<LENGTH>().0;
            let pair = |(k, second): (usize, &[f64; LENGTH])| {
                let first = firsts.get(k).unwrap_or(&none);
                let mut numbers = [[T::ZERO; 2]; LENGTH + 1];
                for (row, number) in first.iter().enumerate() {
                    numbers[row + 1][0] = T::from_f64(*number);
                }
                for (row, number) in second.iter().enumerate() {
                    numbers[row][1] = T::from_f64(*number);
                }
                let inner = first.iter().zip(&second[1..]).map(|(a, b)| a * b).sum();
                Pair { numbers, inner: T::from_f64(inner) }
            };
            seconds.iter().enumerate().map(pair).collect()
        });
        Self { chains }
    }

    /// Applies all reflections to the rows of a matrix.
    pub(crate) fn apply(&self, vectors: MatMut<'_, T>) {
        dispatch(vectors.rows(), Apply { sweeps: self, vectors });
    }
}

struct Apply<'a, 'v, T> {
    sweeps: &'a Sweeps<T>,
    vectors: MatMut<'v, T>,
}

impl<T: Scalar> Job<T> for Apply<'_, '_, T> {
    type Output = ();

    fn run<V: Lanes<Number = T>>(self) {
        let strips = self.vectors.row_blocks(REGISTERS * V::WIDTH);
        parallel::for_each(strips, |_, mut vectors| {
            // Rows beyond the last are zero and stay zero.
            let zero = [V::splat(T::ZERO); REGISTERS];
            let mut strip = vec![zero; vectors.cols() + LENGTH + 1];
            for lane in 0..vectors.rows() {
                for (row, number) in strip.iter_mut().zip(vectors.row(lane)) {
                    numbers_of(row)[lane] = *number;
                }
            }
            V::run(Strip { sweeps: self.sweeps, rows: &mut strip });
            for lane in 0..vectors.rows() {
                for (row, number) in strip.iter_mut().zip(vectors.row_mut(lane)) {
                    *number = numbers_of(row)[lane];
                }
            }
        });
    }
}

/// The numbers in registers.
fn numbers_of<V: Lanes>(registers: &mut [V; REGISTERS]) -> &mut [V::Number] {
    // SAFETY: lanes are plain memory without padding, every pattern of bits a value.
    unsafe { std::slice::from_raw_parts_mut(registers.as_mut_ptr().cast(), REGISTERS * V::WIDTH) }
}

/// Interleaved vectors: a row has one number of each.
struct Strip<'a, 's, V: Lanes> {
    sweeps: &'a Sweeps<V::Number>,
    rows: &'s mut [[V; REGISTERS]],
}

impl<V: Lanes> Pass<V> for Strip<'_, '_, V> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let chains = &self.sweeps.chains;
        let mut end = chains.len();
        while end > 0 {
            let start = (end - 1) / TOGETHER * TOGETHER;
            // A pair needs the later sweeps at its place and one before; this order ensures it.
            for k in 0..chains[start].len() {
                for index in (start..end).rev() {
                    if let Some(pair) = chains[index].get(k) {
                        let top = 2 * index + 1 + k * LENGTH;
                        let rows = self.rows[top..].first_chunk_mut();
                        reflect(pair, rows.expect("rows beyond the last"));
                    }
                }
            }
            end = start;
        }
    }
}

#[inline(always)]
fn reflect<V: Lanes>(pair: &Pair<V::Number>, rows: &mut [[V; REGISTERS]; LENGTH + 1]) {
    let (mut a, mut b) =
        ([V::splat(V::Number::ZERO); REGISTERS], [V::splat(V::Number::ZERO); REGISTERS]);
    for (row, [first, second]) in rows.iter().zip(&pair.numbers) {
        let (first, second) = (V::splat(*first), V::splat(*second));
        for register in 0..REGISTERS {
            a[register] = row[register].times_plus(first, a[register]);
            b[register] = row[register].times_plus(second, b[register]);
        }
    }
    let inner = V::splat(pair.inner);
    for (a, b) in a.iter().zip(&mut b) {
        *b = a.times_from(inner, *b);
    }
    for (row, [first, second]) in rows.iter_mut().zip(&pair.numbers) {
        let (first, second) = (V::splat(*first), V::splat(*second));
        for register in 0..REGISTERS {
            let once = a[register].times_from(first, row[register]);
            row[register] = b[register].times_from(second, once);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::registers::Plain;
    use crate::{Mat, RngKey};

    /// Random reflections on n rows: what is beyond the last row is zero.
    fn random(n: usize) -> Vec<Vec<f64>> {
        let mut stream = RngKey::new(n as u64).stream();
        let sweep = |j: usize| {
            let places = (j + 1..n).step_by(LENGTH).flat_map(|top| {
                let len = LENGTH.min(n - top);
                let mut u: Vec<f64> = stream.normals(len, 1.0);
                let square: f64 = u.iter().map(|u| u * u).sum();
                // Now and then nothing is reflected.
                let length = if (top + j).is_multiple_of(5) { 0.0 } else { (2.0 / square).sqrt() };
                u.iter_mut().for_each(|u| *u *= length);
                u.resize(LENGTH, 0.0);
                u
            });
            places.collect()
        };
        (0..n.saturating_sub(2)).map(sweep).collect()
    }

    /// One reflection after another, the last sweep first, on vectors that are rows.
    fn one_by_one(sweeps: &[Vec<f64>], vectors: &mut Mat<f64>) {
        for (j, sweep) in sweeps.iter().enumerate().rev() {
            for (k, u) in sweep.chunks(LENGTH).enumerate().rev() {
                for row in 0..vectors.rows() {
                    let x = &mut vectors.row_mut(row)[j + 1 + k * LENGTH..];
                    let along: f64 = u.iter().zip(&*x).map(|(u, x)| u * x).sum();
                    x.iter_mut().zip(u).for_each(|(x, u)| *x -= along * u);
                }
            }
        }
    }

    fn equals_the_plain_way<T: Scalar>(apply: impl Fn(&Sweeps<T>, MatMut<'_, T>), rows: usize) {
        for n in [1, 2, 3, 4, 33, 34, 35, 64, 65, 66, 98, 130, 290] {
            let sweeps = random(n);
            let given = Mat::from_vec(rows, n, RngKey::new(7).stream().normals(rows * n, 1.0));
            let mut expected = given.clone();
            one_by_one(&sweeps, &mut expected);
            let mut found: Mat<T> = given.cast();
            apply(&Sweeps::of(&sweeps), found.view_mut());
            for (found, expected) in found.data().iter().zip(expected.data()) {
                let difference = (found.to_f64() - expected).abs();
                assert!(difference < 100.0 * T::EPSILON.to_f64(), "{n} {rows}: {difference:e}");
            }
        }
    }

    #[test]
    fn pairs_in_strips_are_reflections_one_by_one() {
        for rows in [1, 3, 31, 70] {
            equals_the_plain_way::<f64>(Sweeps::apply, rows);
            equals_the_plain_way::<f32>(Sweeps::apply, rows);
            equals_the_plain_way::<f64>(
                |sweeps, vectors| Apply { sweeps, vectors }.run::<Plain<f64, 4>>(),
                rows,
            );
            equals_the_plain_way::<f32>(
                |sweeps, vectors| Apply { sweeps, vectors }.run::<Plain<f32, 1>>(),
                rows,
            );
        }
    }
}
