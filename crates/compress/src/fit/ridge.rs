//! Least squares with a ridge towards a weight, so that few samples change it only where they say
//! much.
//!
//! With inputs x of the edited model, outputs y of the original one and the weight W (out, inp),
//! `T = (D + λ W) (S + λ I)⁻¹` minimises `Σ |y − T x|² + λ |T − W|²`, where `S = Σ x xᵀ` and
//! `D = Σ y xᵀ`: for λ = 0 it is the least-squares map nearest to W, and it tends to W as λ grows.
//! In a slot with a bias there is one more feature, the same number in all samples, whose weight is
//! drawn to zero.
//!
//! λ is a share of the mean diagonal entry of S. It is chosen on samples that are held out. With
//! `S = Q diag(w) Qᵀ` and `R = D − W S`, the correction of W is `R Q diag(1 / (w + λ)) Qᵀ`, so that
//! its error on these samples is a quadratic form in `1 / (w + λ)`: n² operations for every λ.
//!
//! Source: ridge regression (Hoerl and Kennard 1970), with the weight in place of zero.

use crate::FitError;
use crate::fit::regression::{
    Inputs, Regression, corrected, mean_moment, multiply, numerics, scale_columns, subtract,
};
use linwright_measure::stats::SiteStats;
use linwright_tensor::Mat;
use linwright_tensor::kernels::gemm::Arg;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

/// Shares that are tried, as powers of the fourth root of ten: at 100 nothing is left of a
/// correction.
const TRIED: RangeInclusive<i32> = -20..=8;

/// How strongly a regression is drawn towards the weight that it replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Ridge {
    /// As validation samples say, which were held out.
    #[default]
    Auto,
    /// A share of the mean second moment of an input; 0 is plain least squares.
    Share(f64),
}

impl Ridge {
    /// The word for [`Self::Auto`] in options and files.
    pub const AUTO: &'static str = "auto";

    /// Checks the number.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub fn check(self) -> Result<(), String> {
        match self {
            Self::Share(share) if !(share.is_finite() && share >= 0.0) => {
                Err(format!("has ridge {share}, expected 0 or more, or {}", Self::AUTO))
            }
            Self::Share(_) | Self::Auto => Ok(()),
        }
    }
}

impl JsonSchema for Ridge {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Ridge".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"type": "number", "minimum": 0, "maximum": 1e12},
            {"const": Self::AUTO, "description": "What is best on held-out windows."},
        ]})
    }
}

impl Serialize for Ridge {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => to.serialize_str(Self::AUTO),
            Self::Share(share) => to.serialize_f64(*share),
        }
    }
}

impl<'de> Deserialize<'de> for Ridge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Word;
        impl Visitor<'_> for Word {
            type Value = Ridge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number or {}", Ridge::AUTO)
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Ridge, E> {
                match word {
                    Ridge::AUTO => Ok(Ridge::Auto),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_f64<E: Error>(self, share: f64) -> Result<Ridge, E> {
                Ok(Ridge::Share(share))
            }

            fn visit_i64<E: Error>(self, share: i64) -> Result<Ridge, E> {
                Ok(Ridge::Share(share as f64))
            }

            fn visit_u64<E: Error>(self, share: u64) -> Result<Ridge, E> {
                Ok(Ridge::Share(share as f64))
            }
        }
        from.deserialize_any(Word)
    }
}

/// A regression with a ridge.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// T (out, inp).
    pub map: Mat<f64>,
    /// What the regression adds to the bias of the slot (out), if it has one.
    pub offset: Option<Vec<f64>>,
    /// The share of the ridge, if there is a regression.
    pub share: Option<f64>,
    /// λ.
    pub ridge: f64,
}

impl Pulled {
    /// The change of the bias for a map A (out, inp), if the slot has one: what the regression adds
    /// to it, and what A leaves of the mean of T x.
    pub fn shift(&self, a: &Mat<f64>, means: &[f64]) -> Option<Vec<f64>> {
        let left = |(o, offset): (usize, &f64)| {
            let pairs = self.map.row(o).iter().zip(a.row(o)).zip(means);
            offset + pairs.map(|((t, a), mean)| (t - a) * mean).sum::<f64>()
        };
        Some(self.offset.as_ref()?.iter().enumerate().map(left).collect())
    }
}

