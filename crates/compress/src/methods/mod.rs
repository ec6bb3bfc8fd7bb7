//! Methods: from statistics or samples of a site to an operator. One file each, one line here.

#[cfg(test)]
mod biases;
mod trained;
mod work;

use crate::FitError;
use linwright_measure::capture::{Evidence, Needs};
use linwright_measure::samples::Samples;
use linwright_measure::stats::SiteStats;
use linwright_ops::{Op, Shape, SiteId};
use linwright_tensor::{Mat, RngKey};
use linwright_train::{Checkpoint, Control, Curve};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

pub use trained::Training;
pub use work::SampleRows;

/// A site to be fitted: never a model.
#[derive(Debug)]
pub struct FitProblem<'a> {
    /// Name of the site.
    pub site: &'a SiteId,
    /// Features out and in.
    pub shape: Shape,
    /// What the original model has there.
    pub original: &'a Op<f32>,
    /// What was captured: what [`Method::needs`] asked for.
    pub evidence: &'a Evidence,
    /// Whether the slot has a bias, which is fitted along with the operator.
    pub biased: bool,
    /// Where random numbers come from.
    pub key: RngKey,
    /// Where a long fit leaves checkpoints.
    pub checkpoint: Option<&'a Checkpoint>,
}

impl FitProblem<'_> {
    /// Training and validation sums.
    fn stats(&self) -> Result<(&SiteStats, &SiteStats), FitError> {
        match self.evidence {
            Evidence::Stats { train, validation } => Ok((train, validation)),
            Evidence::Samples(_) => Err(FitError::Evidence { needed: "sums", found: "samples" }),
        }
    }

    /// Training sums that an operator is fitted to: those of rows less their means where a bias
    /// takes up what the means differ by.
    fn target(&self) -> Result<Cow<'_, SiteStats>, FitError> {
        let (train, _) = self.stats()?;
        Ok(if self.biased { Cow::Owned(train.centred()) } else { Cow::Borrowed(train) })
    }

    /// A fit in closed form to [`Self::target`], with the bias that goes with it; `a` is the
    /// operator as a matrix.
    fn closed(
        &self,
        op: Op<f32>,
        a: &Mat<f64>,
        ridge: Option<f64>,
        dropped_directions: usize,
    ) -> Result<Fit, FitError> {
        let (train, validation) = self.stats()?;
        let shift = self.biased.then(|| train.mean_residual(a));
        let report = FitReport {
            ridge,
            dropped_directions,
            ..FitReport::of_sums(train, validation, a, shift.as_deref())
        };
        let bias_shift = shift.map(|shift| shift.into_iter().map(|b| b as f32).collect());
        Ok(Fit { op, bias_shift, report })
    }

    fn samples(&self) -> Result<&Samples, FitError> {
        match self.evidence {
            Evidence::Samples(samples) => Ok(samples),
            Evidence::Stats { .. } => Err(FitError::Evidence { needed: "samples", found: "sums" }),
        }
    }
}

/// What a method found.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The operator.
    pub op: Op<f32>,
    /// What is added to the bias of the slot (out), where it has one and the method fits it along.
    pub bias_shift: Option<Vec<f32>>,
    /// How it was found.
    pub report: FitReport,
}

/// How a fit went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitReport {
    /// Mean of `|y - op(x)|²`, less the shift of the bias where there is one, over validation
    /// samples, divided by that of `|y|²` unless this is zero.
    pub relative_error: f64,
    /// The same over training samples.
    pub train_relative_error: f64,
    /// Mean squared element of the validation targets, by which losses of the curve compare.
    pub target_power: f64,
    /// What was added to the diagonal of the Gram matrix, if anything.
    pub ridge: Option<f64>,
    /// Directions of the input that were left out since no sample had them.
    pub dropped_directions: usize,
    /// Training curve of a trained fit: mean squared error an element.
    pub curve: Curve,
    /// Time of the fit in seconds, capture not counted; set by the pipeline.
    pub seconds: f64,
}

/// An algorithm from samples to an operator.
pub trait Method: Clone {
    /// The tag in recipes and on the command line.
    const ID: &'static str;

    /// What it makes of a weight, for lists.
    const SUMMARY: &'static str;

    /// The name of a row in tables, such as `LR4-closed`.
    fn label(&self) -> String;

    /// Whether its options make sense at all, whatever the shape.
    ///
    /// # Errors
    /// The option and what is wrong with it, for a message.
    fn check(&self) -> Result<(), String>;

    /// What it wants to know.
    fn needs(&self) -> Needs;

    /// Trainable numbers of the operator it will give for a shape.
    ///
    /// # Errors
    /// If there is none for this shape.
    fn parameters(&self, shape: Shape) -> Result<usize, FitError>;

    /// The share of the dense parameters that was asked for, if one was; [`Self::parameters`] tells
    /// what is reached.
    fn keep(&self) -> Option<f64> {
        None
    }

    /// Multiply-adds of a fit, for estimates of time.
    ///
    /// # Errors
    /// If there is no operator for this shape.
    fn work(&self, shape: Shape, rows: SampleRows) -> Result<f64, FitError>;

