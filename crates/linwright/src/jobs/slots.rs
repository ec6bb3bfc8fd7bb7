//! Options that select weights.

use super::JobError;
use super::named::Names;
use linwright_compress::intervention::{Lname, SlotSet};
use linwright_ops::Role;
use linwright_run::shown;
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
            Some(text) => layers(text).map(Some),
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
        Ok(SlotSet { lnames: self.lname.clone(), roles, layers: self.layers()?, pattern })
    }
}

/// Parses `26`, `27-17`, `0,3` and their combinations, in the order given.
fn layers(text: &str) -> Result<Vec<usize>, JobError> {
    let wrong = || {
        let text = shown(text);
        JobError::new(format!(
            "--lnum \"{text}\": expected layers from zero such as 26, 27-17 or 0,3, or -1 for all at once"
        ))
    };
    let mut layers = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        match part.split_once('-') {
            None => layers.push(number(part)?),
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from.abs_diff(to) > 100_000 {
                    return Err(wrong());
                }
                match from <= to {
                    true => layers.extend(from..=to),
                    false => layers.extend((to..=from).rev()),
                }
            }
        }
    }
    match layers.iter().enumerate().find(|(index, layer)| layers[..*index].contains(layer)) {
        Some((_, layer)) => Err(JobError::new(format!("--lnum names layer {layer} twice"))),
        None => Ok(layers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_rise_and_fall() {
        assert_eq!(layers("26").unwrap(), [26]);
        assert_eq!(layers("5-3,0").unwrap(), [5, 4, 3, 0]);
        assert_eq!(layers("1-3").unwrap(), [1, 2, 3]);
        for wrong in ["", "a", "1-", "3,3", "2-1,1", "-2", "0-99999999"] {
            assert!(layers(wrong).is_err(), "{wrong}");
        }
    }
}
