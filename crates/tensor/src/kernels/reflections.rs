//! Chains of short reflections, applied to many vectors at once: what leads from a band to a
//! tridiagonal matrix, on the way back.
//!
//! Two reflections, of which the second begins one row above the first, are applied in one go: with
//! `a = u₁ᵀ x` and `b = u₂ᵀ x - (u₂ᵀ u₁) a`, `x` becomes `x - u₁ a - u₂ b`. That is as many
//! multiply-adds for each number loaded as a machine can do meanwhile.
#![allow(unsafe_code, reason = "registers are filled number by number")]

use super::registers::{Job, Lanes, Pass, dispatch};
use crate::{MatMut, Scalar, parallel};

/// Numbers of a reflection.
pub(crate) const LENGTH: usize = 32;
/// Registers that hold one number each of the vectors worked on at a time.
const REGISTERS: usize = 4;
/// Chains applied together, so that the rows they share stay near.
const TOGETHER: usize = 16;

/// Two reflections `I - u uᵀ` of which the second acts one row above the first.
#[derive(Clone, Copy)]
struct Pair<T> {
    /// For each row the number of the first, and of the second.
    numbers: [[T; 2]; LENGTH + 1],
    /// Inner product of both.
    inner: T,
}

/// Reflections `I - u uᵀ` of [`LENGTH`] numbers: sweep j has them at rows `j + 1 + k LENGTH`.
///
/// Their product, those of sweep 0 first, is what takes vectors of the tridiagonal matrix to those of
/// the band.
pub(crate) struct Sweeps<T> {
    /// For every two sweeps the pairs at all k.
    chains: Vec<Vec<Pair<T>>>,
}

impl<T: Scalar> Sweeps<T> {
    /// From the numbers of each sweep, its reflections one after another.
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

    /// Applies all to vectors that are rows.
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
            // Rows beyond the last are zero, and stay it.
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

/// Vectors side by side: a row has one number of each.
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
            // A pair needs what the later sweeps do at its place and one before: in this order it is done.
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
    let mut along = [[V::splat(V::Number::ZERO); REGISTERS]; 2];
    for (row, [first, second]) in rows.iter().zip(&pair.numbers) {
        let (first, second) = (V::splat(*first), V::splat(*second));
        for register in 0..REGISTERS {
            along[0][register] = row[register].times_plus(first, along[0][register]);
            along[1][register] = row[register].times_plus(second, along[1][register]);
        }
    }
    let inner = V::splat(pair.inner);
    for register in 0..REGISTERS {
        along[1][register] = along[0][register].times_from(inner, along[1][register]);
    }
    for (row, [first, second]) in rows.iter_mut().zip(&pair.numbers) {
        let (first, second) = (V::splat(*first), V::splat(*second));
        for register in 0..REGISTERS {
            let once = along[0][register].times_from(first, row[register]);
            row[register] = along[1][register].times_from(second, once);
        }
    }
}
