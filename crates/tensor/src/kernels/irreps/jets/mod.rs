//! The same arithmetic for numbers with derivatives along one direction, for gradients of forces.
//!
//! Values and tangents are separate arrays, so products with weights are still matrix products. The
//! nine numbers of a tensor are far apart: the array of all atoms for the first number, then that
//! for the second (9, atoms, channels), so that each irreducible part is one matrix. Without
//! tangents the same code computes values alone.

mod edges;
mod filters;
mod nodes;
mod parts;
mod silu;
#[cfg(test)]
mod tests;

pub use edges::{
    EmbeddingGradients, EmbeddingJets, JetEdges, embed, embed_distances, embed_gradients, gather,
};
pub use filters::{distance_gradients, filter_gradients};
pub use nodes::{
    JetSquare, normalise, normalise_backward, product, product_backward, update, update_backward,
};
pub use parts::{
    norms, norms_backward, scale_parts, scale_parts_backward, squares, squares_backward,
};
pub use silu::{curve, curve_backward, silu, silu_backward};

use super::{COMPONENTS, PARTS};
use crate::Scalar;
use crate::kernels::registers::{Job, Lanes, Pass, dispatch_columns};
use std::marker::PhantomData;

/// Values with their derivatives along one direction, in arrays of one layout.
#[derive(Clone, Copy, Debug)]
pub struct Jets<'a, T> {
    /// The values.
    pub value: &'a [T],
    /// The derivatives; empty without.
    pub tangent: &'a [T],
}

/// [`Jets`] to write to.
#[derive(Debug)]
pub struct JetsMut<'a, T> {
    /// The values.
    pub value: &'a mut [T],
    /// The derivatives; empty without.
    pub tangent: &'a mut [T],
}

impl<'a, T: Scalar> Jets<'a, T> {
    /// Numbers of values and of tangents.
    fn lens(&self) -> [usize; 2] {
        [self.value.len(), self.tangent.len()]
    }

    /// The same numbers, whose type is known by another name.
    fn of_scalar<U: Scalar>(self) -> Jets<'a, U> {
        let Self { value, tangent } = self;
        Jets { value: bytemuck::cast_slice(value), tangent: bytemuck::cast_slice(tangent) }
    }
}

impl<'a, T: Scalar> JetsMut<'a, T> {
    fn of_scalar<U: Scalar>(self) -> JetsMut<'a, U> {
        let Self { value, tangent } = self;
        JetsMut {
            value: bytemuck::cast_slice_mut(value),
            tangent: bytemuck::cast_slice_mut(tangent),
        }
    }

    /// The same to read from.
    #[must_use]
    pub fn as_ref(&self) -> Jets<'_, T> {
        Jets { value: self.value, tangent: self.tangent }
    }

    fn lens(&self) -> [usize; 2] {
        self.as_ref().lens()
    }
}

/// Arithmetic of registers, with or without tangents.
pub trait Field: Copy {
    /// Type of the numbers.
    type Number: Scalar;
    /// A register of values or of tangents.
    type Register: Lanes<Number = Self::Number>;
    /// Whether there are tangents.
    const TANGENTS: bool;

