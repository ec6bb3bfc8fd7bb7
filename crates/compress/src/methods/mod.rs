//! Methods: from statistics or samples of a site to an operator. One file and one line of the list
//! each.

#[cfg(test)]
mod biases;
mod factors;
mod in_samples;
mod quality;
mod trained;
#[cfg(test)]
mod trial;

use crate::fit::Ridge;
use crate::fit::ridge::{self, Pulled};
use crate::intervention::{CutReport, Cuttable, FusedPart};
use crate::{FitError, Size, SizeError, Unit};
use linwright_measure::capture::{Evidence, Needs};
use linwright_measure::samples::Samples;
use linwright_measure::stats::{InputStats, SiteStats};
use linwright_ops::{Op, Shape, SiteId};
use linwright_run::Measured;
use linwright_tensor::linalg::Components;
use linwright_tensor::{Mat, RngKey};
use linwright_train::{Checkpoint, Control, Curve};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

use quality::Shift;

pub use trained::{SampleRows, Training};

/// A site to be fitted, without its model.
#[derive(Debug)]
pub struct FitProblem<'a> {
    /// Name of the site.
    pub site: &'a SiteId,
    /// Shape of the weight.
    pub shape: Shape,
    /// Operator of the original model.
    pub original: &'a Op<f32>,
    /// Requested size, if any.
    pub size: Option<Size>,
    /// Captured data, in the form of [`MethodTraits::needs`]; none if no text was given,
    /// which only methods with [`MethodTraits::needs_text`] refuse.
    pub evidence: Option<&'a Evidence>,
    /// Singular components of the weight, or of the part that is cut, if they are known already.
    pub components: Option<&'a Components>,
    /// Bias of the original slot (out), if it has one, which is then fitted, too.
    pub bias: Option<&'a [f32]>,
    /// Random key.
    pub key: RngKey,
    /// The ridge of its regression, if it was chosen before: then all samples are training samples.
    pub ridge: Option<f64>,
    /// Checkpoint of a long fit.
    pub checkpoint: Option<&'a Checkpoint>,
    /// Output rows of [`MethodTraits::part`] in the weight, if the method has one.
    pub part_rows: Option<&'a [usize]>,
}

impl FitProblem<'_> {
    /// Whether the slot has a bias.
    fn biased(&self) -> bool {
        self.bias.is_some()
    }

    /// Training sums; if there are sums over inputs alone, with the outputs of the original weight
    /// on these inputs as targets.
    fn stats(&self) -> Result<Cow<'_, SiteStats>, FitError> {
        match self.evidence {
            Some(Evidence::Stats { train, .. }) => Ok(Cow::Borrowed(train)),
            Some(Evidence::Inputs { train, .. }) => {
                let weight: Mat<f64> = self.original.to_dense()?.cast();
                Ok(Cow::Owned(SiteStats::of_map(train, weight.view())))
            }
            other => Err(missing("sums", other)),
        }
    }

    /// The regression of outputs, from training sums, and held-out ones to choose an automatic
    /// ridge, neither of them centred.
    pub fn regression(
        &self,
        sums: [&SiteStats; 2],
        weight: &Mat<f64>,
        ridge: Ridge,
    ) -> Result<Pulled, FitError> {
        ridge::regression(sums, weight, self.ridge.map_or(ridge, Ridge::Share), self.biased())
    }

    /// Training and held-out sums over inputs and targets.
    pub fn sums(&self) -> Result<[&SiteStats; 2], FitError> {
        match self.evidence {
            Some(Evidence::Stats { train, validation }) => Ok([train, validation]),
            other => Err(missing("sums over targets", other)),
        }
    }

    /// What a closed form is fitted to: the regression of the outputs with a ridge towards the
    /// weight, or the weight itself if there are sums over inputs alone.
    pub fn target(&self, ridge: Ridge) -> Result<FitTarget, FitError> {
        let weight: Mat<f64> = self.original.to_dense()?.cast();
        let (inputs, pulled) = match self.evidence {
            Some(Evidence::Stats { train, .. }) => {
                (&train.inputs, self.regression(self.sums()?, &weight, ridge)?)
            }
            Some(Evidence::Inputs { train, .. }) => {
                let offset = self.biased().then(|| vec![0.0; self.shape.out]);
                (train, Pulled { map: weight, offset, share: None, ridge: 0.0 })
            }
            other => return Err(missing("sums", other)),
        };
        Ok(FitTarget::new(inputs, pulled))
    }

    /// A closed-form fit to a regression, with its bias; `a` is the operator, (out, inp).
    pub fn closed(&self, op: Op<f32>, a: &Mat<f64>, pulled: &Pulled) -> Result<Fit, FitError> {
        let inputs = factors::inputs(self)?;
        let means: Vec<f64> =
            inputs.sx.iter().map(|sum| sum / inputs.count.max(1) as f64).collect();
        let shift = pulled.shift(a, &means);
        let (report, shift) =
            self.judged(a, shift.as_deref().map_or(Shift::Nothing, Shift::Given))?;
        let report = FitReport { ridge: pulled.share, ..report };
        let bias_shift = shift.map(|shift| shift.into_iter().map(|b| b as f32).collect());
        Ok(Fit { op, bias_shift, report })
    }

    fn samples(&self) -> Result<&Samples, FitError> {
        match self.evidence {
            Some(Evidence::Samples(samples)) => Ok(samples),
            other => Err(missing("samples", other)),
        }
    }

    /// Singular components of the weight, or of the part that is cut, computed if they are not
    /// known.
    fn components(&self) -> Result<Cow<'_, Components>, FitError> {
        if let Some(known) = self.components {
            return Ok(Cow::Borrowed(known));
        }
        let weight = Cuttable::new(self.original.to_dense()?, self.part_rows).weight;
        let found = Components::of(weight.view());
        found.map(Cow::Owned).map_err(|error| FitError::Numerics {
            what: "singular components of the weight",
            reason: error.to_string(),
        })
    }

    /// Singular components of the weight, if the size depends on its singular values.
    fn components_of_size(&self) -> Result<Option<Cow<'_, Components>>, FitError> {
        let needed = self.size.is_some_and(|size| size.needs_values());
        needed.then(|| self.components()).transpose()
    }
}

