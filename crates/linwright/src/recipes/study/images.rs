//! Studies of small networks for images.

use super::Study;
use crate::jobs::kit::inputs::InputHash;
use crate::jobs::kit::{Failure, Outcome, Session, shards};
use linwright_evaluate::TaskResult;
use linwright_nets::{Net, NetError, NetSpec, OpenedNet};
use linwright_ops::{LinearSlot, Network, Sites};
use linwright_run::{Monitor, Provenance};
use linwright_study as study;
use linwright_study::ImageTrial;
use linwright_study::recipe::{ImageCalibration, ImageEvaluation, ImageRecipe};
use linwright_study::report::ModelSummary;
use std::path::{Path, PathBuf};

/// A study of a small network for images.
struct ImageStudy<'a> {
    recipe: &'a ImageRecipe,
    model: &'a OpenedNet,
    /// Description and weights, or the directory of both.
    files: Vec<PathBuf>,
    trial: ImageTrial<'a>,
}

/// Runs a study of a small network for images.
pub(in crate::recipes) fn run(
    name: &str,
    recipe: &ImageRecipe,
    output: Option<&Path>,
    dry_run: bool,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    shards::output_of(session, output)?;
    session.step(&format!("loading {}", recipe.model));
    let path = Path::new(&recipe.model);
    let (model, files) = (&Net::open(path)?, files_of(path)?);
    // Results do not depend on the folder of the run.
    let recipe = &ImageRecipe { model: session.portable(&recipe.model), ..recipe.clone() };
    study::check(recipe, &model.net)?;
    session.step("reading the images");
    let trial = ImageTrial::open(&model.net, &model.hash, recipe)?;
    super::run(name, &ImageStudy { recipe, model, files, trial }, output, dry_run, session)
}

/// What [`Net::open`] reads.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, NetError> {
    let weights = if path.is_dir() { None } else { NetSpec::read(path)?.1 };
    Ok(std::iter::once(path.to_owned()).chain(weights).collect())
}

impl<'a> Study for ImageStudy<'a> {
    type Calibration = ImageCalibration;
    type Evaluation = ImageEvaluation;
    type Trial = ImageTrial<'a>;

    fn recipe(&self) -> &ImageRecipe {
        self.recipe
    }

    fn trial(&self) -> &ImageTrial<'a> {
        &self.trial
    }

    fn model(&self) -> ModelSummary {
        let net = &self.model.net;
        let last = net.slots().into_iter().filter_map(LinearSlot::layer).max();
        ModelSummary {
            name: self.recipe.model.clone(),
            family: "net".to_owned(),
            parameters: net.parameters(),
            layers: last.map_or(0, |last| last + 1),
            hidden: None,
        }
    }

    fn model_notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn notes(&self) -> Vec<String> {
        self.trial.notes().to_vec()
    }

    fn reads(&self) -> Vec<PathBuf> {
        let [calibration, scored] = self.sources();
        [self.files.clone(), calibration, scored].concat()
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
        let mut provenance = session.provenance_of(name, &self.model.hash, results);
        let [calibration, scored] = self.sources();
        provenance.data =
            super::data_of(&[("evaluation", scored), ("calibration", calibration)], read);
        provenance
    }
}

impl ImageStudy<'_> {
    /// Files of calibration and evaluation, with those of labels.
    fn sources(&self) -> [Vec<PathBuf>; 2] {
        [self.recipe.calibration.source(), self.recipe.eval.source()].map(|source| source.paths())
    }
}
