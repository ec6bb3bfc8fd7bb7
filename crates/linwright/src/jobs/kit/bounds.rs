//! Bounds of the numbers of options, in their schemas.
//!
//! Every number has a least and a largest value, so that none reaches an allocator or a loop
//! unchecked. They are far beyond any use; what several numbers make together is checked against
//! the memory that is left, before anything is allocated.

/// Seeds and names of random streams: any number is one.
pub const SEED: u64 = u64::MAX;
/// Updates of parameters, steps of dynamics, iterations.
pub const STEPS: u64 = 1_000_000_000;
/// Passes over all examples.
pub const EPOCHS: u64 = 1_000_000;
/// Documents, examples, structures, or places among them.
pub const EXAMPLES: usize = 1_000_000_000;
/// Examples of a batch, or of a file of a store.
pub const BATCH: usize = 1 << 24;
/// Tokens of a text.
pub const TOKENS: usize = 1 << 30;
/// Tokens of a window, a prompt or a continuation.
pub const POSITIONS: usize = 1 << 24;
/// Features of a layer, and its ranks.
pub const FEATURES: usize = 1 << 20;
/// Classes of labels: 24 bits.
pub const CLASSES: usize = 1 << 24;
/// Blocks of a network, and places of its layers.
pub const DEPTH: usize = 10_000;
/// Repeated experiments: starts, seeds, trainings, timings.
pub const REPEATS: u64 = 10_000;
/// Resamples of a bootstrap.
pub const DRAWS: usize = 1_000_000;
/// Examples before a question.
pub const FEWSHOT: usize = 10_000;
/// Step sizes of an optimiser, and decays in their units: what single precision holds.
pub const RATE: f64 = 1e38;
/// LASER's rate, which is 10 where nothing is left.
pub const LASER_RATE: f64 = 10.0;
/// Physical quantities, penalties and scales of no natural bound.
pub const SCALE: f64 = 1e12;
