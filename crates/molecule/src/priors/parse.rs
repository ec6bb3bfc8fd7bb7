//! The priors of a checkpoint.

use super::{Prior, PriorChoices};
use crate::checkpoint::Checkpoint;
use crate::error::MoleculeError;
use linwright_run::shown;
use serde_json::Value;

impl Prior {
    /// The priors in the hyper-parameters of a checkpoint, in order, with their weights. Distances
    /// of ZBL and D2 are in the model's unit of length there, those of Coulomb in nanometres.
    ///
    /// # Errors
    /// A prior of an unknown name, without its parameters, or without its weights; atom types that
    /// are not atomic numbers; missing reference energies that are requested.
    pub fn of_checkpoint(
        checkpoint: &Checkpoint,
        choices: PriorChoices,
    ) -> Result<Vec<Self>, MoleculeError> {
        let named = match checkpoint.hyper.get("prior_model") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(several)) => several.clone(),
            Some(one) => vec![one.clone()],
        };
        let given = checkpoint.hyper.get("prior_args");
        let mut priors = Vec::with_capacity(named.len());
        for (index, named) in named.iter().enumerate() {
            // Arguments are given with the name, or in a separate list.
            let pair = named.as_object().filter(|pairs| pairs.len() == 1);
            let (name, with_name) = match pair.and_then(|pairs| pairs.iter().next()) {
                Some((name, value)) => (name.as_str(), Some(value)),
                None => (named.as_str().unwrap_or(""), None),
            };
            let beside = match given {
                Some(Value::Array(several)) => several.get(index),
                other => other,
            };
            let parameters = with_name.filter(|value| value.is_object()).or(beside);
            let source = Source { checkpoint, index, name, parameters };
            priors.extend(source.prior(choices)?);
        }
        let has_energies = priors.iter().any(|prior| matches!(prior, Self::Atomref { .. }));
        if choices.reference_energies && !has_energies {
            let what = "Atomref is not in the checkpoint, and its reference energies are wanted; \
                use the energies without them";
            return Err(MoleculeError::Prior { what: what.into() });
        }
        Ok(priors)
    }
}

/// Location of the description of a prior.
struct Source<'a> {
    checkpoint: &'a Checkpoint,
    /// Number among the priors.
    index: usize,
    name: &'a str,
    parameters: Option<&'a Value>,
}

impl Source<'_> {
    /// The prior; none if it is disabled.
    fn prior(&self, choices: PriorChoices) -> Result<Option<Prior>, MoleculeError> {
        let to_angstrom = self.checkpoint.units.length.factor();
        let prior = match self.name {
            "Atomref" | "LearnableAtomref" => {
                let off = self.parameter("enable") == Some(&Value::Bool(false));
                if off && !choices.reference_energies {
                    return Ok(None);
                }
                self.atomref()?
            }
            "ZBL" => Prior::Zbl { cutoff: self.length("cutoff_distance")? * to_angstrom },
            "D2" => Prior::D2 { cutoff: self.length("cutoff_distance")? * to_angstrom },
            "Coulomb" => {
                let ends =
                    [self.length("lower_switch_distance")?, self.length("upper_switch_distance")?];
                // The reference uses nanometres here.
                Prior::Coulomb { switch: ends.map(|end| 10.0 * end), compat: choices.compat }
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
            Prior::Coulomb { switch: [from, to], .. } => from < to,
            Prior::Atomref { .. } => true,
        };
        if !ordered {
            let what = format!(
                "{} has distances that are out of order; expected 0 < cutoff, or lower < upper",
                self.name
            );
            return Err(MoleculeError::Prior { what });
        }
        self.check_types()?;
        Ok(Some(prior))
    }

    fn parameter(&self, key: &str) -> Option<&Value> {
        self.parameters.and_then(|values| values.get(key))
    }

    fn length(&self, key: &str) -> Result<f64, MoleculeError> {
        let value = self.parameter(key).and_then(Value::as_f64);
        let value = value.filter(|value| value.is_finite() && *value >= 0.0);
        value.ok_or_else(|| MoleculeError::Prior {
            what: format!(
                "{} has no length {key} among the hyper-parameters; expected a number that is not negative",
                self.name
            ),
        })
    }

    /// Rejects a map from atom types to elements, since structures have elements.
    fn check_types(&self) -> Result<(), MoleculeError> {
        let map = self.parameter("atomic_number").and_then(Value::as_array);
        let mut odd = map.into_iter().flatten().enumerate().skip(1);
        match odd.find(|(index, number)| number.as_u64() != Some(*index as u64)) {
            None => Ok(()),
            Some((index, number)) => Err(MoleculeError::Prior {
                what: format!(
                    "{} maps atom type {index} to atomic number {}; expected a model whose atom types are atomic numbers",
                    self.name,
                    shown(&number.to_string())
                ),
            }),
        }
    }

    /// Energies of atoms from the weights of the prior with this number.
    fn atomref(&self) -> Result<Prior, MoleculeError> {
        let names = ["atomref.weight", "initial_atomref"];
        let names = names.map(|name| format!("prior_model.{}.{name}", self.index));
        let found = names.iter().find_map(|name| self.checkpoint.tensors.get(name));
        match found {
            Some(weight) => Ok(Prior::Atomref { energies: weight.to_f64() }),
            None => Err(MoleculeError::Prior {
                what: format!("Atomref has no tensor {}; the checkpoint is damaged", names[0]),
            }),
        }
    }
}
