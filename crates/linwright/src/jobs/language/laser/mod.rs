//! Cuts of a model as LASER makes them.

mod edit;
mod result;

use self::result::LaserResult;
use crate::jobs::kit::named::Names;
use crate::jobs::kit::{
    Failure, Folding, Job, JobError, Outcome, OutputPath, Session, SizeText, bounds, parse_layers,
};
use crate::jobs::language::cuts::CutOptions;
use crate::jobs::language::evaluation::EvaluationOptions;
use crate::jobs::language::form::{EditedForms, SavedForm};
use crate::jobs::language::plan_file::read_plan_file;
use crate::jobs::language::slots::SlotOptions;
use linwright_compress::intervention::Lname;
use linwright_compress::methods::LaserMethod;
use linwright_compress::{Edit, MethodSpec, Plan, Size, SlotSet};
use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Weights cut in one way, and the model evaluated and saved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Laser {
    /// A checkpoint directory, a `.gguf` file, `pocket` for the built-in model, or
    /// `owner/name[@revision]` on the hub.
    #[schemars(extend("x-positional" = true))]
    pub model: String,
    /// Weights by the names of the paper, as for --roles.
    #[schemars(with = "Vec<Names<Lname>>")]
    pub lname: Vec<Lname>,
    /// Layers as in the paper, as for --layers; -1 means all layers at once.
    #[schemars(extend("x-value" = "LAYERS", "x-hyphen" = true, "examples" = ["0-1"]))]
    #[schemars(extend("x-conflicts" = ["layers"]))]
    pub lnum: Option<String>,
    /// Weights and layers.
    #[serde(flatten)]
    pub slots: SlotOptions,
    /// Apply these edits instead: a plan in JSON or YAML, such as the one of `linwright compose`.
    #[schemars(extend("x-value" = "FILE", "x-conflicts" = ["lname", "lnum", "layers", "roles", "sites", "ignore", "intervention"]))]
    #[schemars(extend("x-path" = true))]
    pub plan: Option<PathBuf>,
    /// Rate of reduction as in the paper, as for --size rate=RATE.
    #[schemars(extend("x-value" = "RATE"))]
    #[schemars(range(min = 0.0, max = bounds::LASER_RATE))]
    pub rate: Option<f64>,
    /// Kind and size of the cut.
    #[serde(flatten)]
    pub cut: CutOptions,
    /// Evaluation before and after, if any task is given.
    #[serde(flatten, with = "Folding::<EvaluationOptions>")]
    pub evaluation: EvaluationOptions,
    /// Output directory for the model.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Form of the saved model; `auto` is the one that most runtimes load and that is no larger
    /// than necessary.
    #[schemars(with = "Names<EditedForms>")]
    pub form: SavedForm,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Count the tokens of the tasks, estimate the time, and stop.
    pub dry_run: bool,
}

impl Job for Laser {
    const VERB: &str = "laser";
    const ABOUT: &str = "Reduce the rank of weights as LASER does, evaluate the model before and \
        after, and save it; factored weights make it smaller.";
    const WRITES_MODEL: bool = true;
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<LaserResult>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![PathBuf::from(&self.model)];
        inputs.extend(self.plan.clone());
        inputs.extend(self.evaluation.inputs());
        inputs
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        edit::run(self, session)
    }
}

impl Laser {
    /// The weights to cut.
    fn weights(&self) -> Result<SlotSet, JobError> {
        let mut sites = self.slots.set_of_cuts()?;
        if self.lname.is_empty() {
            self.slots.check_named(&self.cut.intervention.part)?;
        }
        sites.lnames.extend(&self.lname);
        if let Some(text) = self.lnum.as_deref().filter(|text| *text != "-1") {
            let layers = parse_layers("lnum", text);
            sites.layers = Some(layers.map_err(|e| e.hint("-1 means all layers at once"))?);
        }
        Ok(sites)
    }

    /// The edits, from the options or from the plan.
    ///
    /// # Errors
    /// [`JobError`] if no weights or not exactly one size are given, the cut cannot have the size,
    /// or the plan cannot be read or has methods that are fitted to text.
    pub fn edits(&self) -> Result<Plan, JobError> {
        if let Some(path) = &self.plan {
            let plan = read_plan_file(path)?;
            let fitted = |edit: &&Edit| edit.method.needs_text();
            return match plan.edits.iter().find(fitted) {
                Some(edit) => Err(JobError::new(format!(
                    "{}: method {} is fitted to calibration text",
                    path.display(),
                    edit.label()
                ))
                .hint("`linwright compress --plan FILE --calibration TEXT` carries it out")),
                None => Ok(plan),
            };
        }
        let mut cut = self.cut.clone();
        cut.size.extend(self.rate.map(|rate| SizeText(Size::Rate(rate))));
        let sizes = cut.sizes()?;
        if sizes.len() > 1 {
            let given: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            let message = format!("{} each give a size, expected one", given.join(", "));
            return Err(JobError::new(message).hint("`linwright sweep` tries several"));
        }
        let part = self.cut.single_part()?;
        let method = LaserMethod { part, ..self.cut.method() };
        let (method, size) = (MethodSpec::Laser(method), Some(sizes[0]));
        method.check(size).map_err(JobError::new)?;
        let mut sites = self.weights()?;
        if let (Some(part), true, true) = (part, sites.lnames.is_empty(), sites.roles.is_empty()) {
            sites.roles = vec![part.of_role().to_string()];
        }
        let edits = vec![Edit { sites, method, size, heals: false }];
        Ok(Plan { seed: self.cut.seed, edits })
    }
}