    /// Samples in a step of its training; none are trained in closed form.
    fn batch(&self) -> usize {
        0
    }

    /// The least side of a smaller layer that is fitted in the same way.
    fn least_side(&self) -> usize {
        16
    }

    /// The same method for a layer whose sides are smaller by a factor, and once over its samples:
    /// what the rate of a machine is measured by.
    #[must_use]
    fn shrunk(&self, by: usize) -> Self;

    /// The same method with a single iteration, where what comes before iterations is other work
    /// than they are: the rates of both are measured.
    fn brief(&self) -> Option<Self> {
        None
    }

    /// Fits.
    ///
    /// # Errors
    /// [`FitError`].
    fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError>;
}

/// What methods share that train one operator: their own are `spec`, `keep` and `training`.
macro_rules! trains_its_spec {
    () => {
        fn needs(&self) -> Needs {
            Needs::Samples
        }

        fn parameters(&self, shape: Shape) -> Result<usize, FitError> {
            Ok(self.spec(shape)?.cost(shape)?.parameters)
        }

        fn keep(&self) -> Option<f64> {
            self.keep
        }

        fn work(&self, shape: Shape, rows: SampleRows) -> Result<f64, FitError> {
            self.training.work(&self.spec(shape)?, shape, rows)
        }

        fn batch(&self) -> usize {
            self.training.batch
        }

        fn fit(
            &self,
            problem: &FitProblem<'_>,
            control: &mut dyn Control,
        ) -> Result<Fit, FitError> {
            self.training.run(&self.spec(problem.shape)?, problem, control)
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
            /// Every method, in the order of the list.
            pub const IDS: &'static [&'static str] = &[$(<$name as Method>::ID),*];

            /// What each of them makes of a weight, in the same order.
            pub const SUMMARIES: &'static [&'static str] = &[$(<$name as Method>::SUMMARY),*];

            /// The tag.
            #[must_use]
            pub fn id(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$name as Method>::ID,)* }
            }

            /// See [`Method::label`].
            #[must_use]
            pub fn label(&self) -> String {
                match self { $(Self::$variant(method) => method.label(),)* }
            }

            /// See [`Method::check`].
            ///
            /// # Errors
            /// As there.
            pub fn check(&self) -> Result<(), String> {
                match self { $(Self::$variant(method) => method.check(),)* }
            }

            /// See [`Method::needs`].
            #[must_use]
            pub fn needs(&self) -> Needs {
                match self { $(Self::$variant(method) => method.needs(),)* }
            }

            /// See [`Method::keep`].
            #[must_use]
            pub fn keep(&self) -> Option<f64> {
                match self { $(Self::$variant(method) => method.keep(),)* }
            }

            /// See [`Method::work`].
            ///
            /// # Errors
            /// As there.
            pub fn work(&self, shape: Shape, rows: SampleRows) -> Result<f64, FitError> {
                match self { $(Self::$variant(method) => method.work(shape, rows),)* }
            }

            /// See [`Method::batch`].
            #[must_use]
            pub fn batch(&self) -> usize {
                match self { $(Self::$variant(method) => method.batch(),)* }
            }

            /// See [`Method::least_side`].
            #[must_use]
            pub fn least_side(&self) -> usize {
                match self { $(Self::$variant(method) => method.least_side(),)* }
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
            pub fn parameters(&self, shape: Shape) -> Result<usize, FitError> {
                match self { $(Self::$variant(method) => method.parameters(shape),)* }
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
    block_hadamard => BlockHadamardMethod, BlockHadamard, "block-hadamard";
    rotor => RotorMethod, Rotor;
    structured => StructuredMethod, Structured;
}

/// Whether a fit is computed or trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The optimum in closed form.
    #[default]
    Closed,
    /// By gradient descent from a random start, as the source does.
    Trained,
}

/// A label with the share that was asked for.
fn with_keep(label: String, keep: Option<f64>) -> String {
    match keep {
        Some(keep) => format!("{label}-keep{keep}"),
        None => label,
    }
}

/// An error as a share of the power of the target; the error itself where the target is zero, as
/// behind a weight that was pruned away.
fn relative(error: f64, power: f64) -> f64 {
    if power > 0.0 { error / power } else { error }
}

impl FitReport {
    /// How well a matrix (out, inp) does, with what is added to the bias, from sums alone.
    fn of_sums(
        train: &SiteStats,
        validation: &SiteStats,
        a: &Mat<f64>,
        shift: Option<&[f64]>,
    ) -> Self {
        let error = |stats: &SiteStats| match shift {
            Some(shift) => stats.squared_error_with(a, shift),
            None => stats.squared_error(a),
        };
        let relative = |stats: &SiteStats| relative(error(stats), stats.target_power());
        Self {
            relative_error: relative(validation),
            train_relative_error: relative(train),
            target_power: validation.target_power() / a.rows().max(1) as f64,
            ridge: None,
            dropped_directions: 0,
            curve: Curve::new(),
            seconds: 0.0,
        }
    }
}
