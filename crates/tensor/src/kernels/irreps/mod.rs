//! Kernels on 3 x 3 tensors by irreducible parts, channels last: the arithmetic of TensorNet.
//!
//! A tensor X = I·1 + A + S (trace, antisymmetric, symmetric traceless) is stored by nine numbers
//! t, orthonormal for the Frobenius product: `t0 = √3 I`, `t1..3 = √2 a` with the axial vector a of
//! A, and `t4..8 = ((Sxx - Syy)/√2, √(3/2) Szz, √2 Sxy, √2 Sxz, √2 Syz)`. So `|X|² = Σ t²`, and the
//! change of layout is orthogonal: its adjoint is its inverse. An atom has (9, channels) numbers,
//! and a loop runs over channels in registers.
//!
//! Source: Simeon and De Fabritiis 2023, arXiv 2306.06482. Deviation, as in its public code: norms
//! are squared, and a residual is added to the normalised tensor.

#![allow(
    unsafe_code,
    reason = "registers are loaded through pointers; every function asserts its bounds"
)]

mod embedding;
mod filters;
pub mod jets;
mod messages;
mod nodes;
mod parts;

pub use embedding::{EmbeddingEdges, embed, embed_backward, shape_of_direction};
pub use filters::{COEFFICIENTS, SLAB, Stencil, filter_row, hermite, row_len};
pub use messages::{Adjoint, Edges, gather, gather_backward};
pub use nodes::{
    Square, normalise, normalise_backward, product, product_backward, update, update_backward,
};
pub use parts::{scale_parts, scale_parts_backward, squares, squares_backward};

use super::registers::{Job, Lanes, Pass, dispatch_columns};
use crate::Scalar;
use jets::Field;
use std::marker::PhantomData;

/// Numbers of a tensor.
pub const COMPONENTS: usize = 9;
/// Irreducible parts of a tensor.
pub const PARTS: usize = 3;
/// First number of every part, and the end of the last.
pub const STARTS: [usize; PARTS + 1] = [0, 1, 4, 9];
/// The part of every number.
pub const PART_OF: [usize; COMPONENTS] = [0, 1, 1, 1, 2, 2, 2, 2, 2];

/// A loop over channels in registers, as one pass.
trait ChannelLoop: Sized {
    /// Runs the loop.
    fn run<V: Lanes<Number = f32>>(self);
}

/// A loop in registers of one kind.
struct InRegisters<L, V>(L, PhantomData<V>);

impl<L: ChannelLoop, V: Lanes<Number = f32>> Pass<V> for InRegisters<L, V> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.0.run::<V>();
    }
}

/// A loop whose registers are not chosen yet.
struct Unplaced<L>(L);

impl<L: ChannelLoop> Job<f32> for Unplaced<L> {
    type Output = ();
    fn run<V: Lanes<Number = f32>>(self) {
        V::run(InRegisters(self.0, PhantomData::<V>));
    }
}

/// Runs a loop in the best registers of this machine whose lanes divide the channels.
fn over_channels(channels: usize, channel_loop: impl ChannelLoop) {
    dispatch_columns(channels, Unplaced(channel_loop));
}

/// `x by`. A loop, as all arithmetic here: closures that the library's `map` calls are compiled for
/// the common instructions, and called.
#[inline(always)]
fn scaled<F: Field, const N: usize>(mut x: [F; N], by: F) -> [F; N] {
    for x in &mut x {
        *x = x.times(by);
    }
    x
}

/// Registers that each hold one number in all lanes.
#[inline(always)]
fn splat<V: Lanes, const N: usize>(numbers: [V::Number; N]) -> [V; N] {
    let mut registers = [V::splat(V::Number::ZERO); N];
    for (register, number) in registers.iter_mut().zip(&numbers) {
        *register = V::splat(*number);
    }
    registers
}

/// A 3 x 3 tensor in each lane.
type Tensor<V> = [[V; 3]; 3];

