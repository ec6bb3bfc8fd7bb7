//! One matrix, or rows and what they become, by operators of any kind.

mod read;
mod result;
mod write;

use self::result::{FitResult, OperatorFit};
use crate::jobs::kit::{Failure, Job, JobError, Outcome, OutputPath, Session, bounds, outputs};
use linwright_compress::fit::{Family, FamilyFits, FitOptions, Target, fit_families};
use linwright_ops::OpSpec;
use linwright_report::{Document, Report, ReportKind};
use linwright_run::{Monitor, shown};
use linwright_tensor::RngKey;
use linwright_train::{Control, Progress};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Default shares of parameters.
const KEEP: [f64; 4] = [0.125, 0.25, 0.5, 0.75];

/// A matrix, or rows and their images, approximated by operators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fit {
    /// A matrix (outputs, inputs): a numpy array, or a file of tensors with --tensor; with
    /// --inputs, the rows (samples, outputs) that these become. `normal:N`, `orthogonal:N`,
    /// `permutation:N` are drawn from --seed, `exponential:N` is exp(-|i - j| / 4).
    #[schemars(extend("x-positional" = true))]
    pub target: String,
    /// Rows (samples, inputs): the operator is fitted to map them to the target, in the metric of
    /// their second moment.
    #[schemars(extend("x-value" = "FILE", "x-path" = true))]
    pub inputs: Option<PathBuf>,
    /// Name of the matrix in a file of tensors [default: its only one].
    #[schemars(extend("x-value" = "NAME"))]
    pub tensor: Option<String>,
    /// Name of the rows in the file of --inputs [default: its only tensor].
    #[schemars(extend("x-value" = "NAME", "x-requires" = ["inputs"]))]
    pub inputs_tensor: Option<String>,
    /// What is fitted: kinds of `linwright ls operators`, each at every share, `cd:M` for M
    /// diagonals and M - 1 circulants, or an operator with all its options in JSON [default: all
    /// linear kinds].
    #[schemars(extend("x-value" = "KIND", "x-whole" = true, "x-many" = true))]
    pub operator: Vec<String>,
    /// Shares of the parameters of a dense matrix [default: 0.125,0.25,0.5,0.75].
    #[schemars(extend("x-value" = "SHARE"))]
    #[schemars(inner(range(min = 0.0, max = 1.0)))]
    pub keep: Vec<f64>,
    /// Starts of fits that have no closed form; the best is kept.
    #[schemars(range(min = 1, max = 10_000))]
    pub starts: u32,
    /// Largest number of iterations of a start.
    #[schemars(range(min = 1, max = bounds::STEPS))]
    pub iterations: u32,
    /// Seed of random starts.
    #[schemars(range(min = 0, max = bounds::SEED))]
    pub seed: u64,
    /// Output directory: the operators, the errors, and a report.
    #[schemars(extend("x-short" = "o"))]
    pub output: Option<OutputPath>,
    /// Replace the directory if it exists.
    #[schemars(extend("x-requires" = ["output"]))]
    pub force: bool,
}

impl Default for Fit {
    fn default() -> Self {
        Self {
            target: String::new(),
            inputs: None,
            tensor: None,
            inputs_tensor: None,
            operator: Vec::new(),
            keep: Vec::new(),
            starts: 4,
            iterations: 400,
            seed: 0,
            output: None,
            force: false,
        }
    }
}

/// Lets a session stop a fit.
struct Stops<'a, 's>(&'a Session<'s>);

impl Control for Stops<'_, '_> {
    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

impl Job for Fit {
    const VERB: &str = "fit";
    const ABOUT: &str = "Approximate a matrix by structured operators: error against parameters.\n\n\
        The target is a matrix, or rows and what they become. Every kind of operator that has this \
        shape is fitted by least squares at several shares of the parameters, in closed form where \
        there is one; products of two diagonals and a circulant are recovered exactly. The output \
        directory has the operators as safetensors.";
    const RESULTS: &'static [ReportKind] = &[ReportKind::of::<FitResult>()];

