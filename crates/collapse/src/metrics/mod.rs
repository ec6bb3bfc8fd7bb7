//! Metrics of neural collapse: NC1 to NC5.
//!
//! `catalogue` names all of them with their definitions. Notation: K classes with samples, of n_k
//! each, N in all; μ_k the mean of class k, μ_G the mean of means, μ_S that of samples; M has the
//! rows `μ_k - μ_G`, W the rows of the head, of the classes with samples; Wc is W minus the mean of
//! its rows.
//!
//! ```text
//! Sw = 1/N Σ (x - μ_y)(x - μ_y)ᵀ        Sb = 1/K Mᵀ M
//! ```
//!
//! Sources: Papyan, Han and Donoho 2020 (arXiv:2008.08186); Zhu et al. 2021 (arXiv:2105.02375);
//! Galanti et al. 2021 (arXiv:2112.15121); Tirer and Bruna 2022 (arXiv:2202.08087); Wu and Papyan
//! 2024 (arXiv:2405.17767).

mod catalogue;
mod duality;
mod frames;
mod variability;

pub use catalogue::{METRICS, MetricName};
pub(crate) use duality::duality;
pub(crate) use frames::{Prefix, floor, frames};
pub use variability::{ClassDistance, class_distance};

use crate::{ClassStatistics, CollapseError};
use linwright_tensor::Mat;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;

/// Values of metrics by name, in the order of [`METRICS`]. A metric that is undefined for these
/// features, such as a cosine with a mean of length zero, is null.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(Vec<(&'static str, Option<f64>)>);

impl Metrics {
    /// The value of a metric, if it was computed and is defined.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| *known == name).and_then(|(_, value)| *value)
    }

    /// Whether a metric was computed; it may be undefined.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// All computed metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
        self.0.iter().copied()
    }

    /// The computed ones that are not defined.
    #[must_use]
    pub fn undefined(&self) -> Vec<&'static str> {
        self.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect()
    }

    pub(crate) fn put(&mut self, name: &'static str, value: f64) {
        self.0.push((name, value.is_finite().then_some(value)));
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByName)
    }
}

struct ByName;

impl<'de> Visitor<'de> for ByName {
    type Value = Metrics;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("values of metrics by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics, A::Error> {
        let mut all = Metrics::default();
        while let Some((name, value)) = map.next_entry::<String, Option<f64>>()? {
            all.0.push((named(&name)?, value));
        }
        Ok(all)
    }
}

/// The name of a metric as [`METRICS`] has it.
fn named<E: Error>(name: &str) -> Result<&'static str, E> {
    let metric = METRICS.iter().find(|metric| metric.name == name);
    metric.map(|metric| metric.name).ok_or_else(|| E::custom(format!("no metric is called {name}")))
}

/// The metrics of class statistics and, if there is one, a head (classes, d) with a row for every
/// class, with or without samples.
///
/// # Errors
/// [`CollapseError::Shape`] for a head of another shape, [`CollapseError::Numerics`].
pub fn metrics(
    statistics: &ClassStatistics,
    head: Option<&Mat<f64>>,
) -> Result<Metrics, CollapseError> {
    let head = head.map(|head| present_rows(head, statistics)).transpose()?;
    let mut all = variability::variability(statistics)?;
    let means = statistics.centred_means();
    let errors = crate::rounding::of_means(statistics);
    all.extend(frames(&Prefix::MEANS, &means, &statistics.means, &errors));
    all.put("nc2_etf_floor", floor(statistics.features(), statistics.present()));
    if let Some(head) = &head {
        let centre = crate::statistics::column_means(head);
        let centred = crate::statistics::centred(head, &centre);
        all.extend(frames(&Prefix::HEAD, head, head, &vec![0.0; head.rows()]));
        all.put(
            "nc2_etf_err_Wc",
            frames::structure_error(&centred, &centred, frames::Aim::Simplex),
        );
        all.extend(duality(head, &centred, &means));
    }
    Ok(all)
}

/// Rows of a head for the classes with samples.
pub(crate) fn present_rows(
    head: &Mat<f64>,
    statistics: &ClassStatistics,
) -> Result<Mat<f64>, CollapseError> {
    let (classes, d) = (statistics.classes, statistics.features());
    if (head.rows(), head.cols()) != (classes, d) {
        return Err(CollapseError::Shape {
            what: "the head".into(),
            found: vec![head.rows(), head.cols()],
            expected: format!("({classes}, {d}): a row for each class, a column for each feature"),
        });
    }
    Ok(Mat::from_fn(statistics.present(), d, |k, j| head.at(statistics.present[k], j)))
}
