//! Linear maps of vectors, of which compressors are made. A new one is a file here and a line of
//! the list below.

use crate::AttributeError;
use crate::map_file::Parts;
use linwright_run::memory;
use linwright_tensor::{MatMut, MatRef};
use std::fmt::Debug;

/// Largest number of stored values of one map: those of a dense matrix of a gigabyte.
pub const MAX_NUMBERS: usize = 1 << 28;

/// Rows that a map is applied to, with a column of ones appended if there is a bias: the gradient
/// of a bias is that of a weight whose input is 1.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Numbers (rows, columns).
    pub x: MatRef<'a, f32>,
    /// Whether a column of ones follows.
    pub one: bool,
}

impl<'a> Rows<'a> {
    /// Rows without a column of ones.
    #[must_use]
    pub fn plain(x: MatRef<'a, f32>) -> Self {
        Self { x, one: false }
    }

    /// Columns, that of ones included.
    #[must_use]
    pub fn width(&self) -> usize {
        self.x.cols() + usize::from(self.one)
    }
}

/// A linear map `y = x S` of vectors of `inp` numbers to vectors of `out` numbers.
///
/// The conformance tests of this module check the laws: linearity, the adjoint, that parts add up
/// to the whole, and that a map read from a file is the one that was written.
pub trait VectorMap: Debug + Send + Sync {
    /// Its name in files and messages.
    fn kind(&self) -> &'static str;

    /// Length of the vectors that it reads.
    fn inp(&self) -> usize;

    /// Length of the vectors that it gives.
    fn out(&self) -> usize;

    /// Writes the image of every row. `y`: (rows, out).
    ///
    /// # Panics
    /// If the shapes do not match.
    fn apply(&self, x: Rows<'_>, y: MatMut<'_, f32>);

    /// Adds the image of a vector of which only numbers from `first` on are not zero. `y`: out
    /// numbers.
    ///
    /// # Panics
    /// If the part is not within the vector.
    fn add_part(&self, first: usize, part: &[f32], y: &mut [f32]);

    /// Whether a vector may come to [`Self::add_part`] in several parts at no more cost than at
    /// once.
    fn takes_parts(&self) -> bool {
        true
    }

    /// Writes `x = y Sᵀ`. `y`: (rows, out), `x`: (rows, inp).
    ///
    /// # Panics
    /// If the shapes do not match.
    fn adjoint(&self, y: MatRef<'_, f32>, x: MatMut<'_, f32>);

    /// The numbers that it picks, if it does nothing else.
    fn picks(&self) -> Option<&[u32]> {
        None
    }

    /// Multiply-adds, or moves of a number, for one vector.
    fn steps(&self) -> u64;

    /// Bytes in memory.
    fn bytes(&self) -> u64;

    /// What a file holds of it.
    fn parts(&self) -> Parts;
}

/// Reads a map of one kind from the parts that a file holds.
type ReadMap = fn(&Parts) -> Result<Box<dyn VectorMap>, AttributeError>;

macro_rules! maps {
    ($($module:ident => $name:ident;)*) => {
        $(mod $module; pub use $module::$name;)*

        /// Every kind of map, with what reads it.
        const KINDS: &[(&str, ReadMap)] = &[
            $(($name::KIND, |parts| Ok(Box::new($name::read(parts)?))),)*
        ];
    };
}

maps! {
    identity => Identity;
    mask => Mask;
    sparse_signs => SparseSigns;
    dense => Dense;
    hadamard => Hadamard;
}

/// A map from what a file holds of it.
///
/// # Errors
/// [`AttributeError::Map`] for parts that do not form a map.
pub fn read_map(parts: &Parts) -> Result<Box<dyn VectorMap>, AttributeError> {
    match KINDS.iter().find(|(kind, _)| *kind == parts.kind) {
        Some((_, read)) => read(parts),
        None => {
            let kinds: Vec<&str> = KINDS.iter().map(|(kind, _)| *kind).collect();
            Err(parts.refused(format!("kind {:?}", parts.kind), format!("one of {kinds:?}")))
        }
    }
}

/// Checks that a map of this many stored numbers is possible.
fn check_size(kind: &'static str, numbers: Option<usize>) -> Result<usize, AttributeError> {
    let too_large = AttributeError::MapTooLarge { kind, most: MAX_NUMBERS };
    let numbers = numbers.filter(|numbers| *numbers <= MAX_NUMBERS).ok_or(too_large)?;
    memory::check(|| format!("the map {kind}"), &[numbers as u64, size_of::<f32>() as u64])?;
    Ok(numbers)
}

/// Checks the shapes of [`VectorMap::apply`].
#[track_caller]
fn check_shapes(map: &dyn VectorMap, x: &Rows<'_>, y: &MatMut<'_, f32>) {
    let (inp, out) = (map.inp(), map.out());
    let found = (x.width(), y.rows(), y.cols());
    assert_eq!(found, (inp, x.x.rows(), out), "{} of {inp} to {out} numbers", map.kind());
}

/// Checks the shapes of [`VectorMap::adjoint`].
#[track_caller]
fn check_adjoint(map: &dyn VectorMap, y: &MatRef<'_, f32>, x: &MatMut<'_, f32>) {
    let (inp, out) = (map.inp(), map.out());
    let found = (y.cols(), x.rows(), x.cols());
    assert_eq!(found, (out, y.rows(), inp), "adjoint of {} of {inp} to {out}", map.kind());
}

/// Checks the range of [`VectorMap::add_part`].
#[track_caller]
fn check_part(map: &dyn VectorMap, first: usize, part: &[f32], y: &[f32]) {
    let (inp, out, end) = (map.inp(), map.out(), first + part.len());
    assert!(end <= inp && y.len() == out, "{} numbers from {first} of {inp}", part.len());
}

#[cfg(test)]
mod tests;
