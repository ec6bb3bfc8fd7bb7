//! Description of a potential, as it is saved and reported.

use crate::jobs::kit::outcome::{page, table};
use linwright_molecule::PriorInfo;
use linwright_molecule::tensornet::{Group, TensorNetConfig};
use linwright_report::number::grouped;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A molecular potential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PotentialInfo {
    /// The potential.
    pub potential: String,
    /// Number of models. They have the same units, species and head; the rest is that of the first.
    pub members: usize,
    /// Predicted quantity.
    pub predicts: String,
    /// Number of parameters.
    pub parameters: u64,
    /// Kinds of the operators in place of dense weights, by site.
    pub operators: BTreeMap<String, String>,
    /// The architecture, with the names of torchmd-net.
    pub architecture: TensorNetConfig,
    /// Number that is added to the energy.
    pub mean: f64,
    /// Factor of the output of each atom.
    pub std: f64,
    /// What is added to the prediction of the network.
    pub priors: Vec<PriorInfo>,
    /// Units of the potential.
    pub units: PotentialUnits,
    /// Elements that it was trained on, if they are known.
    pub species: Vec<String>,
    /// SHA-256 of the file that it was converted from, if it was.
    pub source_sha256: Option<String>,
}

/// Units of a potential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PotentialUnits {
    /// Unit of energies.
    pub energy: String,
    /// Unit of lengths.
    pub length: String,
}

impl Report for PotentialInfo {
    const KIND: &'static str = "molecule-info";

    fn document(&self) -> Document {
        let Self { architecture, operators, species, units, .. } = self;
        let TensorNetConfig { channels, layers, radial, cutoff_upper: cutoff, .. } = architecture;
        let priors: Vec<&str> = self.priors.iter().map(PriorInfo::name).collect();
        let or = |list: String, none: &str| if list.is_empty() { none.to_owned() } else { list };
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        let rows = vec![
            row("models", self.members.to_string()),
            row("predicts", self.predicts.replace('_', " ")),
            row("parameters", grouped(self.parameters)),
            row("operators in place of dense weights", operators.len().to_string()),
            row("channels", channels.to_string()),
            row("layers", layers.to_string()),
            row("radial functions", radial.to_string()),
            row("group", group(architecture.group).to_owned()),
            row("cutoff", format!("{cutoff} {}", units.length)),
            row("units", format!("{}, {}", units.energy, units.length)),
            row("species", or(species.join(" "), "not told")),
            row("priors", or(priors.join(", "), "none")),
        ];
        page(vec![table(&["", "value"], rows)])
    }
}

fn group(group: Group) -> &'static str {
    match group {
        Group::Orthogonal => "O(3)",
        Group::Rotations => "SO(3)",
    }
}
