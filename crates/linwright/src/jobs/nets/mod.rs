//! Verbs of small networks.

pub(crate) mod compare;
pub(crate) mod eval;
pub(crate) mod images;
pub(crate) mod train;
