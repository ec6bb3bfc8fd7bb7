//! From a candidate and a share to a model.

use super::candidate::Candidate;
use super::quantised::{self, Bytes, Rounded};
use crate::LmError;
use crate::prune::{Cut, PruneProblem, PruneSpec};
use linwright_compress::fit_to::FitTo;
use linwright_compress::pipeline::{Context, Edited, apply};
use linwright_compress::plan::{Edit, Plan, SlotSet};
use linwright_compress::recover::{Recovery, estimate as recovery, recover};
use linwright_compress::{CompressError, MethodSpec, Rates, Size, estimate};
use linwright_evaluate::{ParameterCounts, RunOptions, Task};
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, Transformer, Windows};
use linwright_ops::{Examples, LinearSlot, Network, SiteId, Sites};
use linwright_run::{Monitor, Shard, Store};
use linwright_tensor::dtype::DType;

/// Largest share of the dense weights that is less than all of them in the digits of reports.
const NOTHING_SAVED: f64 = 0.999_95;
/// Step of the search for the nearest size.
const STEP: f64 = 0.01;

/// What methods are compared on.
pub struct Work<'a> {
    /// The original model.
    pub model: &'a Transformer,
    /// Hash of its weights.
    pub model_hash: &'a str,
    /// Its tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// Its pooling, for tasks of sentence encoders.
    pub sentence: Option<&'a Sentence>,
    /// Context length, if it is limited.
    pub max_length: Option<usize>,
    /// Batches.
    pub run: RunOptions,
    /// Calibration text, if there is any.
    pub windows: Option<&'a Windows>,
    /// Tasks of the evaluation; the first ranks.
    pub tasks: &'a [Box<dyn Task>],
    /// The slots that are replaced.
    pub sites: &'a SlotSet,
    /// The plan of an edit of these slots, with its healing.
    pub plan_of: &'a dyn Fn(Edit) -> Plan,
    /// Training of replaced layers after the fits, controls included, if it is wanted. Rounded
    /// weights are not trained.
    pub recovery: Option<Recovery>,
    /// Type in which numbers are stored, by which models are judged and their bytes counted.
    pub dtype: DType,
    /// Seed of random numbers.
    pub seed: u64,
    /// Store of finished fits.
    pub fits: &'a Store,
    /// Store of finished cells.
    pub pieces: &'a Store,
    /// The share of the cells that this process computes.
    pub shard: Shard,
}

/// A model that a candidate made.
#[derive(Debug)]
pub struct Made {
    /// The model.
    pub edited: Edited<Transformer>,
    /// The share that was used, if the candidate cannot have the one that was asked for.
    pub nearest: Option<f64>,
    /// Bytes of its weights.
    pub bytes: u64,
    /// What else is to be told.
    pub note: Option<String>,
}

impl Made {
    /// Parameters before and after.
    #[must_use]
    pub fn parameters(&self, original: &Transformer) -> ParameterCounts {
        let replaced = || self.edited.sites.iter().filter(|site| !site.heals);
        ParameterCounts {
            targeted: replaced().map(|site| site.parameters as u64).sum(),
            targeted_dense: replaced().map(|site| site.dense_parameters as u64).sum(),
            model: self.edited.network.parameters(),
            model_dense: original.dense_parameters(),
        }
    }
}

