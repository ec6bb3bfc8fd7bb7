//! Candidates that replace single slots of any network.

use crate::judge::Made;
use crate::methods::SlotMethod;
use crate::quantised::{self, Bytes, Rounded, Rounding};
use crate::rows::Asked;
use linwright_compress::fit_to::FitTo;
use linwright_compress::pipeline::{Context, Edited, apply};
use linwright_compress::plan::{Edit, Plan, SlotSet};
use linwright_compress::{CompressError, Estimate, MethodSpec, Rates, Size, estimate};
use linwright_ops::{Examples, LinearSlot, Network, SiteId};
use linwright_run::{Monitor, Store};
use linwright_tensor::dtype::DType;

/// Largest share of the dense weights that is less than all of them in the digits of reports.
const NOTHING_SAVED: f64 = 0.999_95;
/// Step of the search for the nearest size.
const STEP: f64 = 0.01;

/// Slots of a network, and how they are fitted.
pub struct Slots<'a, N: Network> {
    /// The original network.
    pub network: &'a N,
    /// Hash of its weights.
    pub hash: &'a str,
    /// The slots that are replaced.
    pub sites: &'a SlotSet,
    /// The plan of an edit of these slots, with its healing.
    pub plan_of: &'a dyn Fn(Edit) -> Plan,
    /// Examples that fits read, if there are any.
    pub examples: Option<&'a dyn Examples<N::Input>>,
    /// Type in which numbers are stored.
    pub dtype: DType,
    /// Store of finished fits.
    pub fits: &'a Store,
}

impl<'a, N: Network> Slots<'a, N> {
    /// Bytes of a stored number.
    #[must_use]
    pub fn number_bytes(&self) -> u64 {
        self.dtype.size() as u64
    }

