//! Metrics of the features of one layer.

use crate::baselines::{Floors, random_frames, shuffled};
use crate::bootstrap::{Interval, intervals};
use crate::pairs::{dot, norm};
use crate::sums::{ROWS, accumulate};
use crate::{ClassStatistics, ClassSums, CollapseError, Decisions, Keep, Metrics, Source, metrics};
use linwright_run::Monitor;
use linwright_tensor::{Mat, RngKey};
use serde::{Deserialize, Serialize};

/// Further values to compute.
#[derive(Clone, Copy, Debug)]
pub struct LayerOptions {
    /// Which sums are kept.
    pub keep: Keep,
    /// Draws of classes for intervals; no intervals if zero.
    pub draws: usize,
    /// Whether random frames and shuffled labels are measured, too.
    pub baselines: bool,
    /// Seed of draws and baselines.
    pub seed: u64,
}

/// A head with its bias.
#[derive(Clone, Copy, Debug)]
pub struct HeadRef<'a> {
    /// (classes, d)
    pub rows: &'a Mat<f64>,
    /// (classes)
    pub bias: Option<&'a [f64]>,
}

/// What chance gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baselines {
    /// NC2 and NC3 of random vectors of the same shape.
    pub random_frames: Metrics,
    /// All metrics with permuted labels; needs the features.
    pub shuffled_labels: Option<Metrics>,
}

