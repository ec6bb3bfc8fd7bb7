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

/// What the paper's code calls the weights of one of its models, by `--lname`; a name that is not here it
/// does not know.
#[derive(Clone, Copy, Debug)]
pub struct PublishedNames {
    /// The model in its code.
    pub model: &'static str,
    /// Names, and the ends of the names of tensors.
    pub names: &'static [(Lname, &'static [&'static str])],
}

/// The table of the paper's code, for whoever reads its scripts and logs. Linwright goes by roles
/// ([`Lname::roles`]), which gives the same weights and knows every family.
pub const PUBLISHED_NAMES: &[PublishedNames] = &[
    PublishedNames {
        model: "gptj",
        names: &[
            (Lname::KProj, &["attn.k_proj.weight"]),
            (Lname::QProj, &["attn.q_proj.weight"]),
            (Lname::VProj, &["attn.v_proj.weight"]),
            (Lname::OutProj, &["attn.out_proj.weight"]),
            (Lname::FcIn, &["mlp.fc_in.weight"]),
            (Lname::FcOut, &["mlp.fc_out.weight"]),
            (Lname::Mlp, &["mlp.fc_in.weight", "mlp.fc_out.weight"]),
            (
                Lname::Attn,
                &[
                    "attn.k_proj.weight",
                    "attn.q_proj.weight",
                    "attn.v_proj.weight",
                    "attn.out_proj.weight",
                ],
            ),
            (
                Lname::All,
                &[
                    "attn.k_proj.weight",
                    "attn.q_proj.weight",
                    "attn.v_proj.weight",
                    "attn.out_proj.weight",
                    "mlp.fc_in.weight",
                    "mlp.fc_out.weight",
                ],
            ),
        ],
    },
    PublishedNames {
        model: "llama2",
        names: &[
            (Lname::KProj, &["self_attn.k_proj.weight"]),
            (Lname::QProj, &["self_attn.q_proj.weight"]),
            (Lname::VProj, &["self_attn.v_proj.weight"]),
            (Lname::OutProj, &["self_attn.o_proj.weight"]),
            (Lname::FcIn, &["mlp.gate_proj.weight"]),
            (Lname::FcUp, &["mlp.up_proj.weight"]),
            (Lname::FcOut, &["mlp.down_proj.weight"]),
            (Lname::Mlp, &["mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"]),
            (
                Lname::Attn,
                &[
                    "self_attn.k_proj.weight",
                    "self_attn.q_proj.weight",
                    "self_attn.v_proj.weight",
                    "self_attn.o_proj.weight",
                ],
            ),
            (
                Lname::All,
                &[
                    "mlp.gate_proj.weight",
                    "mlp.up_proj.weight",
                    "mlp.down_proj.weight",
                    "self_attn.k_proj.weight",
                    "self_attn.q_proj.weight",
                    "self_attn.v_proj.weight",
                    "self_attn.o_proj.weight",
                ],
            ),
        ],
    },
    PublishedNames {
        model: "phi1_5",
        names: &[
            (Lname::KProj, &["mixer.Wqkv.weight"]),
            (Lname::QProj, &["mixer.Wqkv.weight"]),
            (Lname::VProj, &["mixer.Wqkv.weight"]),
            (Lname::OutProj, &["mixer.out_proj.weight"]),
            (Lname::FcIn, &["mlp.fc1.weight"]),
            (Lname::FcOut, &["mlp.fc2.weight"]),
            (Lname::Mlp, &["mlp.fc1.weight", "mlp.fc2.weight"]),
            (Lname::Attn, &["mixer.Wqkv.weight", "mixer.out_proj.weight"]),
            (
                Lname::All,
                &["mlp.fc1.weight", "mlp.fc2.weight", "mixer.Wqkv.weight", "mixer.out_proj.weight"],
            ),
        ],
    },
    PublishedNames {
        model: "roberta",
        names: &[
            (Lname::KProj, &["attention.self.key.weight"]),
            (Lname::QProj, &["attention.self.query.weight"]),
            (Lname::VProj, &["attention.self.value.weight"]),
            (Lname::OutProj, &["attention.output.dense.weight"]),
            (Lname::FcIn, &["intermediate.dense.weight"]),
            (Lname::FcOut, &["output.dense.weight"]),
        ],
    },
    PublishedNames {
        model: "decision_transformer",
        names: &[
            (Lname::KProj, &["attn.c_attn.weight"]),
            (Lname::OutProj, &["attn.c_proj.weight"]),
            (Lname::FcIn, &["mlp.c_fc.weight"]),
            (Lname::FcOut, &["mlp.c_proj.weight"]),
        ],
    },
];

impl PublishedNames {
    /// The ends of the names of tensors that a name stands for.
    #[must_use]
    pub fn of(&self, lname: Lname) -> Option<&'static [&'static str]> {
        self.names.iter().find(|(name, _)| *name == lname).map(|(_, ends)| *ends)
    }
}
