//! Interventions of LASER: cuts of a weight without any text.
//!
//! An [`Intervention`] removes part of one weight matrix; [`Size`] is the part that is kept, in any
//! unit of the literature. [`LaserMethod`] has the options, so a cut is a method like others, and
//! its edits stand in plans beside theirs.
//!
//! Source: Sharma, Ash and Misra 2023, The Truth is in There (arXiv:2312.13558), and its code. Rank
//! reduction here is the exact truncation, stored as two factors; the code's is an unseeded random
//! sketch, multiplied out. Controls of its Figure 5: the components that truncation removes, and
//! random components.

mod dropout;
mod edit;
mod fused;
mod kept;
mod names;
mod nested;
mod options;
mod patched;
mod store;
pub mod vendi;

pub use dropout::{pruned, pruned_compat};
pub use edit::{SiteEdit, apply_edits, key_of, put, weight_of};
pub use fused::{Cuttable, FusedPart};
pub use kept::Kept;
pub use names::Lname;
pub use nested::NestedRanks;
pub use options::LaserMethod;
pub use store::components_of;
pub use vendi::VendiOptions;

use crate::{FitError, Size};
use linwright_ops::{Dense, LowRank, Op, Shape};
use linwright_tensor::kernels::gemm::{Arg, Write, product};
use linwright_tensor::linalg::{Components, Sketch};
use linwright_tensor::{Mat, RngKey};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The removed part of a weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Intervention {
    /// All but the components with the largest singular values.
    #[default]
    RankReduction,
    /// All but the components with the smallest singular values, as many as `RankReduction` keeps.
    BottomK,
    /// All but randomly drawn components.
    RandomK,
    /// The entries of smallest magnitude.
    Dropout,
    /// Everything.
    Zero,
    /// The part orthogonal to the span of some rows, which are selected for diversity.
    Vendi,
}

impl Intervention {
    /// All interventions.
    pub const ALL: [Self; 6] =
        [Self::RankReduction, Self::BottomK, Self::RandomK, Self::Dropout, Self::Zero, Self::Vendi];

    /// Its name in options, plans and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RankReduction => "rank-reduction",
            Self::BottomK => "bottom-k",
            Self::RandomK => "random-k",
            Self::Dropout => "dropout",
            Self::Zero => "zero",
            Self::Vendi => "vendi",
        }
    }

    /// Whether it selects singular components.
    #[must_use]
    pub fn reads_components(self) -> bool {
        matches!(self, Self::RankReduction | Self::BottomK | Self::RandomK)
    }
}

/// Computation of singular components.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Decomposition {
    /// All components.
    #[default]
    Exact,
    /// The largest ones approximately, from random directions.
    Randomised {
        /// Directions beyond the rank.
        oversample: usize,
        /// Steps of power iteration.
        power: usize,
    },
}

/// A name, `randomised` with standard numbers, or a map with numbers.
impl<'de> Deserialize<'de> for Decomposition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        enum Whole {
            Exact,
            Randomised { oversample: usize, power: usize },
        }

        impl<'de> Visitor<'de> for Read {
            type Value = Decomposition;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("exact, randomised, or randomised with oversample and power")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Decomposition, E> {
                match name {
                    "exact" => Ok(Decomposition::Exact),
                    "randomised" => Ok(Decomposition::RANDOMISED),
                    name => Err(E::unknown_variant(name, &["exact", "randomised"])),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Decomposition, A::Error> {
                Ok(match Whole::deserialize(MapAccessDeserializer::new(map))? {
                    Whole::Exact => Decomposition::Exact,
                    Whole::Randomised { oversample, power } => {
                        Decomposition::Randomised { oversample, power }
                    }
                })
            }
        }

        deserializer.deserialize_any(Read)
    }
}

impl Decomposition {
    /// The randomised one without numbers of its own.
    pub const RANDOMISED: Self = Self::Randomised { oversample: 8, power: 2 };
    /// Most directions beyond a rank, which are the features of a layer at most.
    const OVERSAMPLE: usize = 1 << 20;
    /// Most steps of power iteration: a few reach single precision.
    const POWER: usize = 1_000;