    fn inputs(&self) -> Vec<PathBuf> {
        let own = read::made(&self.target, RngKey::new(0)).is_none();
        own.then(|| PathBuf::from(&self.target)).into_iter().chain(self.inputs.clone()).collect()
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        let families = self.families()?;
        let keeps = if self.keep.is_empty() { KEEP.to_vec() } else { self.keep.clone() };
        if let Some(keep) = keeps.iter().find(|keep| !(**keep > 0.0 && **keep < 1.0)) {
            let expected = "expected shares above 0 and below 1";
            return Err(JobError::new(format!("--keep {keep}: {expected}")).into());
        }
        if let Some(path) = &self.output {
            let inputs = outputs::inputs_of(self, session);
            outputs::directory(path, self.force, &inputs, session)?;
        }
        session.step("reading");
        let y = match read::made(&self.target, RngKey::new(self.seed).fold("target")) {
            Some(made) => made?,
            None => read::matrix(Path::new(&self.target), self.tensor.as_deref())?,
        };
        let x = match &self.inputs {
            Some(path) => Some(read::matrix(path, self.inputs_tensor.as_deref())?),
            None => None,
        };
        let target = match &x {
            Some(x) => Target::Samples { x: x.view(), y: y.view() },
            None => Target::Weight(y.view()),
        };
        session.step("fitting");
        let (starts, iterations) = (self.starts, self.iterations);
        let key = RngKey::new(self.seed).fold("fit");
        let options = FitOptions { starts, iterations, key, ..FitOptions::default() };
        let mut found = FamilyFits::default();
        for (done, family) in families.iter().enumerate() {
            let one = std::slice::from_ref(family);
            let fits = fit_families(one, &keeps, &target, &options, &mut Stops(session))?;
            found.fits.extend(fits.fits);
            found.refused.extend(fits.refused);
            session.progress(done as u64 + 1, families.len() as u64);
        }
        session.finish();
        let shape = target.shape();
        let mut result = FitResult {
            target: session.portable(&self.target),
            inputs: self.inputs.as_ref().map(|path| session.portable(path)),
            out: shape.out,
            inp: shape.inp,
            samples: x.as_ref().map(linwright_tensor::Mat::rows),
            fits: found.fits.iter().map(OperatorFit::of).collect(),
            refused: found.refused.clone(),
            output: None,
        };
        if let Some(path) = &self.output {
            let title = format!("Fits of {}", self.target);
            let document = Document { title, ..result.document() };
            write::directory(path, self.force, &found, &result, &document, session)?;
            result.output = Some(session.portable(path));
        }
        Ok(Outcome::of(result))
    }
}

impl Fit {
    fn families(&self) -> Result<Vec<Family>, Failure> {
        if self.operator.is_empty() {
            return Ok(Family::all());
        }
        self.operator.iter().map(|text| family(text)).collect()
    }
}

/// A kind, `cd:M`, or an operator in JSON.
fn family(text: &str) -> Result<Family, Failure> {
    let wrong = |reason: String| {
        let kinds = OpSpec::KINDS.join(", ");
        Failure::usage(format!("--operator {}: {reason}", shown(text)))
            .hint(format!("give a kind, cd:M, or an operator in JSON; kinds are {kinds}"))
    };
    let linear = |spec: OpSpec| match spec.is_linear() {
        true => Ok(spec),
        false => Err(wrong("is not a linear operator".into())),
    };
    if text.starts_with('{') {
        let spec = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        return Ok(Family::Exact(linear(spec)?));
    }
    if let Some(count) = text.strip_prefix("cd:") {
        let factors: usize = count.parse().map_err(|_| wrong("no number of diagonals".into()))?;
        let spec = json!({"kind": "circulant_diagonal", "factors": factors});
        let spec = serde_json::from_value(spec).map_err(|error| wrong(error.to_string()))?;
        return Ok(Family::Exact(spec));
    }
    if text == "dense" {
        return OpSpec::default_of(text).map(Family::Exact).map_err(|e| wrong(e.to_string()));
    }
    match Family::named(text) {
        Some(Family::Kind(spec) | Family::Exact(spec)) => Ok(Family::Kind(linear(spec)?)),
        None => Err(wrong("is no kind with default options".into())),
    }
}
