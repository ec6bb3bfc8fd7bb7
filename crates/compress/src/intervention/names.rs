//! Names of weights in the paper.

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

/// A role of language models that a layer has, its aliases, and the name for it alone: a layer has
/// at most one role of a name.
type Named = (&'static str, &'static [&'static str], Lname);

/// The roles of layers of language models, in the order of computation.
const ROLES: [Named; 11] = [
    ("query", &["q_proj"], Lname::QProj),
    ("key", &["k_proj"], Lname::KProj),
    ("value", &["v_proj"], Lname::VProj),
    ("query_key_value", &["qkv", "qkv_proj", "c_attn"], Lname::QProj),
    ("output", &["o_proj", "out_proj"], Lname::OutProj),
    ("gate", &["gate_proj"], Lname::FcIn),
    ("up", &["up_proj", "fc_up"], Lname::FcUp),
    ("gate_up", &["gate_up_proj"], Lname::FcIn),
    ("down", &["down_proj"], Lname::FcOut),
    ("fc_in", &["fc1", "c_fc"], Lname::FcIn),
    ("fc_out", &["fc2"], Lname::FcOut),
];

const ATTENTION: &[&str] = &["key", "query", "value", "query_key_value", "output"];
const INNER: &[&str] = &["fc_in", "gate", "up", "gate_up", "fc_out", "down"];
const BOTH: &[&str] = &[
    "key",
    "query",
    "value",
    "query_key_value",
    "output",
    "fc_in",
    "gate",
    "up",
    "gate_up",
    "fc_out",
    "down",
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

    /// Parses one of the paper's names, or any name of a role.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let own = Self::ALL.into_iter().find(|name| name.name() == word);
        let is_called = |(role, others, _): &&Named| *role == word || others.contains(&word);
        own.or_else(|| ROLES.iter().find(is_called).map(|(_, _, name)| *name))
    }

    /// Role names that [`Self::parse`] maps to it.
    #[must_use]
    pub fn other_names(self) -> Vec<&'static str> {
        let roles = ROLES.iter().filter(|(_, _, name)| *name == self);
        let words = roles.flat_map(|(role, others, _)| [&[*role], *others].concat());
        words.filter(|word| *word != self.name()).collect()
    }

    /// Roles of its weights, of which a layer has some.
    #[must_use]
    pub fn roles(self) -> &'static [&'static str] {
        match self {
            Self::KProj => &["key", "query_key_value"],
            Self::QProj => &["query", "query_key_value"],
            Self::VProj => &["value", "query_key_value"],
            Self::OutProj => &["output"],
            Self::FcIn => &["fc_in", "gate", "gate_up"],
            Self::FcUp => &["up"],
            Self::FcOut => &["fc_out", "down"],
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
        let known = ROLES.iter().find(|(name, ..)| *name == role.name());
        known.is_some_and(|(name, others, _)| {
            SlotRole::new(name, others) == role && self.roles().contains(name)
        })
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
    use linwright_model::Role;

    #[test]
    fn every_name_of_a_role_in_layers_is_a_name_here_and_the_other_way_round() {
        for role in Role::ALL {
            for word in [&[role.name()], role.other_names()].concat() {
                assert_eq!(Role::parse(word), Some(role));
                let read: Role = serde_json::from_value(word.into()).expect("a role");
                assert_eq!(read, role);
                let known = ROLES.iter().find(|(name, ..)| *name == role.name());
                let Some((_, others, lname)) = known else { continue };
                assert_eq!(*others, role.other_names());
                assert_eq!(Lname::parse(word).map(Lname::roles), Some(lname.roles()), "{word}");
                assert!(lname.roles().contains(&role.name()) && lname.covers(role.of_slots()));
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
