//! Description of a molecular potential.

use crate::jobs::kit::outcome::table;
use crate::jobs::kit::{Failure, Job, Outcome, Session};
use linwright_molecule::tensornet::Group;
use linwright_molecule::{Ensemble, Prior, PriorChoices, symbol};
use linwright_ops::LinearSlot;
use linwright_report::number::grouped;
use linwright_run::Monitor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Description of a molecular potential.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MoleculeInfo {
    /// A checkpoint of torchmd-net (`.ckpt`), a `.safetensors`, or a directory with
    /// `model.safetensors`; or an ensemble: a directory of several, or a `.zip` of torchmd-net.
    #[schemars(extend("x-positional" = true))]
    pub potential: String,
}

impl Job for MoleculeInfo {
    const VERB: &str = "molecule-info";
    const ABOUT: &str = "Architecture, size, units and species of a molecular potential.";

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.potential)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        session.step(&format!("loading {}", self.potential));
        let ensemble = Ensemble::open(&[&self.potential], PriorChoices::default())?;
        // Members have the same units, species and head; the rest is that of the first.
        let (model, members) = (&ensemble.members()[0], ensemble.members().len());
        session.finish();
        let checkpoint = &model.checkpoint;
        checkpoint.notes.iter().for_each(|note| session.note(note));
        let config = model.network.config();
        let (mean, std) = model.network.offset_and_scale();
        let species: Vec<&str> =
            checkpoint.species.iter().filter_map(|number| symbol(*number)).collect();
        let units = [checkpoint.units.energy.name(), checkpoint.units.length.name()];
        let priors: Vec<Value> = model.priors.iter().map(told).collect();
        let names: Vec<&str> = model.priors.iter().map(Prior::name).collect();
        let of_slots: usize = model.network.linears().into_iter().map(LinearSlot::parameters).sum();
        let parameters = model.network.parameters_outside_operators() + of_slots as u64;
        let operators: BTreeMap<&str, &str> =
            checkpoint.operators.iter().map(|(site, spec)| (site.as_str(), spec.kind())).collect();
        let result = json!({
            "schema": 1,
            "linwright": session.build().version,
            "potential": session.portable(&self.potential),
            "members": members,
            "predicts": config.head.property(),
            "parameters": parameters,
            "operators": operators,
            "architecture": config,
            "mean": mean,
            "std": std,
            "priors": priors,
            "units": { "energy": units[0], "length": units[1] },
            "species": species,
            "source_sha256": checkpoint.source,
        });
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        let rows = vec![
            row("models", members.to_string()),
            row("predicts", config.head.property().replace('_', " ")),
            row("parameters", grouped(parameters)),
            row("operators in place of dense weights", operators.len().to_string()),
            row("channels", config.channels.to_string()),
            row("layers", config.layers.to_string()),
            row("radial functions", config.radial.to_string()),
            row("group", group(config.group).to_owned()),
            row("cutoff", format!("{} {}", config.cutoff_upper, units[1])),
            row("units", units.join(", ")),
            row("species", if species.is_empty() { "not told".into() } else { species.join(" ") }),
            row("priors", if names.is_empty() { "none".into() } else { names.join(", ") }),
        ];
        Ok(Outcome::new(result, vec![table(&["", "value"], rows)]))
    }
}

/// A prior with its numbers; energies of atoms that are not zero, by element.
fn told(prior: &Prior) -> Value {
    let mut told = json!({ "name": prior.name() });
    match prior {
        Prior::Atomref { energies } => {
            let known = energies.iter().enumerate().filter(|(_, energy)| **energy != 0.0);
            let named = known.filter_map(|(number, energy)| {
                let symbol = u8::try_from(number).ok().and_then(symbol)?;
                Some((symbol.to_owned(), json!(energy)))
            });
            told["energies"] = Value::Object(named.collect());
        }
        Prior::Coulomb { switch, compat } => {
            (told["switch"], told["compat"]) = (json!(switch), json!(compat));
        }
        other => told["cutoff"] = json!(other.cutoff()),
    }
    told
}

fn group(group: Group) -> &'static str {
    match group {
        Group::Orthogonal => "O(3)",
        Group::Rotations => "SO(3)",
    }
}
