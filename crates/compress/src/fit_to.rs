//! Which examples closed forms are fitted to.
//!
//! An automatic ridge is chosen on validation examples, which must be new to everything below as
//! well: earlier fits that have seen them leave less to correct there than on other text. So a
//! network is edited twice: once from the training examples, to choose ridges, and once from all of
//! them, with these ridges. λ stays: as a share of moments that grow with the examples it falls.

use crate::pipeline::Context;
use linwright_ops::{Examples, SiteId};
use linwright_run::Monitor;
use std::collections::BTreeMap;

/// Ridges of sites that were chosen, as shares of the mean second moment of an input over all
/// examples.
pub type Ridges = BTreeMap<SiteId, f64>;

/// Which examples closed forms are fitted to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FitTo<'a> {
    /// The training examples. Those for validation are held out: they choose ridges, are not seen
    /// by any fit, and can judge the result.
    #[default]
    Training,
    /// All examples, in two passes: the first one holds validation examples out and chooses
    /// ridges. Fits that are trained keep their validation examples, and so do all others beside
    /// them, in a single pass.
    All,
    /// All examples, with these ridges.
    With(&'a Ridges),
}

impl FitTo<'_> {
    /// Whether validation examples are held out.
    pub fn holds_out(self) -> bool {
        !matches!(self, Self::With(_))
    }

    /// Rows of the examples that fits see.
    pub fn rows<I>(self, examples: &dyn Examples<I>) -> usize {
        if self.holds_out() { examples.training_rows() } else { examples.all_rows() }
    }

    /// The chosen ridge of a site.
    pub fn ridge(self, site: &SiteId) -> Option<f64> {
        match self {
            Self::With(ridges) => ridges.get(site).copied(),
            Self::Training | Self::All => None,
        }
    }

    /// Its name in fingerprints.
    pub fn name(self) -> &'static str {
        if self.holds_out() { "training" } else { "all" }
    }
}

/// Edits a network in one pass or in two, as the context says; `needed` tells whether a ridge is to
/// be chosen, and `ridges` lists what a pass chose.
pub fn in_passes<T, I, E>(
    context: &Context<'_>,
    examples: &dyn Examples<I>,
    needed: bool,
    monitor: &mut dyn Monitor,
    mut pass: impl FnMut(&Context<'_>, &mut dyn Monitor) -> Result<T, E>,
    ridges: impl Fn(&T) -> Vec<(SiteId, f64)>,
) -> Result<T, E> {
    if context.fit_to != FitTo::All {
        return pass(context, monitor);
    }
    let mut chosen = Ridges::new();
    if needed {
        monitor.step("choosing ridges, with validation windows held out");
        let first = Context { fit_to: FitTo::Training, ..context.clone() };
        let edited = pass(&first, monitor)?;
        let share = examples.training_rows() as f64 / examples.all_rows().max(1) as f64;
        chosen.extend(ridges(&edited).into_iter().map(|(site, ridge)| (site, ridge * share)));
        drop(edited);
        monitor.step("fitting to all windows, with these ridges");
    }
    pass(&Context { fit_to: FitTo::With(&chosen), ..context.clone() }, monitor)
}
