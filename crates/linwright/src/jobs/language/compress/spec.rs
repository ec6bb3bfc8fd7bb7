//! What a compression does, from its options: resolved once, before any work.

use super::names::Way;
use super::plan::method_of;
use super::{Compress, Heal, budget, pruning, recovery};
use crate::jobs::kit::JobError;
use crate::jobs::language::plan_file::read_plan_file;
use linwright_compress::allocate::Allocator;
use linwright_compress::plan::{Edit, SlotSet};
use linwright_compress::recover::Recovery;
use linwright_compress::{MethodSpec, Plan, Size, Unit};
use linwright_lm::prune::{Cut, PruneSpec};
use linwright_model::Transformer;

/// What a compression does.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) what: What,
    /// Training of the replaced layers afterwards, if it is wanted.
    pub(super) recovery: Option<Recovery>,
    /// Seed of random numbers.
    pub(super) seed: u64,
}

/// What becomes of the layers.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The edits of a file.
    Plan(Plan),
    /// The best of several methods within a share of the parameters.
    Budget(Budget),
    /// Layers are narrowed together.
    Pruning(PruneSpec, Cut),
    /// Layers are replaced one by one by a method.
    Slots(Slots),
}

/// A share of the parameters of some layers.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) share: f64,
    pub(super) slots: SlotSet,
    /// Whether the best method with ranks is divided over the layers, too.
    pub(super) is_divided: bool,
    /// Multiple of divided ranks.
    pub(super) align: Option<usize>,
}

/// A method for some layers.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    pub(super) slots: SlotSet,
    /// The method; the first candidate where several are tried.
    pub(super) method: MethodSpec,
    pub(super) size: Option<Size>,
    pub(super) heal: Heal,
    pub(super) division: Division,
}

/// How the parameters are divided over the layers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Division {
    /// The same size for each.
    Uniform,
    /// By the singular values of the weights.
    Spectrum(Share),
    /// By the loss that an edit of each layer costs.
    Sensitivity {
        share: Share,
        /// Whether operators are tried beside the method.
        tries_operators: bool,
    },
}

/// A share of the parameters that is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) keep: f64,
    /// Multiple of the ranks.
    pub(super) align: Option<usize>,
}

impl Spec {
    /// Resolves the options of a job.
    ///
    /// # Errors
    /// [`JobError`] if the method has no size or cannot have the given one, if options
    /// contradict each other, or if the plan cannot be read.
    pub(super) fn of(job: &Compress) -> Result<Self, JobError> {
        let recovery = recovery::resolved(job)?;
        let way = job.method.as_ref().map(|method| method.way());
        let what = match (&job.plan, way) {
            (Some(path), _) => What::Plan(read_plan_file(path)?),
            (None, Some(Way::Best)) => What::Budget(budget::resolved(job)?),
            (None, Some(Way::Pruning)) => pruning::resolved(job)?,
            (None, Some(Way::Slots | Way::Auto) | None) => What::Slots(Slots::of(job)?),
        };
        Ok(Self { what, recovery, seed: job.seed })
    }

    /// Whether layers are measured on calibration text.
    pub(super) fn needs_measures(&self) -> bool {
        matches!(&self.what, What::Slots(slots) if matches!(slots.division, Division::Sensitivity { .. }))
    }

    /// Whether layers are measured or trained on calibration text, whatever their method needs.
    pub(super) fn reads_text_itself(&self) -> bool {
        let is_budget = matches!(self.what, What::Budget(_));
        self.needs_measures() || self.recovery.is_some() || is_budget
    }
}

impl Slots {
    fn of(job: &Compress) -> Result<Self, JobError> {
        let is_auto = job.method.as_ref().is_some_and(|method| method.way() == Way::Auto);
        let slots = job.slots.set()?;
        let division = Division::of(job, is_auto)?;
        // The first candidate of `auto`.
        let term = job.method.as_ref().filter(|_| !is_auto);
        let method = method_of(term, job.size())?;
        if !matches!(division, Division::Uniform) && !method.units().contains(&Unit::Rank) {
            let label = method.label(None);
            return Err(JobError::new(format!("{label} has no ranks to divide")));
        }
        let standard = if method.needs_text() { Heal::Ridge } else { Heal::None };
        let heal = job.heal.unwrap_or(standard);
        Ok(Self { slots, method, size: job.size(), heal, division })
    }

    /// A method at a share that is divided over the layers by what each costs.
    pub(super) fn divided(slots: &SlotSet, method: MethodSpec, share: Share) -> Self {
        let heal = if method.needs_text() { Heal::Ridge } else { Heal::None };
        let division = Division::Sensitivity { share, tries_operators: false };
        Self { slots: slots.clone(), method, size: Some(Size::Keep(share.keep)), heal, division }
    }

    /// The edits of a model, with one method and size.
    ///
    /// # Errors
    /// If nothing of the model is selected.
    pub(super) fn plan(&self, model: &Transformer, seed: u64) -> Result<Plan, JobError> {
        let replaced = self.slots.of(model).map_err(|error| JobError::new(error.to_string()))?;
        let (sites, method, size) = (self.slots.clone(), self.method.clone(), self.size);
        let edit = Edit { sites, method, size, heals: false };
        let heals = super::plan::healing(model, &replaced, self.heal);
        Ok(Plan { seed, edits: std::iter::once(edit).chain(heals).collect() })
    }
}

impl Division {
    fn of(job: &Compress, is_auto: bool) -> Result<Self, JobError> {
        let standard = if is_auto { Allocator::Sensitivity } else { Allocator::Uniform };
        let given = job.allocate.as_deref();
        let allocator = given.map_or(standard, |given| given.allocator);
        let align = given.and_then(|given| given.align);
        let share = || match job.size().and_then(|size| size.keep()) {
            Some(keep) => Ok(Share { keep, align }),
            None => Err(JobError::new(format!(
                "--allocate {} divides a share of parameters",
                allocator.name()
            ))
            .hint("give --keep SHARE")),
        };
        match (allocator, is_auto) {
            (Allocator::Uniform, true) => {
                Err(JobError::new("--method auto divides the parameters by sensitivity")
                    .hint("leave out --allocate uniform"))
            }
            (Allocator::Uniform, false) if align.is_some() => Err(JobError::new(
                "align goes with --allocate spectrum or sensitivity, or with pruning",
            )),
            (Allocator::Uniform, false) => Ok(Self::Uniform),
            (Allocator::Spectrum, true) => {
                Err(JobError::new("singular values do not tell which method is best in a layer")
                    .hint("leave out --allocate spectrum"))
            }
            (Allocator::Spectrum, false) => Ok(Self::Spectrum(share()?)),
            (Allocator::Sensitivity, tries_operators) => {
                Ok(Self::Sensitivity { share: share()?, tries_operators })
            }
        }
    }
}
