//! Named views of parameters, and their gradients.

use linwright_tensor::Scalar;

/// One named parameter tensor.
#[derive(Clone, Debug)]
pub struct Param<'a, T> {
    /// Name in archives: unique within the operator and stable across versions.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Values.
    pub values: &'a [T],
}

/// One named parameter tensor, mutable.
#[derive(Debug)]
pub struct ParamMut<'a, T> {
    /// Name in archives: unique within the operator and stable across versions.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Values.
    pub values: &'a mut [T],
}

/// Fixed integer buffer of an operator.
#[derive(Clone, Debug)]
pub struct Buffer<'a> {
    /// Name in archives.
    pub name: String,
    /// Values.
    pub values: &'a [u32],
}

/// Fixed integer buffer of an operator, mutable.
#[derive(Debug)]
pub struct BufferMut<'a> {
    /// Name in archives.
    pub name: String,
    /// Values.
    pub values: &'a mut [u32],
}

/// Number of trainable numbers.
#[must_use]
pub fn parameter_count<T>(params: &[Param<'_, T>]) -> usize {
    params.iter().map(|p| p.values.len()).sum()
}

/// Gradients in the order of an operator's parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grads<T>(Vec<Vec<T>>);

impl<T: Scalar> Grads<T> {
    /// Zero gradients for each of `params`.
    #[must_use]
    pub fn zeros(params: &[Param<'_, T>]) -> Self {
        Self(params.iter().map(|p| vec![T::ZERO; p.values.len()]).collect())
    }

    /// Sets all gradients to zero, keeping the memory.
    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(|g| g.fill(T::ZERO));
    }

    /// Gradient of the `index`-th parameter.
    #[must_use]
    pub fn get(&self, index: usize) -> &[T] {
        &self.0[index]
    }

    /// Gradient of the `index`-th parameter, mutable.
    pub fn get_mut(&mut self, index: usize) -> &mut [T] {
        &mut self.0[index]
    }

    /// All gradients, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[T]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// All gradients, in order, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        self.0.iter_mut().map(Vec::as_mut_slice)
    }

    /// Splits off the first `count` gradients, for a nested operator.
    #[must_use]
    pub fn take(&mut self, count: usize) -> Self {
        let rest = self.0.split_off(count);
        Self(std::mem::replace(&mut self.0, rest))
    }

    /// Appends gradients taken by [`Self::take`].
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Number of parameters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no parameters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
