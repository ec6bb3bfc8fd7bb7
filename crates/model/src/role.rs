//! Roles of slots in language models.

use linwright_ops::{LinearSlot, SlotRole};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Role of a slot in a language model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Query projection.
    Query,
    /// Key projection.
    Key,
    /// Value projection.
    Value,
    /// Query, key and value projection in one matrix.
    QueryKeyValue,
    /// Output projection of attention.
    Output,
    /// Gate of a gated MLP.
    Gate,
    /// Up projection of a gated MLP.
    Up,
    /// Gate and up projection in one matrix.
    GateUp,
    /// Down projection of a gated MLP.
    Down,
    /// The first layer of an MLP without a gate.
    FcIn,
    /// The second layer of an MLP without a gate.
    FcOut,
    /// Projection from an embedding to a residual stream of another width.
    ProjectIn,
    /// Projection from a residual stream to a head of another width.
    ProjectOut,
    /// Linear layer before the output matrix of a masked language model.
    Transform,
    /// Output matrix (language-model head).
    Head,
    /// Pooler of the first token.
    Pooler,
}

impl Role {
    /// Every role, in the order of computation.
    pub const ALL: [Self; 16] = [
        Self::Query,
        Self::Key,
        Self::Value,
        Self::QueryKeyValue,
        Self::Output,
        Self::Gate,
        Self::Up,
        Self::GateUp,
        Self::Down,
        Self::FcIn,
        Self::FcOut,
        Self::ProjectIn,
        Self::ProjectOut,
        Self::Transform,
        Self::Head,
        Self::Pooler,
    ];

    /// Name in options, recipes and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Key => "key",
            Self::Value => "value",
            Self::QueryKeyValue => "query_key_value",
            Self::Output => "output",
            Self::Gate => "gate",
            Self::Up => "up",
            Self::GateUp => "gate_up",
            Self::Down => "down",
            Self::FcIn => "fc_in",
            Self::FcOut => "fc_out",
            Self::ProjectIn => "project_in",
            Self::ProjectOut => "project_out",
            Self::Transform => "transform",
            Self::Head => "head",
            Self::Pooler => "pooler",
        }
    }

    /// Whether it belongs to attention.
    #[must_use]
    pub fn is_in_attention(self) -> bool {
        match self {
            Self::Query | Self::Key | Self::Value | Self::QueryKeyValue | Self::Output => true,
            Self::Gate | Self::Up | Self::GateUp | Self::Down | Self::FcIn | Self::FcOut => false,
            Self::ProjectIn | Self::ProjectOut => false,
            Self::Transform | Self::Head | Self::Pooler => false,
        }
    }

    /// Whether it is the last of attention or of an MLP, whose output is added to the residual
    /// stream.
    #[must_use]
    pub fn ends_branch(self) -> bool {
        match self {
            Self::Output | Self::Down | Self::FcOut => true,
            Self::Query | Self::Key | Self::Value | Self::QueryKeyValue => false,
            Self::Gate | Self::Up | Self::GateUp | Self::FcIn => false,
            Self::ProjectIn | Self::ProjectOut => false,
            Self::Transform | Self::Head | Self::Pooler => false,
        }
    }

    /// Aliases of a role: module names in checkpoints. Options and recipes accept them wherever
    /// they accept [`Self::name`]; they are never printed.
    #[must_use]
    pub fn other_names(self) -> &'static [&'static str] {
        match self {
            Self::Query => &["q_proj"],
            Self::Key => &["k_proj"],
            Self::Value => &["v_proj"],
            Self::QueryKeyValue => &["qkv", "qkv_proj", "c_attn"],
            Self::Output => &["o_proj", "out_proj"],
            Self::Gate => &["gate_proj"],
            Self::Up => &["up_proj", "fc_up"],
            Self::GateUp => &["gate_up_proj"],
            Self::Down => &["down_proj"],
            Self::FcIn => &["fc1", "c_fc"],
            Self::FcOut => &["fc2"],
            Self::Head => &["lm_head"],
            Self::ProjectIn | Self::ProjectOut | Self::Transform | Self::Pooler => &[],
        }
    }

    /// The role in the form used by slots.
    #[must_use]
    pub fn of_slots(self) -> SlotRole {
        SlotRole::new(self.name(), self.other_names())
    }

    /// The role of a slot of a language model.
    ///
    /// # Panics
    /// If it is a slot of another network.
    #[must_use]
    #[track_caller]
    pub fn of(slot: &LinearSlot) -> Self {
        let role = slot.role();
        Self::parse(role.name()).unwrap_or_else(|| panic!("{} is a {role}", slot.id()))
    }

    /// The role with this name or alias.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let is_called = |role: &Self| role.name() == word || role.other_names().contains(&word);
        Self::ALL.into_iter().find(is_called)
    }
}

/// Every [`Role::name`], for messages.
const ROLE_NAMES: [&str; 16] = {
    let mut names = [""; 16];
    let mut k = 0;
    while k < names.len() {
        names[k] = Role::ALL[k].name();
        k += 1;
    }
    names
};

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Self::parse(&word).ok_or_else(|| serde::de::Error::unknown_variant(&word, &ROLE_NAMES))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
