//! How the slots of a network were fitted, and what they compute.

use linwright_compress::pipeline::SiteOutcome;
use linwright_measure::timing::time_beside;
use linwright_ops::{LinearSlot, Op, SiteId, Sites};
use linwright_run::Measured;
use linwright_tensor::parallel;
use linwright_train::CurvePoint;
use serde::{Deserialize, Serialize};

/// Rows for timing replaced slots: a window of text.
const TIMED_ROWS: usize = 256;
/// Rounds of timing, whose median is reported.
const TIMED_ROUNDS: usize = 11;

/// Fits of the slots of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fits {
    /// Multiply-adds of the replaced slots per row, before and after.
    pub macs: MacCounts,
    /// The replaced slots.
    pub sites: Vec<SiteFit>,
    /// Times of the replaced slots, before and after; none in a saved result, which has no times.
    #[serde(default = "Measured::default")]
    pub speed: Measured<Option<SiteSpeed>>,
}

/// Multiply-adds of the replaced slots per row, which is one token, or one place of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MacCounts {
    /// In the edited network.
    pub targeted: u64,
    /// In the dense network.
    pub targeted_dense: u64,
}

/// Times of the replaced slots for a number of rows; both networks alternate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteSpeed {
    /// Number of rows.
    pub rows: usize,
    /// Number of threads.
    pub threads: usize,
    /// Milliseconds of the edited network's slots, median of rounds.
    pub milliseconds: f64,
    /// Milliseconds of the dense network's slots.
    pub milliseconds_dense: f64,
}

/// Fit of one slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteFit {
    /// The slot.
    pub site: SiteId,
    /// Role of the slot.
    pub role: String,
    /// Its layer, from zero.
    pub layer: usize,
    /// E|y − ŷ|² / E|y|² on held-out activations, where y excludes the bias.
    pub relative_error: f64,
    /// Mean squared target, by which losses are normalised to compare slots.
    pub target_power: f64,
    /// Losses of a trained fit by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePoint>,
}

impl Fits {
    /// The fits of a network, without times.
    pub(crate) fn of(original: &impl Sites, sites: &[SiteOutcome]) -> Self {
        let replaced: Vec<&SiteOutcome> = sites.iter().filter(|site| !site.heals).collect();
        let dense = replaced.iter().filter_map(|site| original.slot(&site.site));
        let fit = |site: &&SiteOutcome| SiteFit {
            site: site.site.clone(),
            role: site.role.clone(),
            layer: site.layer,
            relative_error: site.fit.relative_error,
            target_power: site.fit.target_power,
            curve: site.fit.curve.clone(),
        };
        Self {
            macs: MacCounts {
                targeted: replaced.iter().map(|site| site.macs_per_row).sum(),
                targeted_dense: dense.map(|slot| slot.op().map().macs_per_row()).sum(),
            },
            sites: replaced.iter().map(fit).collect(),
            speed: None.into(),
        }
    }

    /// Mean error of the slots.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let errors = self.sites.iter().map(|site| site.relative_error);
        (!self.sites.is_empty()).then(|| errors.sum::<f64>() / self.sites.len() as f64)
    }
}

/// Times the replaced slots of a network beside those of the original one.
pub(crate) fn speed<N: Sites>(original: &N, edited: &N, sites: &[SiteOutcome]) -> SiteSpeed {
    let replaced = || sites.iter().filter(|site| !site.heals);
    let of = |network| -> Vec<&Op<f32>> {
        let slot = |site: &SiteOutcome| Sites::slot(network, &site.site);
        replaced().filter_map(slot).map(LinearSlot::op).collect()
    };
    let (now, dense) = (of(edited), of(original));
    let [now, dense] = time_beside([&now, &dense], TIMED_ROWS, TIMED_ROUNDS);
    SiteSpeed {
        rows: TIMED_ROWS,
        threads: parallel::threads(),
        milliseconds: now.median,
        milliseconds_dense: dense.median,
    }
}
