//! What `laser`, `sweep` and `compose` have in common: which slots, and what is taken away.

mod options;

pub(super) use options::{CutArgs, SlotArgs};