/// The regression of sums over training samples, and held-out ones to choose an automatic ridge,
/// neither of them centred.
///
/// # Errors
/// [`FitError::Evidence`] if a ridge is to be chosen and nothing is held out, and
/// [`FitError::Numerics`].
pub(crate) fn regression(
    [train, held_out]: [&SiteStats; 2],
    weight: &Mat<f64>,
    ridge: Ridge,
    is_biased: bool,
) -> Result<Pulled, FitError> {
    let scale = mean_moment(train.inputs.sxx.view());
    if !is_biased {
        let (map, share) = solved([train, held_out], weight, ridge)?;
        return Ok(Pulled { map, offset: None, share: Some(share), ridge: share * scale });
    }
    let inp = weight.cols();
    let constant = constant_of(train);
    let [train, held_out] = [train, held_out].map(|stats| stats.with_constant(constant));
    let wide =
        Mat::from_fn(weight.rows(), inp + 1, |o, j| if j < inp { weight.at(o, j) } else { 0.0 });
    let (whole, share) = solved([&train, &held_out], &wide, ridge)?;
    let offset = (0..weight.rows()).map(|o| constant * whole.at(o, inp)).collect();
    let map = whole.view().columns(0, inp).to_mat();
    Ok(Pulled { map, offset: Some(offset), share: Some(share), ridge: share * scale })
}

/// The number whose square is the mean second moment of an input, so that it leaves that mean as it
/// is.
fn constant_of(stats: &SiteStats) -> f64 {
    (mean_moment(stats.inputs.sxx.view()) / stats.inputs.count.max(1) as f64).sqrt()
}

/// T, and the share of its ridge.
fn solved(
    [train, held_out]: [&SiteStats; 2],
    weight: &Mat<f64>,
    ridge: Ridge,
) -> Result<(Mat<f64>, f64), FitError> {
    match ridge {
        Ridge::Share(share) => Ok((drawn(train, weight, share)?, share)),
        Ridge::Auto if held_out.inputs.count == 0 => Err(nothing_held_out()),
        Ridge::Auto => chosen([train, held_out], weight),
    }
}

/// T and the share of its ridge, the one with the least error on held-out samples.
fn chosen(
    [train, held_out]: [&SiteStats; 2],
    weight: &Mat<f64>,
) -> Result<(Mat<f64>, f64), FitError> {
    let eigen = train.inputs.eigen().map_err(numerics("eigenvalues of the Gram matrix"))?;
    let vectors = eigen.vectors.view();
    let turned = |a: &Mat<f64>| multiply(a.view().into(), vectors.into());
    let second = {
        let half = turned(&held_out.inputs.sxx);
        multiply(Arg::Transposed(vectors), half.view().into())
    };
    let [mut own, other] = [train, held_out].map(|stats| turned(&left(stats, weight)));
    let mut quadratic = multiply(Arg::Transposed(own.view()), own.view().into());
    quadratic.data_mut().iter_mut().zip(second.data()).for_each(|(a, b)| *a *= b);
    let mut linear = vec![0.0; weight.cols()];
    for o in 0..weight.rows() {
        let products = own.row(o).iter().zip(other.row(o));
        linear.iter_mut().zip(products).for_each(|(sum, (a, b))| *sum += a * b);
    }
    let scale = mean_moment(train.inputs.sxx.view());
    let held_out = HeldOut { values: eigen.values.clone(), quadratic, linear, scale };
    let share = held_out.best();
    // `W + R Q diag(1 / (w + λ)) Qᵀ`.
    scale_columns(&mut own, &held_out.filter(share));
    let mut map = multiply(own.view().into(), Arg::Transposed(vectors));
    map.data_mut().iter_mut().zip(weight.data()).for_each(|(map, own)| *map += own);
    Ok((map, share))
}

/// The error of an automatic ridge without samples that choose it.
pub(super) fn nothing_held_out() -> FitError {
    let needed = "validation samples, or a ridge that is a number";
    FitError::Evidence { needed, found: "training samples alone" }
}

/// T for a share.
fn drawn(stats: &SiteStats, weight: &Mat<f64>, share: f64) -> Result<Mat<f64>, FitError> {
    let (gram, cross) = (&stats.inputs.sxx, &stats.syx);
    let ridge = share * mean_moment(gram.view());
    if ridge > 0.0 {
        let what = "second moments of the inputs with a ridge";
        return corrected(weight, gram.clone(), cross.clone(), ridge, what);
    }
    // Of all maps that fit equally well, the one nearest to the weight.
    let inputs = Inputs::new(gram.view(), stats.inputs.rank())?;
    let left = Regression::of_moments(&inputs, left(stats, weight).view(), 0.0);
    let mut map = left.least_squares();
    map.data_mut().iter_mut().zip(weight.data()).for_each(|(map, own)| *map += own);
    Ok(map)
}

/// The error on held-out samples of corrections of a weight, less that of the weight itself.
pub(super) struct HeldOut {
    /// w.
    pub(super) values: Vec<f64>,
    /// Second derivatives by `1 / (w + λ)`, halved.
    pub(super) quadratic: Mat<f64>,
    /// First derivatives at zero, halved and negative.
    pub(super) linear: Vec<f64>,
    /// The mean second moment of an input.
    pub(super) scale: f64,
}