    /// The context of fits to these examples.
    #[must_use]
    pub fn context(&self, fit_to: FitTo<'static>) -> Context<'a> {
        Context { store: Some(self.fits), fit_to, ..Context::new(self.hash) }
    }

    /// The share of the network's slots that are replaced, in parameters.
    #[must_use]
    pub fn targeted(&self) -> u64 {
        let sites = self.sites.of(self.network).unwrap_or_default();
        let slots = sites.iter().filter_map(|site| self.network.slot(site));
        slots.map(|slot| slot.shape().dense_parameters() as u64).sum()
    }

    /// The network that a candidate makes at a share, or at the nearest that it can have, or at its
    /// own size.
    ///
    /// # Errors
    /// [`CompressError`] if it makes none, or at a share none that saves anything.
    pub fn make(
        &self,
        asked: &Asked<SlotMethod>,
        fit_to: FitTo<'static>,
        monitor: &mut dyn Monitor,
    ) -> Result<Made<N>, CompressError> {
        match (&asked.candidate, asked.keep) {
            (SlotMethod::Sites(method), Some(_)) => {
                self.saving(asked)?;
                let (edited, nearest) = self.applied(method, asked.keep, fit_to, monitor)?;
                let bytes = edited.network.parameters() * self.number_bytes();
                Ok(Made { edited, nearest, bytes, note: None })
            }
            (SlotMethod::Sites(method), None) => {
                // The error of every fit is shown, so all of them read the examples.
                let (plan, context) = (self.exact(method, asked.size)?, self.context(fit_to));
                let edited = apply(self.network, self.examples, &plan, &context, monitor)?;
                let bytes = edited.network.parameters() * self.number_bytes();
                Ok(Made { edited, nearest: None, bytes, note: None })
            }
            (SlotMethod::Rounded(rounding), keep) => self.rounded(*rounding, keep, monitor),
        }
    }

    /// The network after a method at a share, or at the nearest that it can have, and that share if
    /// it is another one.
    ///
    /// # Errors
    /// [`CompressError`] if the method makes none.
    pub fn applied(
        &self,
        method: &MethodSpec,
        keep: Option<f64>,
        fit_to: FitTo<'static>,
        monitor: &mut dyn Monitor,
    ) -> Result<(Edited<N>, Option<f64>), CompressError> {
        let asked = keep.unwrap_or(1.0);
        let share = self.share(method, asked)?;
        let plan = self.checked(method, share)?;
        let examples = self.examples.filter(|_| self.reads_examples(&plan));
        let edited = apply(self.network, examples, &plan, &self.context(fit_to), monitor)?;
        Ok((edited, other_share(asked, share)))
    }

    /// The network with rounded weights.
    ///
    /// # Errors
    /// [`CompressError`] for slots that are not there, and if cancelled.
    pub fn rounded(
        &self,
        rounding: Rounding,
        keep: Option<f64>,
        monitor: &mut dyn Monitor,
    ) -> Result<Made<N>, CompressError> {
        let sites = self.sites.of(self.network)?;
        let asked = keep.unwrap_or(1.0);
        let budget = Bytes { keep: asked, number: self.number_bytes() };
        let found = quantised::rounded(self.network, &sites, rounding, budget, monitor)?;
        let Rounded { edited, bytes, note } = found;
        let rounded: u64 = edited.sites.iter().map(|s| s.dense_parameters as u64).sum();
        let rest = edited.network.parameters().saturating_sub(rounded);
        let share = bytes as f64 / (rounded * self.number_bytes()).max(1) as f64;
        let nearest = (keep.is_some() && share > asked).then_some(share);
        let bytes = bytes + rest * self.number_bytes();
        Ok(Made { edited, nearest, bytes, note: Some(note) })
    }

    /// Parameters of the slots after a method, without making the network; at a share where these
    /// are fewer than those of the dense weights. Rounded weights keep all, in fewer bytes.
    ///
    /// # Errors
    /// [`CompressError`] if there is no such network, or at a share none that saves anything.
    pub fn saving(&self, asked: &Asked<SlotMethod>) -> Result<u64, CompressError> {
        match (&asked.candidate, asked.keep) {
            (SlotMethod::Sites(method), Some(keep)) => {
                let share = self.share(method, keep)?;
                let kept = self.parameters(method, Some(Size::Keep(share)))?;
                saving(asked.name(), kept, self.targeted())
            }
            (SlotMethod::Sites(method), None) => {
                self.exact(method, asked.size)?;
                self.parameters(method, asked.size)
            }
            (SlotMethod::Rounded(_), _) => Ok(self.targeted()),
        }
    }

    /// Parameters of the slots after a method at a size, without making the network.
    fn parameters(&self, method: &MethodSpec, size: Option<Size>) -> Result<u64, CompressError> {
        let slots = self.sites.of(self.network)?;
        let of = |site: &SiteId| {
            let shape = self.network.slot(site).map(LinearSlot::shape);
            let shape = shape.expect("the site was found in the network");
            method.parameters(size, shape).map(|count| count as u64)
        };
        let fit = |(site, source)| CompressError::Fit { site, source };
        slots.iter().map(|site| of(site).map_err(|e| fit((site.clone(), e)))).sum()
    }

    /// Estimated cost of the fits of a candidate; none of rounded weights, which are not fitted.
    ///
    /// # Errors
    /// [`CompressError`] if there is no such network.
    pub fn cost(
        &self,
        asked: &Asked<SlotMethod>,
        rates: &mut Rates,
    ) -> Result<Option<Estimate>, CompressError> {
        let (plan, examples) = match (&asked.candidate, asked.keep) {
            (SlotMethod::Sites(method), Some(keep)) => {
                let plan = self.checked(method, self.share(method, keep)?)?;
                let examples = self.examples.filter(|_| self.reads_examples(&plan));
                (plan, examples)
            }
            (SlotMethod::Sites(method), None) => (self.exact(method, asked.size)?, self.examples),
            (SlotMethod::Rounded(_), _) => return Ok(None),
        };
        estimate(&plan, self.network, examples, rates).map(Some)
    }

    /// Whether examples change what a plan does: otherwise they would only show the errors of fits.
    fn reads_examples(&self, plan: &Plan) -> bool {
        let sites = self.sites.of(self.network).unwrap_or_default();
        let has_bias = |site: &SiteId| self.network.slot(site).is_some_and(|s| s.bias().is_some());
        plan.needs_text() || sites.iter().any(has_bias)
    }

    /// The share nearest to the one that is asked for of those that a method can have.
    fn share(&self, method: &MethodSpec, asked: f64) -> Result<f64, CompressError> {
        nearest(asked, &|share| self.checked(method, share).map(drop))
    }

    /// The plan of a method at a share, if it can be carried out.
    fn checked(&self, method: &MethodSpec, share: f64) -> Result<Plan, CompressError> {
        self.exact(method, Some(Size::Keep(share)))
    }

    /// The plan of a method at a size, if it can be carried out.
    fn exact(&self, method: &MethodSpec, size: Option<Size>) -> Result<Plan, CompressError> {
        let (sites, method) = (self.sites.clone(), method.clone());
        let plan = (self.plan_of)(Edit { sites, method, size, heals: false });
        plan.sites(self.network)?;
        Ok(plan)
    }
}

/// The parameters that a candidate keeps, if they are fewer than those of the dense weights.
///
/// # Errors
/// [`CompressError`] if nothing is saved.
pub fn saving(method: String, kept: u64, dense: u64) -> Result<u64, CompressError> {
    let share = kept as f64 / dense.max(1) as f64;
    if share <= NOTHING_SAVED {
        return Ok(kept);
    }
    let reason = format!("has no such size: the nearest keeps {share:.4}, which saves nothing");
    Err(CompressError::Options { method, reason })
}

/// The share nearest to the one that is asked for of those that `has` accepts, in steps of a
/// hundredth; of two equally near the smaller.
///
/// # Errors
/// That of `has` for the share that is asked for, if it accepts none.
pub fn nearest<E>(asked: f64, has: &dyn Fn(f64) -> Result<(), E>) -> Result<f64, E> {
    let Err(error) = has(asked) else { return Ok(asked) };
    let steps = (1..(1.0 / STEP) as usize).map(|step| step as f64 * STEP);
    let around = steps.flat_map(|away| [asked - away, asked + away]);
    let mut possible = around.filter(|share| *share > 0.0 && *share <= 1.0);
    possible.find(|share| has(*share).is_ok()).ok_or(error)
}

/// The share that was used, if it is not the one that was asked for.
#[must_use]
pub fn other_share(asked: f64, share: f64) -> Option<f64> {
    (asked != share).then_some(share)
}