    /// Checks its numbers.
    pub(crate) fn check(self) -> Result<(), String> {
        match self {
            Self::Randomised { oversample, .. } if oversample > Self::OVERSAMPLE => {
                Err(format!("has oversample {oversample}, expected at most {}", Self::OVERSAMPLE))
            }
            Self::Randomised { power, .. } if power > Self::POWER => {
                Err(format!("has power {power}, expected at most {}", Self::POWER))
            }
            Self::Exact | Self::Randomised { .. } => Ok(()),
        }
    }
}

/// Storage of a cut weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// As factors if they have fewer parameters, else dense.
    #[default]
    Auto,
    /// As factors.
    Factored,
    /// Dense.
    Dense,
}

impl Storage {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Factored, Self::Dense];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Factored => "factored",
            Self::Dense => "dense",
        }
    }
}

/// Result of a cut.
#[derive(Clone, Debug)]
pub struct Done {
    /// The replacement.
    pub op: Op<f32>,
    /// Sizes and error.
    pub report: CutReport,
}

/// Sizes and error of a cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutReport {
    /// Kept part, in every unit.
    pub kept: Kept,
    /// `|W - W'|² / |W|²` in Frobenius norms; zero for a zero weight.
    pub relative_error: f64,
    /// Whether it is stored as factors.
    pub factored: bool,
    /// Number of parameters.
    pub parameters: usize,
    /// Number of parameters of the dense weight.
    pub dense_parameters: usize,
    /// Rows selected by `vendi`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<usize>,
}

/// Cuts a weight (out, inp) to a size, which `zero` does not read. `components` are its singular
/// components, if [`MethodTraits::components`](crate::methods::MethodTraits::components) asks for
/// them.
///
/// # Errors
/// [`FitError`] for a size that does not suit the shape, or a failed decomposition.
///
/// # Panics
/// If components are needed and missing.
pub fn cut(
    weight: &Mat<f32>,
    cut: &LaserMethod,
    size: Size,
    components: Option<&Components>,
    key: RngKey,
) -> Result<Done, FitError> {
    let shape = Shape { out: weight.rows(), inp: weight.cols() };
    cut.check_with(size).map_err(|reason| FitError::Size { shape, reason })?;
    check_finite(weight)?;
    if cut.intervention == Intervention::Zero {
        return Ok(done(
            weight,
            Parts::Dense(Mat::zeros(shape.out, shape.inp)),
            cut,
            Kept::nothing(shape),
        ));
    }
    let values = components.map(|all| all.values.as_slice());
    if cut.intervention == Intervention::Dropout {
        let (left, kept) = dropout::cut(weight, cut, size)?;
        return Ok(done(weight, Parts::Dense(left), cut, kept));
    }
    let rank = size.rank(shape, values)?;
    let mut kept = Kept::of_rank(rank, shape, values);
    if rank == 0 {
        return Ok(done(weight, Parts::Dense(Mat::zeros(shape.out, shape.inp)), cut, kept));
    }
    if cut.intervention == Intervention::Vendi {
        return vendi::cut(weight, rank, cut, kept);
    }
    let own;
    let mut lost = None;
    let chosen = match (cut.compat, cut.decomposition) {
        (true, _) => {
            let sketch = Sketch { rank, oversample: 0, power: 2 };
            own = Components::randomised(weight.view(), sketch, key).map_err(failed)?;
            own.chosen(&(0..rank).collect::<Vec<_>>())
        }
        (false, Decomposition::Randomised { oversample, power }) => {
            let sketch = Sketch { rank, oversample, power };
            own = Components::randomised(weight.view(), sketch, key).map_err(failed)?;
            own.chosen(&(0..own.values.len().min(rank)).collect::<Vec<_>>())
        }
        (false, Decomposition::Exact) => {
            let all = components.expect("components are given if needed");
            let indices = indices(cut.intervention, rank, all.values.len(), key);
            kept.energy = Some(share(&all.values, &indices));
            // Components are orthogonal: the error is the energy of the removed ones, without
            // forming the product.
            let others: Vec<usize> =
                (0..all.values.len()).filter(|k| indices.binary_search(k).is_err()).collect();
            let is_zero = all.values.iter().all(|s| *s == 0.0);
            lost = Some(if is_zero { 0.0 } else { share(&all.values, &others) });
            all.chosen(&indices)
        }
    };
    let (u, v) = chosen;
    Ok(done(weight, Parts::Factors { u, v, relative_error: lost }, cut, kept))
}