/// Nine registers that are `channels` numbers apart.
///
/// # Safety
/// The ninth can be read.
#[inline(always)]
unsafe fn load<V: Lanes>(from: *const V::Number, channels: usize) -> [V; COMPONENTS] {
    let mut t = [V::splat(V::Number::ZERO); COMPONENTS];
    for (c, t) in t.iter_mut().enumerate() {
        // SAFETY: the caller's contract.
        *t = unsafe { V::load(from.add(c * channels)) };
    }
    t
}

/// The reverse of [`load`].
///
/// # Safety
/// The ninth can be written.
#[inline(always)]
unsafe fn store<V: Lanes>(t: [V; COMPONENTS], to: *mut V::Number, channels: usize) {
    for (c, t) in t.into_iter().enumerate() {
        // SAFETY: the caller's contract.
        unsafe { t.store(to.add(c * channels)) };
    }
}

/// `Σ a b` over the numbers of a tensor.
#[inline(always)]
fn inner<F: Field>(a: [F; COMPONENTS], b: [F; COMPONENTS]) -> F {
    let mut sum = a[0].times(b[0]);
    for c in 1..COMPONENTS {
        sum = a[c].times_plus(b[c], sum);
    }
    sum
}

/// The matrix of irreducible parts.
#[inline(always)]
fn compose<F: Field>(t: [F; COMPONENTS]) -> Tensor<F> {
    let half = F::constant(0.5_f64.sqrt());
    let trace = t[0].times(F::constant(3.0_f64.sqrt().recip()));
    let zz = t[5].times(F::constant((2.0_f64 / 3.0).sqrt()));
    let middle = t[5].times_from(F::constant(6.0_f64.sqrt().recip()), trace);
    // Closures may stay calls, which leave the registers.
    let (a1, a2, a3) = (t[1].times(half), t[2].times(half), t[3].times(half));
    let (xy, xz, yz) = (t[6].times(half), t[7].times(half), t[8].times(half));
    [
        [t[4].times_plus(half, middle), xy.minus(a3), xz.plus(a2)],
        [xy.plus(a3), t[4].times_from(half, middle), yz.minus(a1)],
        [xz.minus(a2), yz.plus(a1), trace.plus(zz)],
    ]
}

/// The irreducible parts of a matrix: the adjoint of [`compose`].
#[inline(always)]
fn decompose<F: Field>(x: Tensor<F>) -> [F; COMPONENTS] {
    let half = F::constant(0.5_f64.sqrt());
    let both = x[0][0].plus(x[1][1]);
    let trace = both.plus(x[2][2]).times(F::constant(3.0_f64.sqrt().recip()));
    let zz = x[2][2].times(F::constant((2.0_f64 / 3.0).sqrt()));
    [
        trace,
        x[2][1].minus(x[1][2]).times(half),
        x[0][2].minus(x[2][0]).times(half),
        x[1][0].minus(x[0][1]).times(half),
        x[0][0].minus(x[1][1]).times(half),
        both.times_from(F::constant(6.0_f64.sqrt().recip()), zz),
        x[0][1].plus(x[1][0]).times(half),
        x[0][2].plus(x[2][0]).times(half),
        x[1][2].plus(x[2][1]).times(half),
    ]
}

/// `a b + sum`; of a transposed factor with the constants.
#[inline(always)]
fn add_product<F: Field, const LEFT: bool, const RIGHT: bool>(
    a: &Tensor<F>,
    b: &Tensor<F>,
    sum: &mut Tensor<F>,
) {
    for i in 0..3 {
        for j in 0..3 {
            for k in 0..3 {
                let left = if LEFT { a[k][i] } else { a[i][k] };
                let right = if RIGHT { b[j][k] } else { b[k][j] };
                sum[i][j] = left.times_plus(right, sum[i][j]);
            }
        }
    }
}

#[inline(always)]
fn zero<F: Field>() -> Tensor<F> {
    [[F::constant(0.0); 3]; 3]
}

#[cfg(test)]
mod tests;
