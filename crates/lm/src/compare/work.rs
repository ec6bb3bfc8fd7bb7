//! From a candidate and a share to a transformer.

use super::candidate::Part;
use super::{Asked, Made};
use crate::LmError;
use crate::prune::{Cut, PruneProblem, PruneSpec};
use linwright_compare::{Slots, nearest, other_share, saving};
use linwright_compress::fit_to::FitTo;
use linwright_compress::plan::{Edit, Plan, SlotSet};
use linwright_compress::recover::{Recovery, estimate as recovery, recover};
use linwright_compress::{CompressError, Rates};
use linwright_evaluate::{LastOutputs, RunOptions, Task};
use linwright_model::checkpoint::Sentence;
use linwright_model::tokenizer::Tokenizer;
use linwright_model::{Batch, Transformer, Windows};
use linwright_ops::{Examples, Network};
use linwright_run::{Monitor, Shard, Store};
use linwright_tensor::dtype::DType;

/// What methods are compared on.
pub struct Work<'a> {
    /// The original model.
    pub model: &'a Transformer,
    /// Hash of its weights.
    pub model_hash: &'a str,
    /// Its outputs for the texts of the evaluation, which every candidate is compared with.
    pub outputs: &'a LastOutputs,
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

/// The share that pruning keeps.
///
/// # Errors
/// [`CompressError`] if it has no share, or a size in another unit.
pub(super) fn pruned_share(asked: &Asked) -> Result<f64, CompressError> {
    let own = asked.size.and_then(|size| size.keep());
    asked.keep.or(own).ok_or_else(|| CompressError::Options {
        method: asked.name(),
        reason: "needs a share of the parameters: keep".to_owned(),
    })
}

impl<'a> Work<'a> {
    /// What replaces single slots.
    pub(super) fn slots(&self) -> Slots<'a, Transformer> {
        Slots {
            network: self.model,
            hash: self.model_hash,
            sites: self.sites,
            plan_of: self.plan_of,
            examples: self.windows.map(|windows| windows as &dyn Examples<Batch>),
            dtype: self.dtype,
            fits: self.fits,
        }
    }

    /// The model narrowed to a share of its layers, or to the nearest that it can have.
    pub(super) fn pruned(
        &self,
        spec: &PruneSpec,
        asked: f64,
        fit_to: FitTo<'static>,
        monitor: &mut dyn Monitor,
    ) -> Result<Made, LmError> {
        let share = nearest(asked, &|share| self.sizes(spec, share))?;
        let cut = self.cut(share);
        let (original, windows, seed) = (self.model, self.windows, self.seed);
        let context = self.slots().context(fit_to);
        let problem = PruneProblem { original, windows, cut: &cut, seed, context: &context };
        let edited = spec.prune(&problem, monitor)?;
        let bytes = edited.network.parameters() * self.slots().number_bytes();
        Ok(Made { edited, nearest: other_share(asked, share), bytes, note: None })
    }

    /// A fitted model, trained if that is wanted.
    pub(super) fn recovered(&self, made: Made, monitor: &mut dyn Monitor) -> Result<Made, LmError> {
        let (Some(settings), Some(windows)) = (&self.recovery, self.windows) else {
            return Ok(made);
        };
        let Made { mut edited, nearest, .. } = made;
        let text = crate::next_tokens(windows);
        let context = self.slots().context(FitTo::Training);
        let done = recover(&mut edited, &text, settings, &context, monitor)?;
        let note = match done.kept {
            true => format!(
                "recovery lowered the held-out loss from {:.4} to {:.4} nats/token, best at step {}",
                done.loss_before, done.loss_after, done.best_step
            ),
            false => "recovery thrown away, no step lowered the held-out loss".to_owned(),
        };
        let bytes = edited.network.parameters() * self.slots().number_bytes();
        Ok(Made { edited, nearest, bytes, note: Some(note) })
    }

    /// Parameters of the sites after a candidate, without making it; at a share, or at the nearest
    /// one that it can have, where these are fewer than those of the dense weights. Rounded weights
    /// keep all, in fewer bytes.
    ///
    /// # Errors
    /// [`LmError`] if there is no such model, or none that saves anything.
    pub fn saving(&self, asked: &Asked) -> Result<u64, LmError> {
        match asked.candidate.part() {
            Part::Slots(method) => Ok(self.slots().saving(&asked.with(method))?),
            Part::Layers(spec) => {
                let share = nearest(pruned_share(asked)?, &|share| self.sizes(spec, share))?;
                let sizes = spec.sizes(self.model, &self.cut(share))?;
                let kept = sizes.iter().map(|size| size.kept as u64).sum();
                Ok(saving(asked.name(), kept, self.slots().targeted())?)
            }
        }
    }

    /// Estimated time in seconds of the fits of a candidate, and of a recovery after them; none for
    /// pruning and rounding, whose work is not counted.
    ///
    /// # Errors
    /// [`LmError`] if there is no such model.
    pub fn seconds(&self, asked: &Asked, rates: &mut Rates) -> Result<Option<f64>, LmError> {
        let Part::Slots(method) = asked.candidate.part() else { return Ok(None) };
        let Some(fits) = self.slots().cost(&asked.with(method), rates)? else { return Ok(None) };
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
}