/// Collapse of one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerReport {
    /// Name of the layer.
    pub name: String,
    /// Samples.
    pub rows: u64,
    /// Features.
    pub features: usize,
    /// Classes asked for.
    pub classes: usize,
    /// Classes with samples.
    pub classes_present: usize,
    /// Classes without samples, which are excluded.
    pub classes_missing: usize,
    /// Classes with one sample, whose variance is zero.
    pub singletons: usize,
    /// Samples of the smallest and of the largest class with samples.
    pub class_sizes: [u64; 2],
    /// All metrics.
    pub metrics: Metrics,
    /// Least possible values.
    pub floors: Floors,
    /// What chance gives.
    pub baselines: Option<Baselines>,
    /// Bootstrap intervals by class.
    pub intervals: Vec<Interval>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl LayerReport {
    /// Measures features in two passes, three with baselines.
    ///
    /// # Errors
    /// [`CollapseError`] for unusable features, labels and heads, and if cancelled.
    pub fn measure(
        name: &str,
        source: &dyn Source,
        (classes, head): (usize, Option<HeadRef<'_>>),
        options: LayerOptions,
        monitor: &mut dyn Monitor,
    ) -> Result<Self, CollapseError> {
        let mut sums = ClassSums::checked(classes, source.features(), options.keep)?;
        accumulate(&mut sums, source, source.labels(), monitor)?;
        let statistics = sums.finish()?;
        Self::of(name, &statistics, Some(source), head, options, monitor)
    }

    /// Measures with given means, which may come from other rows; without features, only metrics
    /// from sums.
    ///
    /// # Errors
    /// As [`Self::measure`].
    pub fn of(
        name: &str,
        statistics: &ClassStatistics,
        source: Option<&dyn Source>,
        head: Option<HeadRef<'_>>,
        options: LayerOptions,
        monitor: &mut dyn Monitor,
    ) -> Result<Self, CollapseError> {
        let rows = head.map(|head| head.rows);
        let mut metrics = metrics(statistics, rows)?;
        let key = RngKey::new(options.seed).fold("collapse");
        let mut decisions = Decisions::new(statistics, head.map(|head| (head.rows, head.bias)))?;
        let mut tallies = &[][..];
        if let Some(source) = source {
            decide(&mut decisions, source, monitor)?;
            metrics.extend(decisions.metrics());
            tallies = decisions.tallies();
        }
        let baselines = match options.baselines {
            true => Some(Baselines {
                random_frames: random_frames(statistics.present(), statistics.features(), key),
                shuffled_labels: match source {
                    Some(source) => {
                        let of = (statistics.classes, rows);
                        Some(shuffled(source, of, options.keep, key, monitor)?)
                    }
                    None => None,
                },
            }),
            false => None,
        };
        let intervals = match options.draws {
            0 => Vec::new(),
            draws => intervals(statistics, (rows, tallies), draws, key)?,
        };
        let mut report = Self {
            name: name.into(),
            rows: statistics.rows(),
            features: statistics.features(),
            classes: statistics.classes,
            classes_present: statistics.present(),
            classes_missing: statistics.classes - statistics.present(),
            singletons: statistics.singletons(),
            class_sizes: [
                statistics.counts.iter().copied().min().unwrap_or(0),
                statistics.counts.iter().copied().max().unwrap_or(0),
            ],
            metrics,
            floors: Floors::of(statistics.present(), statistics.features()),
            baselines,
            intervals,
            notes: Vec::new(),
        };
        report.notes = report.remarks(options.keep);
        Ok(report)
    }

    /// Adds metrics of a further pass.
    pub fn add_metrics(&mut self, metrics: &Metrics) {
        self.metrics.extend(metrics.clone());
    }

    /// Adds NC5: `mean_k |cos(μ_k, mean of out-of-distribution features)|`.
    ///
    /// # Errors
    /// [`CollapseError::Shape`] for other features.
    pub fn add_out_of_distribution(
        &mut self,
        statistics: &ClassStatistics,
        features: &Mat<f64>,
    ) -> Result<(), CollapseError> {
        if features.cols() != statistics.features() || features.rows() == 0 {
            return Err(CollapseError::Shape {
                what: "out-of-distribution features".into(),
                found: vec![features.rows(), features.cols()],
                expected: format!("(rows, {})", statistics.features()),
            });
        }
        let mean = crate::statistics::column_means(features);
        let cosine = |k: usize| {
            let row = statistics.means.row(k);
            (dot(row, &mean) / (norm(row) * norm(&mean))).abs()
        };
        let total: f64 = (0..statistics.present()).map(cosine).sum();
        self.metrics.put("nc5_cos", total / statistics.present() as f64);
        Ok(())
    }

    fn remarks(&self, keep: Keep) -> Vec<String> {
        let mut notes = Vec::new();
        let (classes, d) = (self.classes_present, self.features);
        if classes > d + 1 {
            notes.push(format!(
                "{classes} classes and {d} features: no simplex frame exists, the distance is at \
                 least {:.4}",
                self.floors.etf
            ));
        } else if classes > d {
            notes.push(format!("{classes} classes and {d} features: no orthogonal frame exists"));
        }
        if classes == 2 {
            notes.push("two classes: nc2_etf_err_M is zero for any features".into());
        }
        if self.classes_missing > 0 {
            notes.push(format!("{} classes without samples are excluded", self.classes_missing));
        }
        if self.singletons > 0 {
            notes.push(format!("{} classes have one sample, of variance zero", self.singletons));
        }
        let coincident = self.metrics.get("coincident_pairs").unwrap_or(0.0);
        if coincident > 0.0 {
            notes.push(format!(
                "{coincident} pairs of classes have equal means: excluded from cdnv and gnc2_log"
            ));
        }
        if keep == Keep::Traces {
            notes.push("without scatter: no nc1_pinv and its variants".into());
        }
        let undefined = self.metrics.undefined();
        if !undefined.is_empty() {
            notes.push(format!("not defined for these features: {}", undefined.join(", ")));
        }
        notes
    }
}

fn decide(
    decisions: &mut Decisions<'_>,
    source: &dyn Source,
    monitor: &mut dyn Monitor,
) -> Result<(), CollapseError> {
    for (index, labels) in source.labels().chunks(ROWS).enumerate() {
        if monitor.interrupted() {
            return Err(CollapseError::Interrupted);
        }
        let start = index * ROWS;
        decisions.add(source.block(start, labels.len())?.view(), labels)?;
        monitor.progress((start + labels.len()) as u64, source.rows() as u64);
    }
    Ok(())
}
