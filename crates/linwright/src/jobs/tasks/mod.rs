//! Options that select evaluation tasks, shared by all commands that evaluate models.

mod judge;
mod laser;
mod open;
mod parts;
mod selection;

pub(crate) use judge::{Judged, before_and_after, check_tasks};
pub(crate) use open::Tasks;
pub(crate) use parts::{Division, Parts};
