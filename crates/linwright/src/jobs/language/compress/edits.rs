//! What is done to a model: sites one by one by a plan, or all together by pruning.

use super::result::{Change, PruningChange};
use super::spec::{Spec, What};
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::form::SavedForm;
use linwright_compress::Plan;
use linwright_compress::pipeline::{Context, Edited, apply};
use linwright_compress::plan::SlotEdit;
use linwright_lm::LmError;
use linwright_lm::prune::{Cut, PruneProblem, PruneSpec};
use linwright_model::{Batch, Transformer, Windows};
use linwright_ops::{Examples, Op, SiteId, Sites};

/// What is done to a model.
#[derive(Clone)]
pub(super) enum Edits {
    /// Sites are replaced, each by itself.
    Plan(Plan),
    /// Layers are narrowed together.
    Pruning(PruneSpec, Cut),
}

impl Edits {
    /// The edits of a model, which fit it and its form; none if a budget decides them.
    pub(super) fn of(
        spec: &Spec,
        form: SavedForm,
        model: &OpenModel,
        is_offloaded: bool,
    ) -> Result<Option<Self>, Failure> {
        let decoder = &model.loaded.decoder;
        if let What::Pruning(spec, cut) = &spec.what {
            spec.sizes(decoder, cut).map_err(LmError::from)?;
            return match is_offloaded {
                true => Err(Failure::usage(format!(
                    "{} narrows a model held in memory, and the weights would take more than half \
                     of it",
                    spec.id()
                ))
                .hint("use a machine with more memory, or a method that replaces layers")),
                false => Ok(Some(Self::Pruning(spec.clone(), cut.clone()))),
            };
        }
        let plan = match &spec.what {
            What::Budget(_) | What::Pruning(..) => return Ok(None),
            What::Plan(plan) => plan.clone(),
            What::Slots(slots) => slots.plan(decoder, spec.seed)?,
        };
        if plan.sites(decoder)?.is_empty() {
            let message = "the plan selects no layer, so the model would stay as it is";
            return Err(Failure::usage(message));
        }
        if form.is_dense() {
            check_dense(&plan, decoder)?;
        }
        Ok(Some(Self::Plan(plan)))
    }

    /// Whether calibration text is needed.
    pub(super) fn needs_text(&self) -> bool {
        match self {
            Self::Plan(plan) => plan.needs_text(),
            Self::Pruning(spec, _) => spec.needs_text(),
        }
    }

    /// The edits for results.
    pub(super) fn summary(&self) -> Change {
        match self {
            Self::Plan(plan) => Change::Plan(plan.clone()),
            Self::Pruning(spec, cut) => {
                let (pruning, cut) = (spec.clone(), cut.clone());
                Change::Pruning(PruningChange { pruning, cut })
            }
        }
    }

    /// Edits a copy of a model.
    pub(super) fn apply(
        &self,
        original: &Transformer,
        windows: Option<&Windows>,
        context: &Context<'_>,
        seed: u64,
        session: &mut Session<'_>,
    ) -> Result<Edited<Transformer>, LmError> {
        match self {
            Self::Plan(plan) => {
                let examples = windows.map(|windows| windows as &dyn Examples<Batch>);
                Ok(apply(original, examples, plan, context, session)?)
            }
            Self::Pruning(spec, cut) => {
                let problem = PruneProblem { original, windows, cut, seed, context };
                spec.prune(&problem, session)
            }
        }
    }
}

/// Refuses before the work a dense form of a model that keeps a nonlinear operator.
fn check_dense(plan: &Plan, model: &Transformer) -> Result<(), Failure> {
    let edited: Vec<SlotEdit<'_>> =
        plan.sites(model)?.into_iter().flat_map(|group| group.slots).collect();
    if let Some(SlotEdit { site, edit, .. }) = edited.iter().find(|e| !e.edit.method.is_linear()) {
        let method = edit.method.id();
        return Err(Failure::usage(format!(
            "{site} gets method {method}, whose operator is not linear and has no dense form"
        ))
        .hint("give --form native"));
    }
    let replaced = |site: &SiteId| edited.iter().any(|edit| edit.site == *site);
    let slots = model.slots();
    let stays = slots.iter().find(|s| matches!(s.op(), Op::Map(_)) && !replaced(s.id()));
    stays.map_or(Ok(()), |slot| {
        let kind = slot.op().map().spec().kind();
        Err(Failure::usage(format!("{} is a {kind}, which has no dense form", slot.id()))
            .hint("give --form native"))
    })
}
