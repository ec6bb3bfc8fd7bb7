//! Scores of a small network on labelled images.

mod result;

use self::result::NetScores;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, WithOptions, outputs};
use crate::jobs::nets::images::ImageOptions;
use linwright_nets::{Net, OpenedNet, labelled, score};
use linwright_ops::Network;
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_run::place::is_result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A small network scored on labelled images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EvalNet {
    /// A directory that train-net wrote, or a file that describes the layers and names their
    /// weights.
    #[schemars(extend("x-positional" = true))]
    pub net: String,
    /// Labelled images: an idx or npy file, binary records of CIFAR, or a folder with a sub-folder
    /// of PNG files for each class, with keys: `FILE:labels=FILE,examples=0-7999`.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE", "x-required" = true))]
    pub images: WithOptions<ImageOptions>,
    /// Also write the result as JSON to this file.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Overwrite an existing result.
    pub force: bool,
}

impl Job for EvalNet {
    const VERB: &str = "eval-net";
    const ABOUT: &str = "Measure accuracy and cross-entropy of a small network on labelled images.";
    const OUTPUT_ENDING: &str = ".json";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<NetScores>()];

    fn inputs(&self) -> Vec<PathBuf> {
        std::iter::once(PathBuf::from(&self.net)).chain(self.images.inputs()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if let Some(path) = &self.output {
            let inputs = outputs::inputs_of(self, session);
            outputs::file(path, self.force, &inputs, session, is_result)?;
        } else if self.force {
            return Err(Failure::usage("--force: nothing is written").hint("give --output"));
        }
        session.step(&format!("loading {}", self.net));
        let OpenedNet { net, hash } = Net::open(Path::new(&self.net))?;
        session.step("reading the images");
        let images = self.images.read()?;
        let examples = labelled(&images)?;
        session.step("evaluating");
        let scores = score(&net, &examples, session)?;
        session.finish();
        let (loss, acc) = (scores.loss, scores.accuracy);
        let result = NetScores {
            net: session.portable(&self.net),
            net_sha256: hash,
            parameters: net.parameters(),
            images: session.portable(&self.images.images),
            images_sha256: images.sha256().to_owned(),
            examples: scores.examples,
            acc: acc.map(|acc| acc.value),
            acc_stderr: acc.map(|acc| acc.stderr),
            cross_entropy: loss.value,
            cross_entropy_stderr: loss.stderr,
        };
        if let Some(path) = &self.output {
            outputs::write_report(path, &result, self.force)?;
            session.note(&format!("wrote {}", path.display()));
        }
        Ok(Outcome::of(result))
    }
}
