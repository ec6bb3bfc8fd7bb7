//! Results of a comparison on several sets of layers, with several seeds, or with sizes of rows.
//!
//! [`Runs`] has the single results of a [`Compared`]; means over seeds and sets of layers are
//! computed from it ([`Runs::summaries`]), never stored. [`Runs::document`] builds its blocks.

mod document;
mod figures;
mod headline;
mod pairs;
mod quality;
mod summary;
mod table;

#[cfg(test)]
mod tests;

pub use summary::Summary;

use crate::cell::{Compared, Pair};
use crate::fits::{Fits, MacCounts, SiteFit, SiteSpeed};
use crate::judge::Costs;
use linwright_evaluate::{ParameterCounts, TaskResult};

/// All runs of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs<'a> {
    /// Parameters of the dense network.
    pub parameters: u64,
    /// Results of the dense network in the same run.
    pub baseline: &'a [TaskResult],
    /// One entry per edited network.
    pub rows: Vec<Run<'a>>,
    /// Differences of rows, item by item.
    pub pairs: &'a [Pair],
    /// Metrics that compare a network with the dense one, and so are none of its own.
    pub from_dense: &'static [&'static str],
}

/// Results of one edited network: row, layers, seed and scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Run<'a> {
    /// Name of the row: `rotor`, `LR4-closed`.
    pub method: String,
    /// Edited layers, from zero, in the order of editing.
    pub layers: &'a [usize],
    /// Seed of the fits.
    pub seed: u64,
    /// Parameters before and after.
    pub parameters: ParameterCounts,
    /// Results of the tasks.
    pub results: &'a [TaskResult],
    /// Mean over slots of the relative squared error on held-out activations.
    pub fit_error: Option<f64>,
    /// Multiply-adds of the replaced slots, before and after.
    pub macs: Option<MacCounts>,
    /// The replaced slots.
    pub sites: &'a [SiteFit],
    /// Times of the replaced slots, before and after, if measured.
    pub speed: Option<SiteSpeed>,
    /// Time of capture and fits in seconds, if measured.
    pub seconds: Option<f64>,
}

impl<'a> Runs<'a> {
    /// The runs of a comparison that has some.
    #[must_use]
    pub fn of<M: Costs, S>(compared: &'a Compared<M, S>) -> Self {
        let rows = compared.cells.iter().filter_map(|cell| {
            let (figures, place) = (cell.found.figures()?, cell.place.as_ref()?);
            let fits = figures.fits.as_ref();
            Some(Run {
                method: cell.line(),
                layers: &place.layers,
                seed: place.seed,
                parameters: figures.parameters,
                results: &figures.results,
                fit_error: fits.and_then(Fits::error),
                macs: fits.map(|fits| fits.macs),
                sites: fits.map_or(&[], |fits| &fits.sites),
                speed: fits.and_then(|fits| *fits.speed),
                seconds: *figures.seconds,
            })
        });
        Self {
            parameters: compared.dense.parameters[1],
            baseline: &compared.dense.results,
            rows: rows.collect(),
            pairs: &compared.pairs,
            from_dense: M::FROM_DENSE,
        }
    }
}
