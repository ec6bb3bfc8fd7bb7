//! What `laser`, `sweep` and `compose` have in common: which slots, and what is taken away.

mod options;
mod report;

pub(super) use options::{CutArgs, SlotArgs};
pub(super) use report::{Findings, cell_name, edits_table, tested_lines};
