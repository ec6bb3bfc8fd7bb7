//! Finished fits of a pruning in the store, in the order in which they depend on each other, and
//! captures.

use super::PruneProblem;
use crate::LmError;
use linwright_compress::fit_to::FitTo;
use linwright_compress::methods::{Fit, FitReport};
use linwright_compress::pipeline::Context;
use linwright_compress::stored_fit;
use linwright_measure::capture::{Evidence, Lockstep, Needs, Wanted};
use linwright_measure::stats::InputStats;
use linwright_model::{Transformer, Windows};
use linwright_ops::{Examples, SiteId};
use linwright_run::{Fingerprint, Monitor, Store};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Fits of the sites of a branch.
pub(super) type SiteFits = Vec<(SiteId, Fit)>;

/// Fits in the store. Each depends on everything before it.
pub(super) struct Pieces<'a> {
    store: Option<&'a Store>,
    print: Fingerprint,
}

impl<'a> Pieces<'a> {
    /// The pieces of a problem for a method with its options.
    pub(super) fn new(problem: &PruneProblem<'a>, method: &impl Serialize) -> Self {
        let print = Fingerprint::of(&[
            ("version", &env!("CARGO_PKG_VERSION")),
            ("model", &problem.context.model_hash),
            ("examples", &problem.windows.map(Examples::identity)),
            ("method", method),
            ("cut", problem.cut),
            ("seed", &problem.seed),
            ("fitted to", &problem.context.fit_to.name()),
        ]);
        let print = match problem.context.fit_to {
            FitTo::With(ridges) => Fingerprint::of(&[("problem", &print), ("ridges", ridges)]),
            FitTo::Training | FitTo::All => print,
        };
        Self { store: problem.context.store, print }
    }

    /// The stored fits of the next sites, if all are there.
    pub(super) fn next(&mut self, sites: &[SiteId]) -> Result<Option<SiteFits>, LmError> {
        self.print = Fingerprint::of(&[("after", &self.print), ("sites", &sites)]);
        let Some(store) = self.store else { return Ok(None) };
        let mut found = Vec::new();
        for site in sites {
            let Some(fit) = stored_fit::get(store, &self.of(site))? else { return Ok(None) };
            found.push((site.clone(), fit));
        }
        Ok(Some(found))
    }

    /// Stores the fits of these sites.
    pub(super) fn put(&self, fits: &[(SiteId, Fit)]) -> Result<(), LmError> {
        let Some(store) = self.store else { return Ok(()) };
        let mut fits = fits.iter();
        let put = |(site, fit): &(SiteId, Fit)| stored_fit::put(store, &self.of(site), site, fit);
        Ok(fits.try_for_each(put)?)
    }

    fn of(&self, site: &SiteId) -> Fingerprint {
        Fingerprint::of(&[("branch", &self.print), ("site", site)])
    }
}

/// The captures of a pruning.
pub(super) fn lockstep<'a>(
    original: &'a Transformer,
    windows: &'a Windows,
    context: &Context<'_>,
) -> Lockstep<'a, Transformer> {
    let lockstep = Lockstep::new(original, windows, context.bounds.clone());
    if context.fit_to.holds_out() { lockstep } else { lockstep.whole() }
}

/// The ridges of refits.
pub(super) fn chosen(reports: &BTreeMap<SiteId, FitReport>) -> Vec<(SiteId, f64)> {
    let ridge = |(site, report): (&SiteId, &FitReport)| Some((site.clone(), report.ridge?));
    reports.iter().filter_map(ridge).collect()
}

/// Sums over the inputs of a site in the training text, in the model as it is.
pub(super) fn inputs_of(
    site: &SiteId,
    lockstep: &mut Lockstep<'_, Transformer>,
    network: &Transformer,
    monitor: &mut dyn Monitor,
) -> Result<Arc<InputStats>, LmError> {
    let wanted = [Wanted { site, needs: Needs::Inputs }];
    let mut captured = lockstep.capture(network, &wanted, monitor)?;
    match captured.pop().map(|capture| capture.evidence) {
        Some(Evidence::Inputs { train, .. }) => Ok(train),
        other => unreachable!("sums over inputs were asked for, found {other:?}"),
    }
}
