//! Options that select weights.

use crate::jobs::kit::named::{NameList, Names};
use crate::jobs::kit::{JobError, Name, parse_layer_sets, parse_layers};
use linwright_compress::SlotSet;
use linwright_compress::intervention::{FusedPart, Lname};
use linwright_model::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `--layers all`.
const ALL_LAYERS: &str = "all";

/// Linear layers by layer, role and name: all conditions hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SlotOptions {
    /// Layers, counted from zero: `26`, `27-17`, `0,3` [default: all]. `sweep` and `compose` cut
    /// each apart, and `all` at once; `compare` takes sets of layers, `4/4,5`, one after the other.
    #[schemars(extend("x-value" = "LAYERS", "examples" = ["0-1"]))]
    pub layers: Option<String>,
    /// Roles of linear layers, the names of the LASER paper, or `attn`, `mlp`, `all` [default: all
    /// linear layers of a transformer layer; `laser`, `sweep` and `compose` need them, or --sites].
    #[schemars(with = "Vec<Names<RoleName>>")]
    pub roles: Vec<RoleName>,
    /// Names of linear layers: a glob such as `*.mlp.*`, or a regular expression after `re:`
    /// [default: all]. `sweep` and `compose` cut those of each pattern, and of each role, apart.
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub sites: Vec<String>,
    /// Names of linear layers to leave as they are: a glob or, after `re:`, a regular expression.
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub ignore: Vec<String>,
}

impl SlotOptions {
    /// The layers, in order; none if all.
    ///
    /// # Errors
    /// [`JobError`] if `layers` names no layers, or one twice.
    pub fn layers(&self) -> Result<Option<Vec<usize>>, JobError> {
        match self.layers.as_deref() {
            None | Some(ALL_LAYERS) => Ok(None),
            Some(text) => {
                let layers = parse_layers("layers", text);
                layers.map(Some).map_err(|error| error.hint("`all` means all layers"))
            }
        }
    }

    /// Sets of layers, divided by slashes; none if all.
    ///
    /// # Errors
    /// As [`Self::layers`], and for one set twice.
    pub fn sets(&self) -> Result<Option<Vec<Vec<usize>>>, JobError> {
        match self.layers.as_deref() {
            None | Some(ALL_LAYERS) => Ok(None),
            Some(text) => {
                let sets = parse_layer_sets("layers", text);
                sets.map(Some).map_err(|error| error.hint("`all` means all layers"))
            }
        }
    }

    /// Whether all layers are cut at once: `--layers all`.
    #[must_use]
    pub fn all_at_once(&self) -> bool {
        self.layers.as_deref() == Some(ALL_LAYERS)
    }

    /// The weights as a set; all of the layers if none are named.
    ///
    /// # Errors
    /// As [`Self::layers`].
    pub fn set(&self) -> Result<SlotSet, JobError> {
        Ok(SlotSet { layers: self.layers()?, ..self.set_of_all() })
    }

    /// The weights as a set, whatever their layers.
    #[must_use]
    pub fn set_of_all(&self) -> SlotSet {
        let roles = self.roles.iter().filter_map(|name| name.role()).map(|role| role.to_string());
        let groups = self.roles.iter().filter(|name| name.role().is_none());
        SlotSet {
            lnames: groups.filter_map(|name| name.lname()).collect(),
            roles: roles.collect(),
            layers: None,
            patterns: self.sites.clone(),
            ignore: self.ignore.clone(),
        }
    }

    /// The same for cuts, where a name of the paper is a set of its own.
    ///
    /// # Errors
    /// As [`Self::layers`].
    pub fn set_of_cuts(&self) -> Result<SlotSet, JobError> {
        let roles = self.single_roles().iter().map(ToString::to_string).collect();
        Ok(SlotSet { lnames: self.lnames(), roles, ..self.set()? })
    }

    /// Names of the paper among the roles.
    #[must_use]
    pub fn lnames(&self) -> Vec<Lname> {
        self.roles.iter().filter_map(|name| name.lname()).collect()
    }

    /// The other roles.
    #[must_use]
    pub fn single_roles(&self) -> Vec<Role> {
        let roles = self.roles.iter().filter(|name| name.lname().is_none());
        roles.filter_map(|name| name.role()).collect()
    }

    /// Checks that weights are named, or parts of them.
    ///
    /// # Errors
    /// [`JobError`] if neither is.
    pub fn check_named(&self, parts: &[FusedPart]) -> Result<(), JobError> {
        match self.roles.is_empty() && self.sites.is_empty() && parts.is_empty() {
            false => Ok(()),
            true => Err(JobError::new("no weights are selected")
                .hint("give --roles mlp,attn, --sites PATTERN or --intervention rank-reduction:part=key, and --layers LAYER")),
        }
    }
}

/// Roles of the linear layers of a transformer layer.
const ROLES: [Role; 11] = [
    Role::Query,
    Role::Key,
    Role::Value,
    Role::QueryKeyValue,
    Role::Output,
    Role::Gate,
    Role::Up,
    Role::GateUp,
    Role::Down,
    Role::FcIn,
    Role::FcOut,
];

/// A name of linear layers of a transformer layer: a role, or a name of the LASER paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleName(&'static str);

impl RoleName {
    /// The name of the paper, if it is one.
    fn lname(self) -> Option<Lname> {
        Lname::ALL.into_iter().find(|lname| lname.name() == self.0)
    }

    /// The role of which this is a name, if there is one.
    fn role(self) -> Option<Role> {
        Role::parse(self.0)
    }

    /// Every name with its aliases.
    fn all() -> Vec<(Self, Vec<&'static str>)> {
        let papers = Lname::ALL.map(Lname::name);
        let is_free = |name: &&str| !papers.contains(name);
        let mut all = Vec::new();
        for role in ROLES.into_iter().filter(|role| is_free(&role.name())) {
            let others = role.other_names().iter().copied().filter(|name| is_free(name));
            all.push((Self(role.name()), others.collect()));
        }
        all.extend(papers.map(|name| (Self(name), Vec::new())));
        all
    }
}

impl NameList for RoleName {
    fn names() -> Vec<Name> {
        Self::all().iter().map(|(name, others)| Name::new(name.0).with_others(others)).collect()
    }
}

impl Serialize for RoleName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for RoleName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let all = Self::all();
        let known = all.iter().find(|(name, others)| name.0 == word || others.contains(&&*word));
        known.map(|(name, _)| *name).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(name, _)| name.0).collect();
            serde::de::Error::custom(format!("{word} is none of {}", names.join(", ")))
        })
    }
}