/// What a closed form is fitted to.
#[derive(Clone, Debug)]
pub struct FitTarget {
    /// Sums over the inputs, centred in a slot with a bias, with a ridge on the diagonal of their
    /// products: so the weight counts where samples say little.
    pub inputs: Arc<InputStats>,
    /// The regression; T is the weight itself if there are sums over inputs alone.
    pub pulled: Pulled,
}

impl FitTarget {
    fn new(inputs: &InputStats, pulled: Pulled) -> Self {
        let mut own = if pulled.offset.is_some() { inputs.centred() } else { inputs.clone() };
        (0..own.features()).for_each(|i| *own.sxx.at_mut(i, i) += pulled.ridge);
        Self { inputs: Arc::new(own), pulled }
    }

    /// The sums with `T x` as targets.
    #[must_use]
    pub fn stats(&self) -> SiteStats {
        SiteStats::of_map(&self.inputs, self.pulled.map.view())
    }
}

fn missing(needed: &'static str, found: Option<&Evidence>) -> FitError {
    let found = match found {
        Some(Evidence::Stats { .. } | Evidence::Inputs { .. }) => "sums",
        Some(Evidence::Outputs { .. }) => "sums over outputs",
        Some(Evidence::Samples(_)) => "samples",
        None => "no calibration text",
    };
    FitError::Evidence { needed, found }
}

/// Result of a method.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The operator.
    pub op: Op<f32>,
    /// Change of the slot's bias (out), if it has one and the method fits it.
    pub bias_shift: Option<Vec<f32>>,
    /// Errors and time of the fit.
    pub report: FitReport,
}

/// Errors and time of a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitReport {
    /// Mean of `|y - op(x) - shift|²` over validation samples, divided by that of `|y|²` unless
    /// this is zero; over all samples if none were held out. Without calibration text, that of the
    /// weight: `|W - W'|² / |W|²`.
    pub relative_error: f64,
    /// The same over training samples.
    pub train_relative_error: f64,
    /// Mean squared entry of the validation targets, by which losses of the curve are normalised.
    pub target_power: f64,
    /// Whether samples were held out of the fit, on which the error is; none without calibration
    /// text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<bool>,
    /// Ridge on the diagonal of the Gram matrix, as a share of its mean entry, if any.
    pub ridge: Option<f64>,
    /// Number of input directions without data, which are ignored.
    pub dropped_directions: usize,
    /// Share by which moments of the input were shrunk towards their diagonal, if at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrinkage: Option<f64>,
    /// Training curve of a trained fit: mean squared error per entry.
    pub curve: Curve,
    /// Time of the fit in seconds, without capture; set by the pipeline.
    #[serde(default)]
    pub seconds: Measured<f64>,
    /// Sizes and error of a cut of the weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutReport>,
}

