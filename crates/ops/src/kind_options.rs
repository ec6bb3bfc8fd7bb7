//! What follows from the options of an operator alone, without its parameters.

use crate::{OpSpec, Shape};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Options of a kind of operator: how it is scaled, timed and exported.
///
/// What every kind has is required, so that a new kind cannot silently get one size or be timed
/// without being made smaller.
pub trait KindOptions:
    Clone + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema
{
    /// Whether exported models contain code for this kind, so that other programs can run it: a
    /// function of the Python file in the assets of `model`.
    const EXPORTED: bool;

    /// Whether [`Structured::numbers`] counts permutations or signs as well, although the kind has
    /// several sizes. Then operators are built to count their parameters.
    ///
    /// [`Structured::numbers`]: crate::Structured::numbers
    const COUNTS_INDICES: bool;

    /// Options with which the kind is timed by default, and which it has in tables: for a shape
    /// with sides of at least 64, a power of two.
    fn standard() -> Self;

    /// Options of all sizes for a shape, among which a number of parameters is chosen; only these
    /// options if there is a single size.
    fn sizes(&self, shape: Shape) -> Vec<Self>;

    /// The options with another rank, of the last ranked part of a composite operator; none if
    /// there is no rank.
    fn with_rank(&self, rank: usize) -> Option<Self> {
        let _ = rank;
        None
    }

    /// Options for a shape with sides divided by `by`, for timing: ranks and widths shrink, extents
    /// that must divide the sides are removed.
    fn shrunk(&self, by: usize) -> Self;

    /// The operators inside, if it is composite.
    fn nested(&self) -> &[OpSpec] {
        &[]
    }
}