impl Work<'_> {
    /// Bytes of a stored number.
    #[must_use]
    pub fn number_bytes(&self) -> u64 {
        self.dtype.size() as u64
    }

    /// The context of fits to these examples.
    fn context(&self, fit_to: FitTo<'static>) -> Context<'_> {
        Context { store: Some(self.fits), fit_to, ..Context::new(self.model_hash) }
    }

    /// The model that a candidate makes at a share, or at the nearest that it can have. Validation
    /// windows are held out of its fits as `fit_to` says, and wherever it is recovered.
    ///
    /// # Errors
    /// [`LmError`] if it makes none.
    pub fn make(
        &self,
        candidate: &Candidate,
        keep: Option<f64>,
        fit_to: FitTo<'static>,
        monitor: &mut dyn Monitor,
    ) -> Result<Made, LmError> {
        let fit_to = if self.recovery.is_some() { FitTo::Training } else { fit_to };
        let asked = keep.unwrap_or(1.0);
        self.saving(candidate, keep)?;
        match candidate {
            Candidate::Sites(method) => {
                let share = self.nearest(asked, &|share| self.checked(method, share).map(drop))?;
                let plan = self.checked(method, share)?;
                let windows = self.windows.filter(|_| self.reads_text(&plan));
                let windows = windows.map(|windows| windows as &dyn Examples<Batch>);
                let edited = apply(self.model, windows, &plan, &self.context(fit_to), monitor)?;
                self.made(edited, other(asked, share), monitor)
            }
            Candidate::Pruned(spec) => {
                let share = self.nearest(asked, &|share| self.sizes(spec, share))?;
                let cut = self.cut(share);
                let (original, windows, seed) = (self.model, self.windows, self.seed);
                let context = self.context(fit_to);
                let problem =
                    PruneProblem { original, windows, cut: &cut, seed, context: &context };
                let edited = spec.prune(&problem, monitor)?;
                self.made(edited, other(asked, share), monitor)
            }
            Candidate::Rounded(rounding) => {
                let sites = self.sites.of(self.model)?;
                let budget = Bytes { keep: asked, number: self.number_bytes() };
                let found = quantised::rounded(self.model, &sites, *rounding, budget, monitor)?;
                let Rounded { edited, bytes, note } = found;
                let rounded: u64 = edited.sites.iter().map(|s| s.dense_parameters as u64).sum();
                let rest = edited.network.parameters().saturating_sub(rounded);
                let share = bytes as f64 / (rounded * self.number_bytes()).max(1) as f64;
                let nearest = (keep.is_some() && share > asked).then_some(share);
                let bytes = bytes + rest * self.number_bytes();
                Ok(Made { edited, nearest, bytes, note: Some(note) })
            }
        }
    }

    /// A fitted model, trained if that is wanted.
    fn made(
        &self,
        mut edited: Edited<Transformer>,
        nearest: Option<f64>,
        monitor: &mut dyn Monitor,
    ) -> Result<Made, LmError> {
        let note = match (&self.recovery, self.windows) {
            (Some(settings), Some(windows)) => {
                let text = crate::next_tokens(windows);
                let done =
                    recover(&mut edited, &text, settings, &self.context(FitTo::Training), monitor)?;
                Some(match done.kept {
                    true => format!(
                        "recovery lowered the held-out loss from {:.4} to {:.4} nats/token, best \
                         at step {}",
                        done.loss_before, done.loss_after, done.best_step
                    ),
                    false => "recovery thrown away, no step lowered the held-out loss".to_owned(),
                })
            }
            _ => None,
        };
        let bytes = edited.network.parameters() * self.number_bytes();
        Ok(Made { edited, nearest, bytes, note })
    }

    /// As [`Self::parameters`], where these are fewer than those of the dense weights. Rounded
    /// weights keep all, in fewer bytes.
    ///
    /// # Errors
    /// [`LmError`] if there is no such model, or none that saves anything.
    pub fn saving(&self, candidate: &Candidate, keep: Option<f64>) -> Result<u64, LmError> {
        let (kept, dense) = (self.parameters(candidate, keep)?, self.targeted());
        let share = kept as f64 / dense.max(1) as f64;
        if share <= NOTHING_SAVED || matches!(candidate, Candidate::Rounded(_)) {
            return Ok(kept);
        }
        let reason = format!("has no such size: the nearest keeps {share:.4}, which saves nothing");
        Err(CompressError::Options { method: candidate.name(), reason }.into())
    }

    /// Whether text changes what a plan does: otherwise it would only tell the errors of fits.
    fn reads_text(&self, plan: &Plan) -> bool {
        let sites = self.sites.of(self.model).unwrap_or_default();
        let has_bias = |site: &SiteId| self.model.slot(site).is_some_and(|s| s.bias().is_some());
        plan.needs_text() || sites.iter().any(has_bias)
    }

    /// The plan of a method at a share, if it can be carried out.
    fn checked(&self, method: &MethodSpec, share: f64) -> Result<Plan, LmError> {
        let (sites, method) = (self.sites.clone(), method.clone());
        let size = Some(Size::Keep(share));
        let plan = (self.plan_of)(Edit { sites, method, size, heals: false });
        plan.sites(self.model)?;
        Ok(plan)
    }

    /// Parameters of the sites after a candidate at a share, or at the nearest that it can have,
    /// without making it.
    ///
    /// # Errors
    /// [`LmError`] if there is no such model.
    pub fn parameters(&self, candidate: &Candidate, keep: Option<f64>) -> Result<u64, LmError> {
        let asked = keep.unwrap_or(1.0);
        match candidate {
            Candidate::Sites(method) => {
                let share = self.nearest(asked, &|share| self.checked(method, share).map(drop))?;
                let slots = self.sites.of(self.model)?;
                let of = |site: &SiteId| {
                    let shape = self.model.slot(site).map(LinearSlot::shape);
                    let shape = shape.expect("the site was found in the model");
                    let size = Some(Size::Keep(share));
                    method.parameters(size, shape).map(|count| count as u64)
                };
                let fit = |(site, source)| CompressError::Fit { site, source };
                Ok(slots
                    .iter()
                    .map(|site| of(site).map_err(|e| fit((site.clone(), e))))
                    .sum::<Result<_, _>>()?)
            }
            Candidate::Pruned(spec) => {
                let share = self.nearest(asked, &|share| self.sizes(spec, share))?;
                let sizes = spec.sizes(self.model, &self.cut(share))?;
                Ok(sizes.iter().map(|size| size.kept as u64).sum())
            }
            Candidate::Rounded(_) => Ok(self.targeted()),
        }
    }

    /// Estimated time in seconds of the fits of a candidate at a share, and of a recovery after
    /// them; none for pruning and rounding, whose work is not counted.
    ///
    /// # Errors
    /// [`LmError`] if there is no such model.
    pub fn seconds(
        &self,
        candidate: &Candidate,
        keep: Option<f64>,
        rates: &mut Rates,
    ) -> Result<Option<f64>, LmError> {
        let Candidate::Sites(method) = candidate else { return Ok(None) };
        let asked = keep.unwrap_or(1.0);
        let share = self.nearest(asked, &|share| self.checked(method, share).map(drop))?;
        let plan = self.checked(method, share)?;
        let windows = self.windows.filter(|_| self.reads_text(&plan));
        let windows = windows.map(|windows| windows as &dyn Examples<Batch>);
        let fits = estimate(&plan, self.model, windows, rates)?;
        let trained = match (&self.recovery, self.windows) {
            (Some(settings), Some(windows)) => {
                let replaced = fits.sites.iter().filter(|site| !site.heals);
                let sites = replaced.map(|site| site.site.clone()).collect();
                let text = crate::next_tokens(windows);
                recovery(self.model, &sites, &text, settings, fits.targeted)?.seconds
            }
            _ => 0.0,
        };
        Ok(Some(fits.seconds + trained))
    }

    /// How much pruning keeps of the layers.
    #[must_use]
    pub fn cut(&self, keep: f64) -> Cut {
        Cut { keep, align: None, layers: self.sites.layers.clone() }
    }

    /// Checks that a model can be pruned to a share.
    fn sizes(&self, spec: &PruneSpec, share: f64) -> Result<(), LmError> {
        let whole = SlotSet { layers: self.sites.layers.clone(), ..SlotSet::default() };
        if *self.sites != whole {
            let reason = "narrows all linear layers of a transformer layer, and some are selected";
            return Err(
                CompressError::Options { method: spec.id().into(), reason: reason.into() }.into()
            );
        }
        Ok(spec.sizes(self.model, &self.cut(share)).map(drop)?)
    }

    /// The share nearest to the one that is asked for of those that `has` accepts, in steps of a
    /// hundredth; of two equally near the smaller.
    fn nearest(
        &self,
        asked: f64,
        has: &dyn Fn(f64) -> Result<(), LmError>,
    ) -> Result<f64, LmError> {
        let Err(error) = has(asked) else { return Ok(asked) };
        let steps = (1..(1.0 / STEP) as usize).map(|step| step as f64 * STEP);
        let around = steps.flat_map(|away| [asked - away, asked + away]);
        let mut possible = around.filter(|share| *share > 0.0 && *share <= 1.0);
        possible.find(|share| has(*share).is_ok()).ok_or(error)
    }

    /// The share of a model's sites that are replaced, in parameters.
    #[must_use]
    pub fn targeted(&self) -> u64 {
        let sites = self.sites.of(self.model).unwrap_or_default();
        let slots = sites.iter().filter_map(|site| self.model.slot(site));
        slots.map(|slot| slot.shape().dense_parameters() as u64).sum()
    }
}

/// The share that was used, if it is not the one that was asked for.
fn other(asked: f64, share: f64) -> Option<f64> {
    (asked != share).then_some(share)
}
