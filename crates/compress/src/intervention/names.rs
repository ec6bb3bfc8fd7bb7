//! Names of weights in the paper.

use linwright_model::Role;
use linwright_ops::{RoleGroup, SlotRole};
use serde::{Deserialize, Deserializer, Serialize};

/// A value of `--lname` in the paper's scripts: one or several weights of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lname {
    /// Keys, or a fused matrix of queries, keys and values.
    KProj,
    /// Queries, or a fused matrix of queries, keys and values.
    QProj,
    /// Values, or a fused matrix of queries, keys and values.
    VProj,
    /// Output projection of attention.
    OutProj,
    /// First layer of an MLP, or its gate, or a fused gate and up projection.
    FcIn,
    /// Up projection.
    FcUp,
    /// Last layer of an MLP.
    FcOut,
    /// All weights of the MLP.
    Mlp,
    /// All weights of attention.
    Attn,
    /// All weights of both.
    All,
    /// None: the dense model.
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
    /// All names.
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

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
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

    /// The name for a single role, if there is one: a layer has at most one of its roles.
    fn of(role: Role) -> Option<Self> {
        Some(match role {
            Role::Key => Self::KProj,
            Role::Query | Role::QueryKeyValue => Self::QProj,
            Role::Value => Self::VProj,
            Role::Output => Self::OutProj,
            Role::FcIn | Role::Gate | Role::GateUp => Self::FcIn,
            Role::Up => Self::FcUp,
            Role::FcOut | Role::Down => Self::FcOut,
            Role::ProjectIn | Role::ProjectOut | Role::Transform | Role::Head | Role::Pooler => {
                return None;
            }
        })
    }

    /// Parses one of the paper's names, or any name of a role.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let own = Self::ALL.into_iter().find(|name| name.name() == word);
        own.or_else(|| Role::parse(word).and_then(Self::of))
    }

    /// Role names that [`Self::parse`] maps to it.
    #[must_use]
    pub fn other_names(self) -> Vec<&'static str> {
        let roles = Role::ALL.into_iter().filter(|role| Self::of(*role) == Some(self));
        let words = roles.flat_map(|role| [&[role.name()], role.other_names()].concat());
        words.filter(|word| *word != self.name()).collect()
    }

    /// Roles of its weights, of which a layer has some.
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

impl RoleGroup for Lname {
    const ALL: &'static [Self] = &Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    /// None of a network that is no language model does.
    fn covers(self, role: SlotRole) -> bool {
        self.roles().iter().any(|own| own.of_slots() == role)
    }

    fn is_none(self) -> bool {
        self == Self::Dont
    }
}

/// All [`Lname::name`]s, for messages.
const LNAMES: [&str; 11] = {
    let mut names = [""; 11];
    let mut k = 0;
    while k < names.len() {
        names[k] = Lname::ALL[k].name();
        k += 1;
    }
    names
};

impl<'de> Deserialize<'de> for Lname {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Self::parse(&word).ok_or_else(|| serde::de::Error::unknown_variant(&word, &LNAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_role_in_layers_is_a_name_here_and_the_other_way_round() {
        for role in Role::ALL {
            for word in [&[role.name()], role.other_names()].concat() {
                assert_eq!(Role::parse(word), Some(role));
                let read: Role = serde_json::from_value(word.into()).expect("a role");
                assert_eq!(read, role);
                let Some(lname) = Lname::of(role) else { continue };
                assert_eq!(Lname::parse(word).map(Lname::roles), Some(lname.roles()), "{word}");
                assert!(lname.roles().contains(&role));
            }
        }
        for lname in Lname::ALL {
            for word in lname.other_names().into_iter().chain([lname.name()]) {
                let read: Lname = serde_json::from_value(word.into()).expect("a name");
                assert_eq!(read, lname, "{word}");
            }
        }
        let unknown = serde_json::from_value::<Role>("q_prj".into()).unwrap_err().to_string();
        assert!(unknown.contains("unknown variant `q_prj`, expected one of `query`"), "{unknown}");
    }
}
