//! Options that select weights.

use super::named::Names;
use super::{JobError, parse_layers};
use linwright_compress::SlotSet;
use linwright_compress::intervention::Lname;
use linwright_model::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Weights by the names of the LASER paper, and layers.
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

    /// The weights as a set, with roles and a pattern of names besides.
    ///
    /// # Errors
    /// [`JobError`] if nothing is selected, and as [`Self::layers`].
    pub fn set(&self, roles: Vec<Role>, pattern: Option<String>) -> Result<SlotSet, JobError> {
        if self.lname.is_empty() && roles.is_empty() && pattern.is_none() {
            return Err(JobError::new("no weights are selected")
                .hint("give --lname NAME, --roles ROLE or --site PATTERN, and --lnum LAYER"));
        }
        let (lnames, patterns) = (self.lname.clone(), pattern.into_iter().collect());
        let roles = roles.iter().map(ToString::to_string).collect();
        Ok(SlotSet { lnames, roles, layers: self.layers()?, patterns, ignore: Vec::new() })
    }
}