    /// A constant in all lanes.
    #[inline(always)]
    fn constant(value: f64) -> Self {
        Self::of(Self::Register::splat(Self::Number::from_f64(value)))
    }
    /// Constants.
    fn of(value: Self::Register) -> Self;
    /// Values with tangents, which are dropped if there are none.
    fn with(value: Self::Register, tangent: Self::Register) -> Self;
    /// The tangents, zero if there are none.
    fn tangent(self) -> Self::Register;
    /// `self + other`.
    fn plus(self, other: Self) -> Self;
    /// `self - other`.
    fn minus(self, other: Self) -> Self;
    /// `self · other`.
    fn times(self, other: Self) -> Self;
    /// `self · factor + other`.
    fn times_plus(self, factor: Self, other: Self) -> Self;
    /// `other - self · factor`.
    fn times_from(self, factor: Self, other: Self) -> Self;
    /// `1 / self`.
    fn inverse(self) -> Self;
    /// Reads a register from place `at` on.
    ///
    /// # Safety
    /// Both arrays reach that far.
    unsafe fn read(from: &Jets<'_, Self::Number>, at: usize) -> Self;
    /// The reverse of [`Self::read`].
    ///
    /// # Safety
    /// Both arrays reach that far.
    unsafe fn write(self, to: &mut JetsMut<'_, Self::Number>, at: usize);
}

impl<V: Lanes> Field for V {
    type Number = V::Number;
    type Register = V;
    const TANGENTS: bool = false;

    #[inline(always)]
    fn of(value: V) -> Self {
        value
    }
    #[inline(always)]
    fn with(value: V, _: V) -> Self {
        value
    }
    #[inline(always)]
    fn tangent(self) -> V {
        V::splat(V::Number::ZERO)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Lanes::plus(self, other)
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Lanes::minus(self, other)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Lanes::times(self, other)
    }
    #[inline(always)]
    fn times_plus(self, factor: Self, other: Self) -> Self {
        Lanes::times_plus(self, factor, other)
    }
    #[inline(always)]
    fn times_from(self, factor: Self, other: Self) -> Self {
        Lanes::times_from(self, factor, other)
    }
    #[inline(always)]
    fn inverse(self) -> Self {
        V::splat(V::Number::ONE).over(self)
    }
    #[inline(always)]
    unsafe fn read(from: &Jets<'_, V::Number>, at: usize) -> Self {
        // SAFETY: the caller's contract.
        unsafe { V::load(from.value.as_ptr().add(at)) }
    }
    #[inline(always)]
    unsafe fn write(self, to: &mut JetsMut<'_, V::Number>, at: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.store(to.value.as_mut_ptr().add(at)) }
    }
}

/// Registers of values and of tangents.
#[derive(Clone, Copy)]
pub(super) struct Jet<V> {
    value: V,
    tangent: V,
}

impl<V: Lanes> Field for Jet<V> {
    type Number = V::Number;
    type Register = V;
    const TANGENTS: bool = true;

    #[inline(always)]
    fn of(value: V) -> Self {
        Self { value, tangent: V::splat(V::Number::ZERO) }
    }
    #[inline(always)]
    fn with(value: V, tangent: V) -> Self {
        Self { value, tangent }
    }
    #[inline(always)]
    fn tangent(self) -> V {
        self.tangent
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let (value, tangent) = (&self.value, &self.tangent);
        Self {
            value: Lanes::plus(*value, other.value),
            tangent: Lanes::plus(*tangent, other.tangent),
        }
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        let (value, tangent) = (&self.value, &self.tangent);
        Self {
            value: Lanes::minus(*value, other.value),
            tangent: Lanes::minus(*tangent, other.tangent),
        }
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let across = Lanes::times(self.tangent, other.value);
        Self {
            value: Lanes::times(self.value, other.value),
            tangent: Lanes::times_plus(self.value, other.tangent, across),
        }
    }
    #[inline(always)]
    fn times_plus(self, factor: Self, other: Self) -> Self {
        let across = Lanes::times_plus(self.tangent, factor.value, other.tangent);
        Self {
            value: Lanes::times_plus(self.value, factor.value, other.value),
            tangent: Lanes::times_plus(self.value, factor.tangent, across),
        }
    }
    #[inline(always)]
    fn times_from(self, factor: Self, other: Self) -> Self {
        let across = Lanes::times_from(self.tangent, factor.value, other.tangent);
        Self {
            value: Lanes::times_from(self.value, factor.value, other.value),
            tangent: Lanes::times_from(self.value, factor.tangent, across),
        }
    }
    #[inline(always)]
    fn inverse(self) -> Self {
        let value = V::splat(V::Number::ONE).over(self.value);
        let slope = Lanes::times(value, value);
        let zero = V::splat(V::Number::ZERO);
        Self { value, tangent: Lanes::times_from(slope, self.tangent, zero) }
    }
    #[inline(always)]
    unsafe fn read(from: &Jets<'_, V::Number>, at: usize) -> Self {
        // SAFETY: the caller's contract.
        unsafe {
            let value = V::load(from.value.as_ptr().add(at));
            Self { value, tangent: V::load(from.tangent.as_ptr().add(at)) }
        }
    }
    #[inline(always)]
    unsafe fn write(self, to: &mut JetsMut<'_, V::Number>, at: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            self.value.store(to.value.as_mut_ptr().add(at));
            self.tangent.store(to.tangent.as_mut_ptr().add(at));
        }
    }
}

/// Where the numbers of one register of channels of one atom lie.
#[derive(Clone, Copy)]
struct Place {
    atom: usize,
    channels: usize,
    /// The first of nine, each `stride` from the one before.
    tensor: usize,
    stride: usize,
    /// One for each channel.
    channel: usize,
    /// The first of three, each `channels` from the one before.
    part: usize,
}

impl Place {
    #[inline(always)]
    fn new(atom: usize, c: usize, [atoms, channels]: [usize; 2]) -> Self {
        let channel = atom * channels + c;
        let part = atom * PARTS * channels + c;
        Self { atom, channels, tensor: channel, stride: atoms * channels, channel, part }
    }

