//! Verbs that run, divide and repeat the work of others, or need no model.

pub(crate) mod merge;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod select;
