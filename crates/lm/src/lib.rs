//! What needs a transformer: structured pruning, cuts of chosen weights and their sweeps, searches
//! of ranks, the loss that edits of layers cost, and comparisons of methods.

pub mod allocate;
pub mod compare;
pub mod cuts;
mod error;
mod pieces;
pub mod prune;
mod recover;
pub mod search;
pub mod text;
#[cfg(test)]
#[path = "../../compress/src/tiny.rs"]
mod tiny;

pub use error::LmError;
pub use prune::PruneError;
pub use recover::next_tokens;
