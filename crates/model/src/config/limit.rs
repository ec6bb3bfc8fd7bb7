//! Upper bounds of sizes, which keep every product far from overflow; the largest known models are
//! well below.

/// Features of the residual stream, or inside an MLP.
pub(super) const WIDTH: usize = 1 << 20;
/// Layers.
pub(super) const LAYERS: usize = 1 << 11;
/// Heads of a layer.
pub(super) const HEADS: usize = 1 << 14;
/// Features of a head.
pub(super) const HEAD_DIM: usize = 1 << 14;
/// Tokens of the vocabulary, and token types.
pub(super) const VOCAB: usize = 1 << 24;
/// Longest sequence.
pub(super) const POSITIONS: usize = 1 << 31;
