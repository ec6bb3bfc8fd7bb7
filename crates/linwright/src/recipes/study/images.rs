//! Studies of small networks for images.

use super::Study;
use super::net::{OpenNet, open_net};
use crate::jobs::inputs::InputHash;
use crate::jobs::{Failure, Outcome, Session, shards};
use linwright_compress::recipe::{ImageCalibration, ImageEvaluation, ImageRecipe};
use linwright_compress::report::ModelSummary;
use linwright_compress::study::{self, ImageTrial};
use linwright_evaluate::TaskResult;
use linwright_ops::{LinearSlot, Network, Sites};
use linwright_run::{DataSource, Monitor, Provenance};
use std::path::{Path, PathBuf};

/// A study of a small network for images.
struct ImageStudy<'a> {
    recipe: &'a ImageRecipe,
    model: &'a OpenNet,
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
    let model = &open_net(Path::new(&recipe.model))?;
    study::check(recipe, &model.net)?;
    session.step("reading the images");
    let trial = ImageTrial::open(&model.net, &model.sha256, recipe)?;
    super::run(name, &ImageStudy { recipe, model, trial }, output, dry_run, session)
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
        self.trial.notes()
    }

    fn reads(&self) -> Vec<PathBuf> {
        let [calibration, scored] = self.sources();
        [self.model.files.clone(), calibration, scored].concat()
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
        let mut provenance = session.provenance_of(name, &self.model.sha256, results);
        let [calibration, scored] = self.sources();
        let all = [("evaluation", scored), ("calibration", calibration)];
        let data = all.iter().flat_map(|(purpose, paths)| {
            let own = read.iter().filter(|known| paths.contains(&known.path));
            own.map(|known| DataSource {
                purpose: (*purpose).to_owned(),
                path: known.path.display().to_string(),
                sha256: known.sha256.clone(),
            })
        });
        provenance.data = data.collect();
        provenance
    }
}

impl ImageStudy<'_> {
    /// Files of calibration and evaluation, with those of labels.
    fn sources(&self) -> [Vec<PathBuf>; 2] {
        [self.recipe.calibration.source(), self.recipe.eval.source()].map(|source| source.paths())
    }
}
