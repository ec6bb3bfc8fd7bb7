//! The paper's names of weights.

use linwright_ops::Role;
use serde::{Deserialize, Serialize};

/// A name that the paper's scripts take as `--lname`: one weight of a layer, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lname {
    /// Keys, or queries, keys and values in one.
    KProj,
    /// Queries, or queries, keys and values in one.
    QProj,
    /// Values, or queries, keys and values in one.
    VProj,
    /// Output of attention.
    OutProj,
    /// First layer of an MLP, or its gate; gate and up projection in one.
    FcIn,
    /// Up projection.
    FcUp,
    /// Last layer of an MLP.
    FcOut,
    /// All of the MLP.
    Mlp,
    /// All of attention.
    Attn,
    /// Both.
    All,
    /// Nothing: the model as it is.
    Dont,
}

const ATTENTION: &[Role] =
    &[Role::Key, Role::Query, Role::Value, Role::QueryKeyValue, Role::Output];
const INNER: &[Role] = &[Role::FcIn, Role::Gate, Role::Up, Role::GateUp, Role::FcOut, Role::Down];
const BOTH: &[Role] = &[
    Role::Key,
    Role::Query,
    Role::Value,
    Role::QueryKeyValue,
    Role::Output,
    Role::FcIn,
    Role::Gate,
    Role::Up,
    Role::GateUp,
    Role::FcOut,
    Role::Down,
];

impl Lname {
    /// Every name.
    pub const ALL: [Self; 11] = [
        Self::KProj,
        Self::QProj,
        Self::VProj,
        Self::OutProj,
        Self::FcIn,
        Self::FcUp,
        Self::FcOut,
        Self::Mlp,
        Self::Attn,
        Self::All,
        Self::Dont,
    ];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KProj => "k_proj",
            Self::QProj => "q_proj",
            Self::VProj => "v_proj",
            Self::OutProj => "out_proj",
            Self::FcIn => "fc_in",
            Self::FcUp => "fc_up",
            Self::FcOut => "fc_out",
            Self::Mlp => "mlp",
            Self::Attn => "attn",
            Self::All => "all",
            Self::Dont => "dont",
        }
    }

    /// The roles of the weights it stands for, of which a layer has some.
    #[must_use]
    pub fn roles(self) -> &'static [Role] {
        match self {
            Self::KProj => &[Role::Key, Role::QueryKeyValue],
            Self::QProj => &[Role::Query, Role::QueryKeyValue],
            Self::VProj => &[Role::Value, Role::QueryKeyValue],
            Self::OutProj => &[Role::Output],
            Self::FcIn => &[Role::FcIn, Role::Gate, Role::GateUp],
            Self::FcUp => &[Role::Up],
            Self::FcOut => &[Role::FcOut, Role::Down],
            Self::Mlp => INNER,
            Self::Attn => ATTENTION,
            Self::All => BOTH,
            Self::Dont => &[],
        }
    }
}
