//! Selection of slots of a network, by layer, role and name.

mod filter;
mod set;

pub use filter::{NameFilter, PatternError};
pub use set::{NoGroup, RoleGroup, SlotSet, SlotSetError};