/// Indices of the components that an intervention keeps.
fn indices(intervention: Intervention, rank: usize, count: usize, key: RngKey) -> Vec<usize> {
    match intervention {
        Intervention::BottomK => (count - rank..count).collect(),
        Intervention::RandomK => {
            let drawn = key.fold("components").stream().permutation(count);
            let mut drawn: Vec<usize> = drawn[..rank].iter().map(|index| *index as usize).collect();
            drawn.sort_unstable();
            drawn
        }
        Intervention::RankReduction
        | Intervention::Dropout
        | Intervention::Zero
        | Intervention::Vendi => (0..rank).collect(),
    }
}

/// Share of the squared singular values in these components; one for a zero weight.
fn share(values: &[f64], indices: &[usize]) -> f64 {
    let all: f64 = values.iter().map(|s| s * s).sum();
    let own: f64 = indices.iter().map(|index| values[*index] * values[*index]).sum();
    if all > 0.0 { own / all } else { 1.0 }
}

fn failed(error: linwright_tensor::linalg::NoConvergence) -> FitError {
    FitError::Numerics { what: "singular components of the weight", reason: error.to_string() }
}

fn check_finite(weight: &Mat<f32>) -> Result<(), FitError> {
    match weight.data().iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(place) => {
            let (row, column) = (place / weight.cols(), place % weight.cols());
            let what = format!("row {row}, column {column}");
            Err(FitError::NonFinite { what, of: "the weight".into() })
        }
    }
}

/// The kept part of a weight.
enum Parts {
    /// The product `u v` of factors (out, k) and (k, inp).
    Factors {
        u: Mat<f32>,
        v: Mat<f32>,
        /// The relative error, if known without the product.
        relative_error: Option<f64>,
    },
    Dense(Mat<f32>),
}

fn multiplied(u: &Mat<f32>, v: &Mat<f32>) -> Mat<f32> {
    let mut dense = Mat::zeros(u.rows(), v.cols());
    product(1.0, Arg::Plain(u.view()), Arg::Plain(v.view()), dense.view_mut(), Write::Set);
    dense
}

fn done(weight: &Mat<f32>, parts: Parts, cut: &LaserMethod, kept: Kept) -> Done {
    let dense_parameters = weight.data().len();
    let (op, relative_error, factored, parameters) = match parts {
        Parts::Factors { u, v, relative_error: lost } => {
            let numbers = u.data().len() + v.data().len();
            let factored = match cut.storage {
                Storage::Auto => numbers < dense_parameters,
                Storage::Factored => true,
                Storage::Dense => false,
            };
            let dense = (!factored || lost.is_none()).then(|| multiplied(&u, &v));
            let measured = dense.as_ref().map(|dense| relative_error(weight, dense));
            let error = lost.or(measured).unwrap_or(0.0);
            let op: Op<f32> = match dense.filter(|_| !factored) {
                None => Op::Linear(Box::new(LowRank::new(u, v))),
                Some(dense) => Op::Linear(Box::new(Dense::new(dense))),
            };
            (op, error, factored, if factored { numbers } else { dense_parameters })
        }
        Parts::Dense(dense) => {
            let error = relative_error(weight, &dense);
            (Op::Linear(Box::new(Dense::new(dense)) as _), error, false, dense_parameters)
        }
    };
    let report = CutReport {
        kept,
        relative_error,
        factored,
        parameters,
        dense_parameters,
        rows: Vec::new(),
    };
    Done { op, report }
}

fn relative_error(weight: &Mat<f32>, other: &Mat<f32>) -> f64 {
    let (mut off, mut all) = (0.0f64, 0.0f64);
    for (a, b) in weight.data().iter().zip(other.data()) {
        let (a, b) = (f64::from(*a), f64::from(*b));
        off += (a - b) * (a - b);
        all += a * a;
    }
    if all > 0.0 { off / all } else { 0.0 }
}

#[cfg(test)]
mod tests;
