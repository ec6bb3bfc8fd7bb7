//! Plans from the spectra of weights, without running the model.

mod planning;
mod result;

pub(in crate::jobs) use planning::spectra;

use self::result::PlanResult;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{Failure, Job, Outcome, OutputPath, Session, StatePath, WithOptions};
use crate::jobs::language::allocating::AllocateWeights;
use crate::jobs::language::slots::SlotOptions;
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Sizes for the layers of a model from the singular values of its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanSizes {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Shares of parameters kept in these layers, a plan for each.
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(inner(range(min = 0.0, max = 1.0)))]
    pub keep: Vec<f64>,
    /// How the parameters are divided over the layers: by their singular values (`spectrum`), or
    /// the same share for each (`uniform`). `spectrum:align=16` makes ranks multiples of 16
    /// [default: 8, or 1 if a layer has a side of at most 512].
    #[schemars(extend("x-value" = "NAME:KEY=VALUE"))]
    pub allocate: WithOptions<AllocateWeights>,
    /// Method that the plans name: one with ranks.
    #[schemars(with = "Names<RankedMethods>")]
    pub method: String,
    /// Linear layers to plan.
    #[serde(flatten)]
    pub slots: SlotOptions,
    /// Directory for the plans, which `compress --plan` carries out, and the result.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Replace the directory if it exists.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
    /// Directory of finished pieces [default: in the user's cache].
    #[schemars(extend("x-conflicts" = ["no_cache"]))]
    pub cache: Option<StatePath>,
    /// Keep no finished pieces.
    pub no_cache: bool,
}

impl Default for PlanSizes {
    fn default() -> Self {
        Self {
            model: String::new(),
            keep: vec![0.9, 0.8, 0.7, 0.6, 0.5],
            allocate: WithOptions::default(),
            method: "low_rank".to_owned(),
            slots: SlotOptions::default(),
            output: None,
            force: false,
            cache: None,
            no_cache: false,
        }
    }
}

/// Methods with ranks.
struct RankedMethods;

impl crate::jobs::kit::named::NameList for RankedMethods {
    fn names() -> Vec<crate::jobs::kit::Name> {
        planning::ranked_methods().into_iter().map(crate::jobs::kit::Name::new).collect()
    }
}

impl Job for PlanSizes {
    const VERB: &str = "plan";
    const ABOUT: &str = "Plan sizes for the layers of a model from the singular values of its \
        weights, without running it.\n\n\
        Every weight is decomposed once, for all sizes. The error of a size is the share of the \
        squared singular values that it drops; `compress --plan` carries a plan out.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<PlanResult>()];

    fn inputs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from(&self.model)]
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        planning::run(self, session)
    }
}
