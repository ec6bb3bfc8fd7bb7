//! Options that select evaluation tasks, shared by all commands that evaluate models.

mod cost;
mod judge;
mod open;
mod selection;

pub(crate) use cost::{EvaluationCost, cost, seconds};
pub(crate) use judge::{Judged, before_and_after, check_tasks};
pub(crate) use open::{open_answered, open_one, open_parts, open_tasks, open_tasks_if_any};