/// What a method takes and gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MethodTraits {
    /// Form of the captured data. Validation samples decide how long, or from which start, a method
    /// is trained on samples.
    pub needs: Needs,
    /// Units in which it takes a size; none if it has a single size.
    pub units: &'static [Unit],
    /// Whether it has no standard size, so that one must be given.
    pub needs_size: bool,
    /// Whether its units depend on its options, so that messages about them contain its label.
    pub units_vary: bool,
    /// Whether its sums may be replaced by the samples where there are fewer of these than input
    /// features.
    pub takes_few_samples: bool,
    /// Whether sums over the outputs of the weight serve it as well as those over its inputs.
    pub takes_outputs: bool,
    /// Whether it is fitted to text. Other methods read the weight alone; text only shows their
    /// error.
    pub needs_text: bool,
    /// Whether it reads singular components of the weight.
    pub components: ComponentUse,
    /// The part of a fused weight that it changes; all of the weight if absent.
    pub part: Option<FusedPart>,
    /// Whether its operator is a matrix.
    pub is_linear: bool,
    /// Ridge of its regression, if it has one.
    pub ridge: Option<Ridge>,
    /// Batch size of its training; 0 for closed forms.
    pub batch: usize,
    /// Smallest side of a layer that is fitted by the same algorithm.
    pub least_side: usize,
}

impl MethodTraits {
    /// A linear method that is fitted to text by a closed form and has these sizes.
    #[must_use]
    pub fn new(needs: Needs, units: &'static [Unit]) -> Self {
        Self {
            needs,
            units,
            needs_size: false,
            units_vary: false,
            takes_few_samples: false,
            takes_outputs: false,
            needs_text: true,
            components: ComponentUse::OfSize,
            part: None,
            is_linear: true,
            ridge: None,
            batch: 0,
            least_side: 16,
        }
    }
}

/// Whether a method reads all singular components of the weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentUse {
    /// Never.
    Never,
    /// For sizes that depend on singular values.
    OfSize,
    /// For every size.
    Always,
}

impl ComponentUse {
    /// Whether they are read for a size.
    pub(crate) fn reads(self, size: Option<Size>) -> bool {
        match self {
            Self::Never => false,
            Self::OfSize => size.is_some_and(|size| size.needs_values()),
            Self::Always => true,
        }
    }
}

/// A fit algorithm: from captured data to an operator.
pub trait Method: Clone {
    /// Its name in recipes and on the command line.
    const ID: &'static str;

    /// Summary for listings.
    const SUMMARY: &'static str;

    /// Label of its table rows, such as `LR4-closed`.
    fn label(&self, size: Option<Size>) -> String;

    /// Name of its stream of random numbers at a site.
    fn stream(&self, size: Option<Size>) -> String {
        self.label(size)
    }

    /// What it takes and gives.
    fn traits(&self) -> MethodTraits;

    /// Checks options, and their agreement with a size that suits [`MethodTraits::units`],
    /// independently of a shape.
    ///
    /// # Errors
    /// The option and what is wrong with it, for a message.
    fn check(&self, size: Option<Size>) -> Result<(), String>;

    /// Number of parameters of the operator for a shape; an upper bound for a size that depends on
    /// singular values.
    ///
    /// # Errors
    /// If there is no operator of this size for this shape.
    fn parameters(&self, size: Option<Size>, shape: Shape) -> Result<usize, FitError>;

    /// Multiply-adds of a fit, for estimates of time.
    ///
    /// # Errors
    /// If there is no operator of this size for this shape.
    fn work(&self, size: Option<Size>, shape: Shape, rows: SampleRows) -> Result<f64, FitError>;

    /// The same method for a layer with sides divided by `by`, with one pass over its samples, to
    /// measure the speed of the machine.
    #[must_use]
    fn shrunk(&self, by: usize) -> Self;

    /// The same method with a single iteration, if the work before iterations is of another kind;
    /// the speeds of both are measured.
    fn brief(&self) -> Option<Self> {
        None
    }

    /// Relative errors on the training sums at every rank from zero, from one decomposition; none
    /// if each size is fitted by itself. The problem's size is not read.
    ///
    /// # Errors
    /// [`FitError`].
    fn error_curve(&self, problem: &FitProblem<'_>) -> Result<Option<Vec<f64>>, FitError> {
        let _ = problem;
        Ok(None)
    }

    /// Fits an operator.
    ///
    /// # Errors
    /// [`FitError`].
    fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError>;
}

