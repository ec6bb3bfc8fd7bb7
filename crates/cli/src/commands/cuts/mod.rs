//! Shared by `laser`, `sweep` and `compose`: options that select weights and interventions.

mod options;

pub(super) use options::{CutArgs, SlotArgs};
