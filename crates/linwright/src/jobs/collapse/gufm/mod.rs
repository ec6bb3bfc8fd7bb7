//! The optimum of features behind a LayerNorm.

mod result;

use self::result::GufmFound;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::training::Forward;
use crate::jobs::kit::{Failure, Job, Outcome, Session, bounds};
use linwright_collapse::optimum::{Fit, Gufm, Problem, minimise};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_tensor::RngKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The optimum to which deep regularised ResNets and transformers lead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseGufm {
    /// Number of classes.
    #[schemars(range(min = 2, max = bounds::CLASSES), extend("x-value" = "K"))]
    pub classes: usize,
    /// Penalty L/2 |W|² of the head.
    #[schemars(extend("x-value" = "L", "x-hyphen" = true))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub strength: f64,
    /// Length of features [default: the square root of --dimension, as after a LayerNorm, or 1].
    #[schemars(extend("x-value" = "R", "x-hyphen" = true))]
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub norm: Option<f64>,
    /// Number of features.
    #[schemars(range(min = 1, max = bounds::FEATURES), extend("x-value" = "D"))]
    pub dimension: Option<usize>,
    /// Loss of the logits.
    #[schemars(with = "Names<Fit>")]
    pub loss: Fit,
    /// Check by minimisation from this many random starts.
    #[schemars(extend("x-value" = "STARTS"))]
    #[schemars(range(min = 0, max = bounds::REPEATS))]
    pub check: usize,
    /// Seed of the starts.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
}

impl Default for CollapseGufm {
    fn default() -> Self {
        Self {
            classes: 10,
            strength: 5e-3,
            norm: None,
            dimension: None,
            loss: Fit::CrossEntropy,
            check: 0,
            seed: 0,
        }
    }
}

impl Job for CollapseGufm {
    const VERB: &str = "collapse-gufm";
    const ABOUT: &str = "The optimum of a penalised head on features of mean zero and given \
        length, as behind a LayerNorm, in closed form.\n\n\
        No network with such features has an objective below it on balanced classes; deep \
        regularised ResNets and transformers approach it.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<GufmFound>()];

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let root = self.dimension.map(|d| (d as f64).sqrt());
        let norm = self.norm.or(root).unwrap_or(1.0);
        let gufm = Gufm { classes: self.classes, strength: self.strength, norm, fit: self.loss };
        let optimum = gufm.optimum()?;
        let minimised = match self.check {
            0 => None,
            starts => {
                session.step("minimising");
                let d = self.dimension.unwrap_or(self.classes + 1);
                let key = RngKey::new(self.seed).fold("gufm");
                let problem = Problem::Normalised(gufm, 1);
                Some(minimise(
                    problem,
                    d,
                    (starts, key),
                    &mut Forward { session: &mut *session, steps: 0 },
                )?)
            }
        };
        session.finish();
        Ok(Outcome::of(GufmFound { model: gufm, optimum, minimised }))
    }
}