impl HeldOut {
    /// The share with the least error; of equal ones the largest. Where there is nothing to
    /// correct, as where the network below is the original one, the smallest: only the order of the
    /// directions depends on it then, and the samples know that best.
    pub(super) fn best(&self) -> f64 {
        if self.linear.iter().chain(self.quadratic.data()).all(|v| *v == 0.0) {
            return 10f64.powf(f64::from(*TRIED.start()) / 4.0);
        }
        let (mut best, mut least) = (0.0, f64::INFINITY);
        for power in TRIED.rev() {
            let share = 10f64.powf(f64::from(power) / 4.0);
            let error = self.error(share);
            if error < least {
                (best, least) = (share, error);
            }
        }
        best
    }

    /// `1 / (w + λ)`, zero without a ridge.
    fn filter(&self, share: f64) -> Vec<f64> {
        let ridge = share * self.scale;
        let filter = |w: &f64| if ridge > 0.0 { 1.0 / (w.max(0.0) + ridge) } else { 0.0 };
        self.values.iter().map(filter).collect()
    }

    fn error(&self, share: f64) -> f64 {
        let filter = self.filter(share);
        let term = |(i, f): (usize, &f64)| {
            let row: f64 = self.quadratic.row(i).iter().zip(&filter).map(|(q, g)| q * g).sum();
            f * (row - 2.0 * self.linear[i])
        };
        filter.iter().enumerate().map(term).sum()
    }
}

