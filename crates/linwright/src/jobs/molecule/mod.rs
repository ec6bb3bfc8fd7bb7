//! Verbs of molecular potentials.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod compress;
pub(crate) mod convert;
pub(crate) mod eval;
pub(crate) mod info;
pub(crate) mod labels;
pub(crate) mod md;
pub(crate) mod potential;
pub(crate) mod relax;
pub(crate) mod structures;
pub(crate) mod train;