/// Common parts of methods that train one operator; each has its own `spec` and `training`.
macro_rules! trains_its_spec {
    () => {
        fn parameters(&self, size: Option<Size>, shape: Shape) -> Result<usize, FitError> {
            Ok(self.spec(size, shape)?.cost(shape)?.parameters)
        }

        fn work(
            &self,
            size: Option<Size>,
            shape: Shape,
            rows: SampleRows,
        ) -> Result<f64, FitError> {
            self.training.work(&self.spec(size, shape)?, shape, rows)
        }

        fn fit(
            &self,
            problem: &FitProblem<'_>,
            control: &mut dyn Control,
        ) -> Result<Fit, FitError> {
            self.training.run(&self.spec(problem.size, problem.shape)?, problem, control)
        }
    };
}

macro_rules! methods {
    ($($module:ident => $name:ident, $variant:ident $(, $alias:literal)?;)*) => {
        $(mod $module; pub use $module::*;)*

        /// A method with its options.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "method", rename_all = "snake_case")]
        pub enum MethodSpec {
            $(#[doc = concat!("See [`", stringify!($name), "`].")]
            $(#[serde(alias = $alias)])?
            $variant($name),)*
        }

        impl MethodSpec {
            /// Names of all methods, in the order of the list.
            pub const IDS: &'static [&'static str] = &[$(<$name as Method>::ID),*];

            /// Summaries, in the same order.
            pub const SUMMARIES: &'static [&'static str] = &[$(<$name as Method>::SUMMARY),*];

            /// Schema of the options of the method with this name, if there is one.
            #[must_use]
            pub fn schema_of(id: &str) -> Option<Schema> {
                $(if id == <$name as Method>::ID {
                    return Some(schema_for!($name));
                })*
                None
            }

            /// Name of the method.
            #[must_use]
            pub fn id(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$name as Method>::ID,)* }
            }

            /// See [`Method::label`].
            #[must_use]
            pub fn label(&self, size: Option<Size>) -> String {
                match self { $(Self::$variant(method) => method.label(size),)* }
            }

            /// See [`Method::stream`].
            #[must_use]
            pub fn stream(&self, size: Option<Size>) -> String {
                match self { $(Self::$variant(method) => method.stream(size),)* }
            }

            /// See [`Method::traits`].
            #[must_use]
            pub fn traits(&self) -> MethodTraits {
                match self { $(Self::$variant(method) => method.traits(),)* }
            }

            /// Checks options and size independently of a shape.
            ///
            /// # Errors
            /// As [`Self::check_size`], and as [`Method::check`].
            pub fn check(&self, size: Option<Size>) -> Result<(), String> {
                self.check_size(size).map_err(|error| error.to_string())?;
                match self { $(Self::$variant(method) => method.check(size),)* }
            }

            /// See [`Method::work`].
            ///
            /// # Errors
            /// As there.
            pub fn work(&self, size: Option<Size>, shape: Shape, rows: SampleRows) -> Result<f64, FitError> {
                match self { $(Self::$variant(method) => method.work(size, shape, rows),)* }
            }

            /// See [`Method::shrunk`].
            #[must_use]
            pub fn shrunk(&self, by: usize) -> Self {
                match self { $(Self::$variant(method) => Self::$variant(method.shrunk(by)),)* }
            }

            /// See [`Method::brief`].
            #[must_use]
            pub fn brief(&self) -> Option<Self> {
                match self { $(Self::$variant(method) => method.brief().map(Self::$variant),)* }
            }

            /// See [`Method::parameters`].
            ///
            /// # Errors
            /// As there.
            pub fn parameters(&self, size: Option<Size>, shape: Shape) -> Result<usize, FitError> {
                match self { $(Self::$variant(method) => method.parameters(size, shape),)* }
            }

            /// See [`Method::error_curve`].
            ///
            /// # Errors
            /// As there.
            pub fn error_curve(
                &self,
                problem: &FitProblem<'_>,
            ) -> Result<Option<Vec<f64>>, FitError> {
                match self { $(Self::$variant(method) => method.error_curve(problem),)* }
            }

            /// See [`Method::fit`].
            ///
            /// # Errors
            /// As there.
            pub fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError> {
                match self { $(Self::$variant(method) => method.fit(problem, control),)* }
            }
        }
    };
}

