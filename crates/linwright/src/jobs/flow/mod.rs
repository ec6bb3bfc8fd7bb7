//! Verbs of normalizing flows.

pub(crate) mod eval;
pub(crate) mod matching;
pub(crate) mod sample;
pub(crate) mod train;
