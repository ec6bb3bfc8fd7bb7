//! Numbers with or without a derivative along one direction, and rows of them.
//!
//! Values and tangents are in separate matrices, so products with real weights are ordinary matrix
//! products.

use linwright_tensor::kernels::irreps::jets::{Jets, JetsMut};
use linwright_tensor::{Mat, Scalar, scratch};
use std::ops::{Add, AddAssign, Mul, Neg, Sub};

/// A number in an element-wise computation.
pub(crate) trait Number:
    Copy
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// Type of its parts.
    type Real: Scalar;
    /// Number of its parts.
    const PLANES: usize;
    /// Zero.
    const ZERO: Self;
    /// From a value and a tangent, which may be ignored.
    fn new(value: Self::Real, tangent: Self::Real) -> Self;
    /// Value and tangent, if it has one, else zero.
    fn parts(self) -> (Self::Real, Self::Real);
    /// `function` of this number, from its value and slope at the value.
    fn map(self, value: Self::Real, slope: Self::Real) -> Self;
    /// A constant.
    #[inline(always)]
    fn of(value: Self::Real) -> Self {
        Self::new(value, Self::Real::ZERO)
    }
    /// A constant.
    #[inline(always)]
    fn real(value: f64) -> Self {
        Self::of(Self::Real::from_f64(value))
    }
    /// One over it.
    #[inline(always)]
    fn inverse(self) -> Self {
        let over = Self::Real::ONE / self.parts().0;
        self.map(over, -over * over)
    }
    /// Its square root.
    #[inline(always)]
    fn root(self) -> Self {
        let root = self.parts().0.sqrt();
        self.map(root, Self::Real::from_f64(0.5) / root)
    }
}

macro_rules! plain {
    ($type:ident) => {
        impl Number for $type {
            type Real = $type;
            const PLANES: usize = 1;
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn new(value: $type, _: $type) -> Self {
                value
            }
            #[inline(always)]
            fn parts(self) -> ($type, $type) {
                (self, 0.0)
            }
            #[inline(always)]
            fn map(self, value: $type, _: $type) -> Self {
                value
            }
        }
    };
}

plain!(f32);
plain!(f64);

/// A value and its derivative along one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dual<T> {
    pub(crate) value: T,
    pub(crate) tangent: T,
}

impl<T: Scalar> Add for Dual<T> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { value: self.value + other.value, tangent: self.tangent + other.tangent }
    }
}

impl<T: Scalar> Sub for Dual<T> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { value: self.value - other.value, tangent: self.tangent - other.tangent }
    }
}

impl<T: Scalar> Mul for Dual<T> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let tangent = self.value * other.tangent + self.tangent * other.value;
        Self { value: self.value * other.value, tangent }
    }
}

impl<T: Scalar> Neg for Dual<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self { value: -self.value, tangent: -self.tangent }
    }
}

impl<T: Scalar> AddAssign for Dual<T> {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl<T: Scalar> Number for Dual<T> {
    type Real = T;
    const PLANES: usize = 2;
    const ZERO: Self = Self { value: T::ZERO, tangent: T::ZERO };
    #[inline(always)]
    fn new(value: T, tangent: T) -> Self {
        Self { value, tangent }
    }
    #[inline(always)]
    fn parts(self) -> (T, T) {
        (self.value, self.tangent)
    }
    #[inline(always)]
    fn map(self, value: T, slope: T) -> Self {
        Self { value, tangent: slope * self.tangent }
    }
}

/// A matrix of numbers, as one of values and one of tangents. Tensors have the rows of all atoms
/// for their first number, then those for the second (9 atoms, channels). Their memory is reused
/// from earlier rows of this thread: a step has hundreds of arrays, and fresh pages cost more than
/// the arithmetic on them.
#[derive(Debug)]
pub(crate) struct Rows<N: Number> {
    pub(crate) planes: Vec<Mat<N::Real>>,
}

impl<N: Number> Drop for Rows<N> {
    fn drop(&mut self) {
        self.planes.drain(..).for_each(|plane| scratch::give_back(plane.into_vec()));
    }
}

impl<N: Number> Clone for Rows<N> {
    fn clone(&self) -> Self {
        Self { planes: self.planes.iter().map(copied).collect() }
    }
}

/// A copy in reused memory of this thread.
pub(crate) fn copied<T: Scalar>(mat: &Mat<T>) -> Mat<T> {
    let mut data = scratch::take(mat.data().len());
    data.copy_from_slice(mat.data());
    Mat::from_vec(mat.rows(), mat.cols(), data)
}

impl<N: Number> Rows<N> {
    /// Unspecified numbers, for results that are written as a whole.
    pub(crate) fn unset(rows: usize, cols: usize) -> Self {
        let plane = |_| Mat::from_vec(rows, cols, scratch::take(rows * cols));
        Self { planes: (0..N::PLANES).map(plane).collect() }
    }

