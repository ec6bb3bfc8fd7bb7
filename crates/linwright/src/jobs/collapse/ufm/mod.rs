//! The optimum of the unconstrained features model.

mod result;

use self::result::UfmFound;
use crate::jobs::collapse::options::head_of;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::training::Forward;
use crate::jobs::kit::{Failure, Folded, Folding, Job, Outcome, Session, bounds, catalogue};
use linwright_collapse::optimum::{Comparison, Fit, Problem, Ufm, minimise};
use linwright_collapse::{ClassSums, FeatureFile, Keep, Source};
use linwright_report::ReportKind;
use linwright_run::Monitor;
use linwright_tensor::RngKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The optimum to which regularised training leads if features are free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CollapseUfm {
    /// Number of classes.
    #[schemars(range(min = 2, max = bounds::CLASSES), extend("x-value" = "K"))]
    pub classes: usize,
    /// Samples of each class [default: the mean of --features, or 1].
    #[schemars(range(min = 1, max = bounds::EXAMPLES), extend("x-value" = "N"))]
    pub per_class: Option<u64>,
    /// Penalties.
    #[serde(flatten, with = "Folding::<UfmStrength>")]
    pub strength: UfmStrength,
    /// Loss: squared errors with a bias that is not penalised lead to a simplex, without one to an
    /// orthogonal frame.
    #[schemars(with = "Names<Fit>")]
    pub loss: Fit,
    /// Compare a trained head: a safetensors file with `features`, `labels` and `head`, as for
    /// measure.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub features: Option<PathBuf>,
    /// Check by minimisation from this many random starts.
    #[schemars(extend("x-value" = "STARTS"))]
    #[schemars(range(min = 0, max = bounds::REPEATS))]
    pub check: usize,
    /// Features of the check [default: K].
    #[schemars(range(min = 1, max = bounds::FEATURES), extend("x-value" = "D", "x-requires" = ["check"]))]
    pub dimension: Option<usize>,
    /// Seed of the starts.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
}

/// Penalties of the head and of the features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UfmStrength {
    /// Penalty L/2 |W|² of the head.
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub head: f64,
    /// Penalty L/2 |H|² of the features of all samples.
    #[schemars(range(min = 0.0, max = bounds::SCALE))]
    pub features: f64,
}

impl Default for UfmStrength {
    fn default() -> Self {
        Self { head: 5e-4, features: 5e-4 }
    }
}

impl Folded for UfmStrength {
    const NAME: &'static str = "ufm_strength";
    const OPTION: &'static str = "strength";
    const HELP: &'static str =
        "Penalties of the head and of the features: `head=0.01,features=0.01`.";

    catalogue!(UfmStrength);
}

impl Default for CollapseUfm {
    fn default() -> Self {
        Self {
            classes: 10,
            per_class: None,
            strength: UfmStrength::default(),
            loss: Fit::CrossEntropy,
            features: None,
            check: 0,
            dimension: None,
            seed: 0,
        }
    }
}

impl Job for CollapseUfm {
    const VERB: &str = "collapse-ufm";
    const ABOUT: &str = "The optimum of regularised training with features free to choose, in \
        closed form.\n\n\
        Below the threshold c = K sqrt(n L_W L_H) = 1 features collapse to a simplex, or without \
        bias and with squared errors to an orthogonal frame; from there on penalties are so strong \
        that features vanish. With --features, norms and logits of a trained head are compared \
        with it: is the classifier at its regularised optimum?";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<UfmFound>()];

    fn inputs(&self) -> Vec<PathBuf> {
        self.features.iter().cloned().collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let file = match &self.features {
            Some(path) => Some(FeatureFile::open(path, None, None)?),
            None => None,
        };
        let (classes, mean) = match &file {
            Some(file) => (file.classes, (file.rows() / file.classes).max(1) as u64),
            None => (self.classes, 1),
        };
        let per_class = self.per_class.unwrap_or(mean);
        let UfmStrength { head: head_strength, features: feature_strength } = self.strength;
        let fit = self.loss;
        let ufm = Ufm { classes, per_class, head_strength, feature_strength, fit };
        let optimum = ufm.optimum()?;
        let comparison = match &file {
            Some(file) => {
                let mut sums = ClassSums::checked(file.classes, file.features(), Keep::Traces)?;
                sums.add_all(file, session)?;
                let head = head_of(file).ok_or_else(|| {
                    Failure::usage("--features: the file has no head")
                        .hint("add a tensor `head` (classes, d)")
                })?;
                Some(Comparison::of(&optimum, &sums.finish()?, head.rows)?)
            }
            None => None,
        };
        let minimised = match self.check {
            0 => None,
            starts => {
                session.step("minimising");
                let d = self.dimension.unwrap_or(classes);
                let key = RngKey::new(self.seed).fold("ufm");
                let problem = Problem::Free(ufm);
                Some(minimise(
                    problem,
                    d,
                    (starts, key),
                    &mut Forward { session: &mut *session, steps: 0 },
                )?)
            }
        };
        session.finish();
        Ok(Outcome::of(UfmFound { model: ufm, optimum, minimised, comparison }))
    }
}
