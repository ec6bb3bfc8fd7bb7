//! The priors of a checkpoint.

use super::Prior;
use crate::checkpoint::Checkpoint;
use crate::error::MoleculeError;
use linwright_run::shown;
use serde_json::Value;

impl Prior {
    /// The priors that the hyper-parameters of a checkpoint name, in order, with their weights.
    ///
    /// # Errors
    /// A prior of an unknown name, without its parameters, or without its weights.
    pub fn of_checkpoint(checkpoint: &Checkpoint) -> Result<Vec<Self>, MoleculeError> {
        let named = match checkpoint.hyper.get("prior_model") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(several)) => several.clone(),
            Some(one) => vec![one.clone()],
        };
        let given = checkpoint.hyper.get("prior_args");
        let mut priors = Vec::with_capacity(named.len());
        for (index, named) in named.iter().enumerate() {
            // Arguments stand with the name, or in a list beside the names.
            let (name, with_name) = match named {
                Value::Object(pairs) if pairs.len() == 1 => pairs
                    .iter()
                    .next()
                    .map_or(("", None), |(name, value)| (name.as_str(), Some(value))),
                other => (other.as_str().unwrap_or(""), None),
            };
            let beside = match given {
                Some(Value::Array(several)) => several.get(index),
                other => other,
            };
            let parameters = with_name.filter(|value| value.is_object()).or(beside);
            priors.extend(one(checkpoint, index, name, parameters)?);
        }
        Ok(priors)
    }
}

/// The prior of a name; none if it is switched off.
fn one(
    checkpoint: &Checkpoint,
    index: usize,
    name: &str,
    parameters: Option<&Value>,
) -> Result<Option<Prior>, MoleculeError> {
    let length = |key: &str| {
        let value = parameters.and_then(|values| values.get(key)).and_then(Value::as_f64);
        value.filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(|| MoleculeError::Prior {
            what: format!("{name} has no length {key} among the hyper-parameters; expected a number that is not negative"),
        })
    };
    let prior = match name {
        "Atomref" | "LearnableAtomref" => {
            let enable = parameters.and_then(|values| values.get("enable"));
            if enable == Some(&Value::Bool(false)) {
                return Ok(None);
            }
            atomref(checkpoint, index)?
        }
        "ZBL" => Prior::Zbl { cutoff: length("cutoff_distance")? },
        "D2" => Prior::D2 { cutoff: length("cutoff_distance")? },
        "Coulomb" => {
            // The reference counts these in nanometres.
            let ends = [length("lower_switch_distance")?, length("upper_switch_distance")?];
            Prior::Coulomb { switch: ends.map(|end| 10.0 * end) }
        }
        other => {
            let what = format!(
                "{} is unknown; expected Atomref, LearnableAtomref, ZBL, D2 or Coulomb",
                shown(other)
            );
            return Err(MoleculeError::Prior { what });
        }
    };
    let ordered = match &prior {
        Prior::Zbl { cutoff } | Prior::D2 { cutoff } => *cutoff > 0.0,
        Prior::Coulomb { switch: [from, to] } => from < to,
        Prior::Atomref { .. } => true,
    };
    let what = || {
        format!("{name} has distances that are out of order; expected 0 < cutoff, or lower < upper")
    };
    if ordered { Ok(Some(prior)) } else { Err(MoleculeError::Prior { what: what() }) }
}

/// Energies of atoms from the weights of the prior of this number.
fn atomref(checkpoint: &Checkpoint, index: usize) -> Result<Prior, MoleculeError> {
    let names = ["atomref.weight", "initial_atomref"];
    let names = names.map(|name| format!("prior_model.{index}.{name}"));
    let found = names.iter().find_map(|name| checkpoint.tensors.get(name));
    match found {
        Some(weight) => Ok(Prior::Atomref { energies: weight.to_f64() }),
        None => Err(MoleculeError::Prior {
            what: format!("Atomref has no tensor {}; the checkpoint is damaged", names[0]),
        }),
    }
}