    /// Zeros.
    pub(crate) fn zeros(rows: usize, cols: usize) -> Self {
        let mut result = Self::unset(rows, cols);
        result.planes.iter_mut().for_each(|plane| plane.data_mut().fill(N::Real::ZERO));
        result
    }

    /// Numbers by row and column.
    pub(crate) fn from_fn(rows: usize, cols: usize, f: impl Fn(usize, usize) -> N) -> Self {
        let mut result = Self::unset(rows, cols);
        for i in 0..rows {
            for j in 0..cols {
                result.set(i, j, f(i, j));
            }
        }
        result
    }

    pub(crate) fn rows(&self) -> usize {
        self.planes[0].rows()
    }

    pub(crate) fn cols(&self) -> usize {
        self.planes[0].cols()
    }

    /// One row.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> Row<&[N::Real]> {
        let tangent = self.planes.get(1).map_or(&[][..], |plane| plane.row(i));
        Row { value: self.planes[0].row(i), tangent }
    }

    /// One row, mutable.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, i: usize) -> Row<&mut [N::Real]> {
        let (values, tangents) = self.planes.split_at_mut(1);
        let tangent = tangents.first_mut().map_or(&mut [][..], |plane| plane.row_mut(i));
        Row { value: values[0].row_mut(i), tangent }
    }

    #[inline(always)]
    pub(crate) fn at(&self, i: usize, j: usize) -> N {
        let index = i * self.planes[0].cols() + j;
        let value = self.planes[0].data()[index];
        match N::PLANES {
            2 => N::new(value, self.planes[1].data()[index]),
            _ => N::of(value),
        }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, i: usize, j: usize, number: N) {
        let (value, tangent) = number.parts();
        let index = i * self.planes[0].cols() + j;
        self.planes[0].data_mut()[index] = value;
        if N::PLANES == 2 {
            self.planes[1].data_mut()[index] = tangent;
        }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, i: usize, j: usize, number: N) {
        self.set(i, j, self.at(i, j) + number);
    }

    /// The nine irreducible components of an atom and channel.
    #[inline(always)]
    pub(crate) fn nine(&self, atom: usize, channel: usize) -> [N; 9] {
        let atoms = self.rows() / 9;
        std::array::from_fn(|c| self.at(c * atoms + atom, channel))
    }

    #[inline(always)]
    pub(crate) fn set_nine(&mut self, atom: usize, channel: usize, numbers: [N; 9]) {
        let atoms = self.rows() / 9;
        for (c, number) in numbers.into_iter().enumerate() {
            self.set(c * atoms + atom, channel, number);
        }
    }

    /// The arrays.
    pub(crate) fn jets(&self) -> Jets<'_, N::Real> {
        let tangent = self.planes.get(1).map_or(&[][..], Mat::data);
        Jets { value: self.planes[0].data(), tangent }
    }

    /// The arrays, mutable.
    pub(crate) fn jets_mut(&mut self) -> JetsMut<'_, N::Real> {
        let (values, tangents) = self.planes.split_at_mut(1);
        let tangent = tangents.first_mut().map_or(&mut [][..], Mat::data_mut);
        JetsMut { value: values[0].data_mut(), tangent }
    }

    /// Multiplies every row by a number.
    pub(crate) fn scale_rows(&mut self, factors: &[N]) {
        for (i, factor) in factors.iter().enumerate() {
            let (by, along) = factor.parts();
            let [value, tangent] = self.planes.as_mut_slice() else {
                self.planes[0].row_mut(i).iter_mut().for_each(|x| *x *= by);
                continue;
            };
            for (value, tangent) in value.row_mut(i).iter_mut().zip(tangent.row_mut(i)) {
                *tangent = *tangent * by + *value * along;
                *value *= by;
            }
        }
    }
}

/// Numbers of one row: values, and tangents if they have any.
pub(crate) struct Row<S> {
    value: S,
    tangent: S,
}

impl<T: Scalar> Row<&[T]> {
    /// All numbers.
    #[inline(always)]
    pub(crate) fn numbers<N: Number<Real = T>>(&self) -> impl Iterator<Item = N> {
        let (value, tangent) = (self.value, self.tangent);
        (0..value.len()).map(move |j| match N::PLANES {
            2 => N::new(value[j], tangent[j]),
            _ => N::of(value[j]),
        })
    }
}

impl<T: Scalar> Row<&mut [T]> {
    /// Writes all numbers.
    #[inline(always)]
    pub(crate) fn write<N: Number<Real = T>>(&mut self, numbers: impl Iterator<Item = N>) {
        for (j, number) in (0..self.value.len()).zip(numbers) {
            let (value, tangent) = number.parts();
            self.value[j] = value;
            if N::PLANES == 2 {
                self.tangent[j] = tangent;
            }
        }
    }
}
