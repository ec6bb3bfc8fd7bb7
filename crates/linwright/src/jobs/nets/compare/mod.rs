//! Every method at every size on a small network.

mod result;

use self::result::NetCompared;
use crate::jobs::comparison::{self, Comparing, ComparisonOptions, SlotsCost, check_validation};
use crate::jobs::kit::{Division, Failure, Job, Outcome, OutputPath, Session, WithOptions};
use crate::jobs::nets::images::{FittedImages, ImageOptions, chosen};
use linwright_data::images::{ImageFiles, ImageSource};
use linwright_nets::{Net, OpenedNet};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_trial::{ImageCalibration, ImageNames, ImageTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Every method at every size on a small network, with controls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompareNet {
    /// A directory that train-net wrote, or a file that describes the layers and names their
    /// weights.
    #[schemars(extend("x-positional" = true))]
    pub net: String,
    /// Labelled images to fit to, of the same format and size as --images, with keys:
    /// `FILE:labels=FILE,examples=0-7999,batch=50`; `validation=0.1` is the share of them for
    /// validation.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE", "x-required" = true))]
    pub calibration: WithOptions<FittedImages>,
    /// Labelled images on which networks are scored: an idx or npy file, binary records of CIFAR,
    /// or a folder with a sub-folder of PNG files for each class, with keys:
    /// `FILE:labels=FILE,examples=0-7999`.
    #[schemars(extend("x-value" = "FILE:KEY=VALUE", "x-required" = true))]
    pub images: WithOptions<ImageOptions>,
    /// What is compared.
    #[serde(flatten)]
    pub comparison: ComparisonOptions,
    /// Directory of the comparison [default: runs/compare-net- and its fingerprint].
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
}

impl Job for CompareNet {
    const VERB: &str = "compare-net";
    const ABOUT: &str = "Compare methods of compression on a small network: every method at every \
        size, with the dense network, random factors of the same size and rounded weights of the \
        same bytes.\n\n\
        Cross-entropy and accuracy on the same images, with 95 % intervals of the difference from \
        the dense network; parameters, multiply-adds, bytes and speed. A size that a method cannot \
        have is reported, with the nearest. Run the same command again to resume.";
    const DIVISION: Division = Division::Merged;
    const RESULTS: &'static [ReportKind] =
        &[ReportKind::of::<NetCompared>(), ReportKind::of::<SlotsCost>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.net), self.calibration.images.clone()];
        inputs.extend(self.calibration.labels.clone());
        inputs.extend(self.images.inputs());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let rows = self.comparison.rows()?;
        let (source, eval) = (self.calibration()?, self.images.evaluation()?);
        session.step(&format!("loading {}", self.net));
        let OpenedNet { net, hash } = Net::open(Path::new(&self.net))?;
        session.step("reading the images");
        let names = ImageNames { calibration: "--calibration", eval: "--images" };
        let trial = ImageTrial::new(&net, &hash, &source, &eval, names)?;
        let comparing = Comparing {
            job: self,
            options: &self.comparison,
            output: self.output.as_deref(),
            rows,
            trial: &trial,
            name: session.portable(&self.net),
            fitted_to: &self.calibration.images,
        };
        comparison::run(&comparing, NetCompared::from, session)
    }
}

impl CompareNet {
    /// The images to fit to.
    fn calibration(&self) -> Result<ImageCalibration, Failure> {
        let eval = self.images.evaluation()?;
        let FittedImages { images, labels, examples, batch, validation } =
            self.calibration.0.clone();
        let standard = ImageCalibration::new(ImageSource {
            images: ImageFiles::One(images),
            labels: labels.map(ImageFiles::One),
            ..eval.source
        });
        Ok(ImageCalibration {
            examples: chosen("--calibration examples=", examples.as_deref())?,
            batch: batch.unwrap_or(standard.batch),
            validation: check_validation(validation)?.unwrap_or(standard.validation),
            ..standard
        })
    }
}
