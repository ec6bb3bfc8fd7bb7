//! Rows of single projections in fused weights.

use super::Transformer;
use super::attend::runs;
use crate::Role;
use crate::config::AttentionConfig;
use linwright_ops::LinearSlot;

impl Transformer {
    /// Output rows of a projection within a fused weight, in order: of the query, key or value in
    /// one matrix of all three, of the gate or up projection in one of both. `None` if the slot has
    /// no such part.
    pub(super) fn rows_of(&self, slot: &LinearSlot, role: Role) -> Option<Vec<usize>> {
        match (Role::of(slot), role) {
            (Role::QueryKeyValue, Role::Query | Role::Key | Role::Value) => {
                let AttentionConfig::Heads(heads) =
                    self.config.layers.get(slot.layer()?)?.attention
                else {
                    return None;
                };
                let nth = [Role::Query, Role::Key, Role::Value].iter().position(|r| *r == role)?;
                let (starts, len) = runs(&self.config, heads).into_iter().nth(nth)?;
                Some(starts.into_iter().flat_map(|start| start..start + len).collect())
            }
            (Role::GateUp, Role::Gate | Role::Up) => {
                let inner = slot.shape().out / 2;
                let first = if role == Role::Gate { 0 } else { inner };
                Some((first..first + inner).collect())
            }
            _ => None,
        }
    }
}