methods! {
    dense => DenseMethod, Dense;
    laser => LaserMethod, Laser;
    low_rank => LowRankMethod, LowRank, "low-rank";
    feature => FeatureMethod, Feature;
    svd => SvdMethod, Svd;
    whitened_svd => WhitenedSvdMethod, WhitenedSvd, "whitened-svd";
    asvd => AsvdMethod, Asvd;
    swift_svd => SwiftSvdMethod, SwiftSvd, "swift-svd";
    block_hadamard => BlockHadamardMethod, BlockHadamard, "block-hadamard";
    rotor => RotorMethod, Rotor;
    random => RandomMethod, Random;
    structured => StructuredMethod, Structured;
}

/// Closed form or training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The optimum in closed form.
    #[default]
    Closed,
    /// Gradient descent from a random start, as in the source.
    Trained,
}

impl MethodSpec {
    /// See [`MethodTraits::units`].
    #[must_use]
    pub fn units(&self) -> &'static [Unit] {
        self.traits().units
    }

    /// See [`MethodTraits::needs_size`].
    #[must_use]
    pub fn needs_size(&self) -> bool {
        self.traits().needs_size
    }

    /// See [`MethodTraits::needs_text`].
    #[must_use]
    pub fn needs_text(&self) -> bool {
        self.traits().needs_text
    }

    /// See [`MethodTraits::is_linear`].
    #[must_use]
    pub fn is_linear(&self) -> bool {
        self.traits().is_linear
    }

    /// See [`MethodTraits::part`].
    #[must_use]
    pub fn part(&self) -> Option<FusedPart> {
        self.traits().part
    }

    /// See [`MethodTraits::needs`].
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.traits().needs
    }

    /// Form of the captured data for a number of training samples of a shape: samples instead of
    /// sums if these would be larger, and the method takes them.
    #[must_use]
    pub fn needs_of(&self, rows: usize, shape: Shape) -> Needs {
        let MethodTraits { needs, takes_few_samples, .. } = self.traits();
        let few = takes_few_samples && (1..shape.inp).contains(&rows);
        if few { Needs::Samples } else { needs }
    }

    /// Whether validation samples decide how long or from which start it is trained.
    #[must_use]
    pub fn needs_validation(&self) -> bool {
        self.needs() == Needs::Samples
    }

    /// Checks that the method has a size, independently of a shape.
    ///
    /// # Errors
    /// [`SizeError`] for a number out of range, a unit that the method does not have, or a missing
    /// size.
    pub fn check_size(&self, size: Option<Size>) -> Result<(), SizeError> {
        let MethodTraits { units: takes, needs_size, units_vary, .. } = self.traits();
        let method = if units_vary { self.label(None) } else { self.id().to_owned() };
        match size {
            None if needs_size => Err(SizeError::Missing { method, takes }),
            None => Ok(()),
            Some(size) if !takes.contains(&size.unit()) => {
                Err(SizeError::Unit { method, size, takes })
            }
            Some(size) => size.check(),
        }
    }
}

/// Label with the requested size.
fn with_size(label: String, size: Option<Size>) -> String {
    match size {
        Some(size) => format!("{label}-{}", size.label()),
        None => label,
    }
}

/// Form of the captured data for methods at sites that read one input, with their shapes: sums over
/// their outputs where all take them and they are less work.
#[must_use]
pub fn needs_together(sites: &[(&MethodSpec, Shape)], rows: usize) -> Vec<Needs> {
    let needs = sites.iter().map(|(method, shape)| method.needs_of(rows, *shape));
    let needs: Vec<Needs> = needs.collect();
    let takes = |((method, _), needs): (&(&MethodSpec, Shape), &Needs)| {
        *needs == Needs::Inputs && method.traits().takes_outputs
    };
    // Multiply-adds per row: an output and its square, against the square of the input.
    let of_outputs = |(_, Shape { out, inp }): &(&MethodSpec, Shape)| out * inp + out * out / 2;
    let inp = sites.first().map_or(0, |(_, shape)| shape.inp);
    let pays = sites.iter().map(of_outputs).sum::<usize>() < inp * inp / 2;
    match pays && sites.iter().zip(&needs).all(takes) {
        true => vec![Needs::Outputs; sites.len()],
        false => needs,
    }
}

/// Checks that a size leaves some parameters and saves some.
fn check_saves(size: Option<Size>) -> Result<(), String> {
    size.map_or(Ok(()), |size| size.check_saves()).map_err(|error| error.to_string())
}

/// Error relative to the power of the target; the error itself if the target is zero, as after a
/// weight that was pruned completely.
fn relative(error: f64, power: f64) -> f64 {
    if power > 0.0 { error / power } else { error }
}
