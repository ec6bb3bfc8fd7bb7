//! Description of a molecular potential.

mod result;

use self::result::{PotentialInfo, PotentialUnits};
use crate::jobs::kit::{Failure, Job, Outcome, Session};
use linwright_molecule::{Ensemble, PriorChoices, PriorInfo, symbol};
use linwright_ops::LinearSlot;
use linwright_report::ReportKind;
use linwright_run::Monitor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<PotentialInfo>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.potential)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        session.step(&format!("loading {}", self.potential));
        let ensemble = Ensemble::open(&[&self.potential], PriorChoices::default())?;
        let model = &ensemble.members()[0];
        session.finish();
        let checkpoint = &model.checkpoint;
        checkpoint.notes.iter().for_each(|note| session.note(note));
        let config = model.network.config();
        let (mean, std) = model.network.offset_and_scale();
        let species = checkpoint.species.iter().filter_map(|number| symbol(*number));
        let of_slots: usize = model.network.linears().into_iter().map(LinearSlot::parameters).sum();
        let operators = checkpoint.operators.iter();
        Ok(Outcome::of(PotentialInfo {
            potential: session.portable(&self.potential),
            members: ensemble.members().len(),
            predicts: config.head.property().to_owned(),
            parameters: model.network.parameters_outside_operators() + of_slots as u64,
            operators: operators
                .map(|(site, spec)| (site.clone(), spec.kind().to_owned()))
                .collect(),
            architecture: config.clone(),
            mean,
            std,
            priors: model.priors.iter().map(PriorInfo::from).collect(),
            units: PotentialUnits {
                energy: checkpoint.units.energy.name().to_owned(),
                length: checkpoint.units.length.name().to_owned(),
            },
            species: species.map(str::to_owned).collect(),
            source_sha256: checkpoint.source.clone(),
        }))
    }
}
