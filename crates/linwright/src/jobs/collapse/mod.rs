//! Verbs of neural collapse.

pub(crate) mod depth;
pub(crate) mod gufm;
pub(crate) mod lm;
pub(crate) mod measure;
pub(crate) mod merge;
pub(crate) mod options;
pub(crate) mod relate;
pub(crate) mod ufm;
pub(crate) mod watch;
