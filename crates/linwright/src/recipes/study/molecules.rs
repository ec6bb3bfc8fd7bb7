//! Studies of molecular potentials.

use super::Study;
use crate::jobs::kit::inputs::InputHash;
use crate::jobs::kit::{Failure, Outcome, Session, shards};
use linwright_evaluate::TaskResult;
use linwright_molecule::Checkpoint;
use linwright_ops::Network;
use linwright_run::{Monitor, Provenance};
use linwright_study as study;
use linwright_study::recipe::{MoleculeRecipe, StructureCalibration, StructureEvaluation};
use linwright_study::report::ModelSummary;
use linwright_study::{MoleculeTrial, StudiedPotential};
use std::path::{Path, PathBuf};

/// A study of a molecular potential.
struct MoleculeStudy<'a> {
    recipe: &'a MoleculeRecipe,
    potential: &'a StudiedPotential,
    file: PathBuf,
    trial: MoleculeTrial<'a>,
}

/// Runs a study of a molecular potential.
pub(in crate::recipes) fn run(
    name: &str,
    recipe: &MoleculeRecipe,
    output: Option<&Path>,
    dry_run: bool,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    shards::output_of(session, output)?;
    session.step(&format!("loading {}", recipe.model));
    let path = Path::new(&recipe.model);
    let (potential, file) = (&StudiedPotential::open(path)?, Checkpoint::file_of(path));
    // Results do not depend on the folder of the run.
    let recipe = &MoleculeRecipe { model: session.portable(&recipe.model), ..recipe.clone() };
    study::check(recipe, &potential.network)?;
    session.step("reading the structures");
    let trial = MoleculeTrial::open(potential, recipe)?;
    super::run(name, &MoleculeStudy { recipe, potential, file, trial }, output, dry_run, session)
}

impl<'a> Study for MoleculeStudy<'a> {
    type Calibration = StructureCalibration;
    type Evaluation = StructureEvaluation;
    type Trial = MoleculeTrial<'a>;

    fn recipe(&self) -> &MoleculeRecipe {
        self.recipe
    }

    fn trial(&self) -> &MoleculeTrial<'a> {
        &self.trial
    }

    fn model(&self) -> ModelSummary {
        let network = &self.potential.network;
        ModelSummary {
            name: self.recipe.model.clone(),
            family: "tensornet".to_owned(),
            parameters: network.parameters(),
            layers: network.config().layers,
            hidden: Some(network.config().channels),
        }
    }

    fn model_notes(&self) -> Vec<String> {
        self.potential.model.checkpoint.notes.clone()
    }

    fn notes(&self) -> Vec<String> {
        self.trial.notes().to_vec()
    }

    fn reads(&self) -> Vec<PathBuf> {
        let [calibration, scored] = self.sources();
        vec![self.file.clone(), calibration, scored]
    }

    fn digests(&self) -> Vec<String> {
        vec![self.trial.scored_sha256().to_owned()]
    }

    fn provenance(
        &self,
        name: &str,
        results: &[TaskResult],
        read: &[InputHash],
        session: &Session<'_>,
    ) -> Provenance {
        let mut provenance = session.provenance_of(name, &self.potential.hash, results);
        let [calibration, scored] = self.sources().map(|path| vec![path]);
        provenance.data =
            super::data_of(&[("evaluation", scored), ("calibration", calibration)], read);
        provenance
    }
}

impl MoleculeStudy<'_> {
    /// Files of calibration and evaluation.
    fn sources(&self) -> [PathBuf; 2] {
        [&self.recipe.calibration.structures, &self.recipe.eval.structures].map(PathBuf::clone)
    }
}