/// `D − W S`: what the weight leaves of the targets.
fn left(stats: &SiteStats, weight: &Mat<f64>) -> Mat<f64> {
    let mut left = stats.syx.clone();
    subtract(&mut left, &multiply(weight.view().into(), stats.inputs.sxx.view().into()));
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{correlated, distance, random};
    use linwright_tensor::{MatRef, RngKey};

    /// Few samples of noisy outputs of a weight that was changed: sums over training samples and
    /// over others, and the weight.
    fn problem(rows: usize) -> ([SiteStats; 2], Mat<f64>) {
        let (inp, out) = (9, 5);
        let weight = random(out, inp, 3);
        let changed = random(out, inp, 4);
        let part = |rows: usize, seed: u64| {
            let x = correlated(rows, inp, seed);
            let noise = random(rows, out, seed + 7);
            let y = |i: usize, o: usize| {
                let dot = |w: &Mat<f64>| -> f64 {
                    w.row(o).iter().zip(x.row(i)).map(|(w, x)| w * x).sum()
                };
                dot(&weight) + 0.3 * dot(&changed) + 0.7 * noise.at(i, o) + 2.0
            };
            let y = Mat::from_fn(rows, out, y).cast();
            SiteStats::of(x.cast().view(), y.view())
        };
        ([part(rows, 1), part(500, 11)], weight)
    }

    fn solved(sums: &[SiteStats; 2], weight: &Mat<f64>, ridge: Ridge, is_biased: bool) -> Pulled {
        regression([&sums[0], &sums[1]], weight, ridge, is_biased).expect("solves")
    }

    /// `Σ |y − T x − b|² + λ (|T − W|² + b² / c²)`, with the constant feature c.
    fn objective(
        stats: &SiteStats,
        (map, offset): (&Mat<f64>, &[f64]),
        (weight, ridge): (&Mat<f64>, f64),
    ) -> f64 {
        let squares = stats.squared_error_with(map, offset) * stats.inputs.count as f64;
        let away: f64 =
            map.data().iter().zip(weight.data()).map(|(t, w)| (t - w).powi(2)).sum::<f64>();
        let of_bias: f64 = offset.iter().map(|b| (b / constant_of(stats)).powi(2)).sum();
        squares + ridge * (away + of_bias)
    }

    #[test]
    fn no_nearby_map_or_bias_has_a_smaller_penalised_error() {
        let (sums, weight) = problem(20);
        for (share, is_biased) in [(0.1, false), (0.1, true), (3.0, true)] {
            let Pulled { map, offset, ridge, .. } =
                solved(&sums, &weight, Ridge::Share(share), is_biased);
            let offset = offset.unwrap_or_else(|| vec![0.0; 5]);
            let of = |map: &Mat<f64>, offset: &[f64]| {
                objective(&sums[0], (map, offset), (&weight, ridge))
            };
            let best = of(&map, &offset);
            let mut stream = RngKey::new(1).stream();
            for _ in 0..50 {
                let mut nudged = |value: &f64| value + 1e-3 * stream.normal();
                let near = Mat::from_vec(5, 9, map.data().iter().map(&mut nudged).collect());
                let shift: Vec<f64> = match is_biased {
                    true => offset.iter().map(&mut nudged).collect(),
                    false => offset.clone(),
                };
                assert!(of(&near, &shift) > best, "{share} {is_biased}");
            }
        }
    }

    #[test]
    fn without_a_ridge_it_is_least_squares_and_with_a_large_one_the_weight() {
        let (sums, weight) = problem(40);
        let [none, tiny, huge] =
            [0.0, 1e-9, 1e9].map(|share| solved(&sums, &weight, Ridge::Share(share), true));
        assert!(distance(&none.map, &tiny.map) < 1e-6);
        assert!(distance(&huge.map, &weight) < 1e-6);
        assert!(huge.offset.expect("a bias").iter().all(|b| b.abs() < 1e-6));
        let residual = sums[0].mean_residual(&none.map);
        let offset = none.offset.expect("a bias");
        assert!(residual.iter().zip(&offset).all(|(a, b)| (a - b).abs() < 1e-6), "{residual:?}");
        assert!(distance(&none.map, &weight) > 0.1);
    }

    #[test]
    fn directions_without_data_stay_those_of_the_weight() {
        let (_, weight) = problem(4);
        let x: Mat<f32> =
            Mat::from_fn(
                30,
                9,
                |i, j| if j < 4 { (1 + (i * i * (j + 1)) % 17) as f32 } else { 0.0 },
            );
        let y: Mat<f32> = random(30, 5, 2).cast();
        let sums = [SiteStats::of(x.view(), y.view()), SiteStats::of(x.view(), y.view())];
        for ridge in [Ridge::Share(0.0), Ridge::Share(0.3), Ridge::Auto] {
            let map = solved(&sums, &weight, ridge, false).map;
            let differs = |j: usize| (0..5).any(|o| (map.at(o, j) - weight.at(o, j)).abs() > 1e-9);
            assert!((4..9).all(|j| !differs(j)), "{ridge:?}");
            assert!((0..4).any(differs), "{ridge:?}");
        }
    }

    #[test]
    fn where_nothing_is_to_correct_the_smallest_ridge_is_chosen() {
        let (sums, weight) = problem(30);
        let exact = sums.map(|stats| SiteStats::of_map(&stats.inputs, weight.view()));
        let pulled = solved(&exact, &weight, Ridge::Auto, false);
        assert_eq!(pulled.map, weight);
        assert!(pulled.share.is_some_and(|share| share < 1.001e-5), "{:?}", pulled.share);
    }

    #[test]
    fn the_automatic_ridge_has_the_least_error_on_held_out_samples() {
        for (rows, is_biased) in [(6, false), (12, true), (30, false), (400, true)] {
            let (sums, weight) = problem(rows);
            let error = |pulled: &Pulled| {
                let zeros = vec![0.0; 5];
                let offset = pulled.offset.as_deref().unwrap_or(&zeros);
                sums[1].squared_error_with(&pulled.map, offset)
            };
            let chosen = solved(&sums, &weight, Ridge::Auto, is_biased);
            let best = error(&chosen);
            for power in TRIED {
                let share = 10f64.powf(f64::from(power) / 4.0);
                let other = solved(&sums, &weight, Ridge::Share(share), is_biased);
                assert!(error(&other) > best - 1e-6, "{rows}: {share} beats {:?}", chosen.share);
            }
        }
        let share = |rows| {
            let (sums, weight) = problem(rows);
            solved(&sums, &weight, Ridge::Auto, false).share.expect("is chosen")
        };
        assert!(share(8) > share(400), "few samples want a larger ridge");
    }

    #[test]
    fn an_automatic_ridge_needs_samples_that_are_held_out() {
        let ([train, _], weight) = problem(20);
        let nothing: MatRef<'_, f32> = MatRef::new(&[], 0, 9);
        let none = SiteStats::of(nothing, MatRef::new(&[], 0, 5));
        let error = regression([&train, &none], &weight, Ridge::Auto, false).expect_err("refuses");
        assert!(error.to_string().contains("validation samples"), "{error}");
        assert!(regression([&train, &none], &weight, Ridge::Share(0.1), false).is_ok());
    }

    #[test]
    fn a_ridge_is_a_number_or_auto_in_files() {
        let read = |text: &str| serde_json::from_str::<Ridge>(text);
        assert_eq!(read("\"auto\"").expect("reads"), Ridge::Auto);
        assert_eq!(read("0.5").expect("reads"), Ridge::Share(0.5));
        assert_eq!(read("2").expect("reads"), Ridge::Share(2.0));
        for wrong in ["\"automatic\"", "null", "[1]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for ridge in [Ridge::Auto, Ridge::Share(0.25)] {
            let text = serde_json::to_string(&ridge).expect("writes");
            assert_eq!(read(&text).expect("reads"), ridge);
        }
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Ridge::Share(wrong).check().is_err(), "{wrong}");
        }
    }
}
