//! Options that select weights.

use crate::jobs::kit::named::Names;
use crate::jobs::kit::{JobError, parse_layers};
use linwright_compress::SlotSet;
use linwright_compress::intervention::{FusedPart, Lname};
use linwright_model::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Weights by the names of the LASER paper, by role or by name, and layers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SlotOptions {
    /// Weights by the names of the paper: k_proj, q_proj, v_proj, out_proj, fc_in, fc_up, fc_out,
    /// mlp, attn, all, dont.
    #[schemars(with = "Vec<Names<Lname>>")]
    pub lname: Vec<Lname>,
    /// Layers, counted from zero: `26`, `27-17`, `0,3`; -1 means all layers at once.
    #[schemars(extend("x-value" = "LAYERS", "x-hyphen" = true, "examples" = ["0-1"]))]
    pub lnum: Option<String>,
    /// Roles of weights, in addition to --lname.
    #[schemars(with = "Vec<Names<Role>>")]
    pub roles: Vec<Role>,
    /// Linear layers with matching names: a glob such as `*.mlp.*`, or a regular expression after
    /// `re:`; of those that --lname and --roles name, if these are given. `sweep` and `compose` cut
    /// the weights of each name and pattern apart, other commands those of all together.
    #[schemars(extend("x-value" = "PATTERN", "x-whole" = true))]
    pub site: Vec<String>,
}

impl SlotOptions {
    /// The layers, in order; none if all at once.
    ///
    /// # Errors
    /// [`JobError`] if `lnum` names no layers, or one twice.
    pub fn layers(&self) -> Result<Option<Vec<usize>>, JobError> {
        match self.lnum.as_deref() {
            None | Some("-1") => Ok(None),
            Some(text) => {
                let layers = parse_layers("lnum", text);
                layers.map(Some).map_err(|error| error.hint("-1 means all layers at once"))
            }
        }
    }

    /// Whether all layers are cut at once: `--lnum -1`.
    #[must_use]
    pub fn all_at_once(&self) -> bool {
        self.lnum.as_deref() == Some("-1")
    }

    /// The weights as a set; all of the layers if none are named.
    ///
    /// # Errors
    /// As [`Self::layers`].
    pub fn set(&self) -> Result<SlotSet, JobError> {
        let roles = self.roles.iter().map(ToString::to_string).collect();
        let (lnames, patterns) = (self.lname.clone(), self.site.clone());
        Ok(SlotSet { lnames, roles, layers: self.layers()?, patterns, ignore: Vec::new() })
    }

    /// Checks that weights are named, or parts of them.
    ///
    /// # Errors
    /// [`JobError`] if neither is.
    pub fn check_named(&self, parts: &[FusedPart]) -> Result<(), JobError> {
        let names = !(self.lname.is_empty() && self.roles.is_empty() && self.site.is_empty());
        match names || !parts.is_empty() {
            true => Ok(()),
            false => Err(JobError::new("no weights are selected").hint(
                "give --lname NAME, --roles ROLE, --site PATTERN or --part PART, and --lnum LAYER",
            )),
        }
    }
}