    /// The nine numbers.
    ///
    /// # Safety
    /// The arrays are those of this place's atoms.
    #[inline(always)]
    unsafe fn nine<F: Field>(&self, from: &Jets<'_, F::Number>) -> [F; COMPONENTS] {
        let mut t = [F::constant(0.0); COMPONENTS];
        for (c, t) in t.iter_mut().enumerate() {
            // SAFETY: the caller's contract.
            *t = unsafe { F::read(from, self.tensor + c * self.stride) };
        }
        t
    }

    /// The reverse of [`Self::nine`].
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn set_nine<F: Field>(&self, t: [F; COMPONENTS], to: &mut JetsMut<'_, F::Number>) {
        for (c, t) in t.into_iter().enumerate() {
            // SAFETY: the caller's contract.
            unsafe { t.write(to, self.tensor + c * self.stride) };
        }
    }

    /// Three numbers of parts.
    ///
    /// # Safety
    /// As [`Self::nine`].
    #[inline(always)]
    unsafe fn three<F: Field>(&self, from: &Jets<'_, F::Number>) -> [F; PARTS] {
        let mut t = [F::constant(0.0); PARTS];
        for (p, t) in t.iter_mut().enumerate() {
            // SAFETY: the caller's contract.
            *t = unsafe { F::read(from, self.part + p * self.channels) };
        }
        t
    }

    /// The reverse of [`Self::three`].
    ///
    /// # Safety
    /// As [`Self::nine`].
    #[inline(always)]
    unsafe fn set_three<F: Field>(&self, t: [F; PARTS], to: &mut JetsMut<'_, F::Number>) {
        for (p, t) in t.into_iter().enumerate() {
            // SAFETY: the caller's contract.
            unsafe { t.write(to, self.part + p * self.channels) };
        }
    }
}

/// A loop over the registers of atoms.
trait Step<T: Scalar> {
    fn step<F: Field<Number = T>>(&mut self, at: Place);
}

/// Runs a step for every register of channels of every atom.
struct Atoms<S> {
    sizes: [usize; 2],
    tangents: bool,
    step: S,
}

struct AtomsPass<S, F>(Atoms<S>, PhantomData<F>);

impl<T: Scalar, S: Step<T>> Job<T> for Atoms<S> {
    type Output = ();
    fn run<V: Lanes<Number = T>>(self) {
        match self.tangents {
            true => V::run(AtomsPass(self, PhantomData::<Jet<V>>)),
            false => V::run(AtomsPass(self, PhantomData::<V>)),
        }
    }
}

impl<V: Lanes, F: Field<Number = V::Number, Register = V>, S: Step<V::Number>> Pass<V>
    for AtomsPass<S, F>
{
    type Output = ();
    #[inline(always)]
    fn run(mut self) {
        let sizes = self.0.sizes;
        for atom in 0..sizes[0] {
            for c in (0..sizes[1]).step_by(V::WIDTH) {
                self.0.step.step::<F>(Place::new(atom, c, sizes));
            }
        }
    }
}

/// Checks lengths and runs: tensors, numbers for each channel, and numbers for each part.
#[track_caller]
fn run<T: Scalar, S: Step<T>>(
    channels: usize,
    tensors: &[[usize; 2]],
    singles: &[[usize; 2]],
    parts: &[[usize; 2]],
    step: S,
) {
    let atoms = tensors[0][0] / (COMPONENTS * channels).max(1);
    let tangents = tensors[0][1] > 0;
    let fits = |lens: &[[usize; 2]], numbers: usize| {
        let len = atoms * numbers * channels;
        let all = lens.iter().all(|lens| *lens == [len, if tangents { len } else { 0 }]);
        assert!(all, "{lens:?} numbers of {atoms} atoms with {numbers} x {channels}");
    };
    fits(tensors, COMPONENTS);
    fits(singles, 1);
    fits(parts, PARTS);
    dispatch_columns(channels, Atoms { sizes: [atoms, channels], tangents, step });
}
