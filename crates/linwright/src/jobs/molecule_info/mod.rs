//! What a molecular potential is.

use super::outcome::table;
use super::{Failure, Job, Outcome, Session};
use linwright_molecule::{Ensemble, PriorChoices, symbol};
use linwright_ops::LinearSlot;
use linwright_report::number::grouped;
use linwright_run::Monitor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a molecular potential is.
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
        let priors: Vec<String> = model.priors.iter().map(|prior| format!("{prior:?}")).collect();
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
            row("cutoff", format!("{} {}", config.cutoff_upper, units[1])),
            row("units", units.join(", ")),
            row("species", if species.is_empty() { "not told".into() } else { species.join(" ") }),
            row("priors", priors.len().to_string()),
        ];
        Ok(Outcome::new(result, vec![table(&["", "value"], rows)]))
    }
}
