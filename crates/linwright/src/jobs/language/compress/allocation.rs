//! From a budget to a plan that divides it over the layers.

use super::spec::{Division, Slots, Spec};
use super::{Heal, plan};
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{Failure, Session};
use crate::jobs::language::plan::spectra;
use linwright_compress::allocate::{
    Allocation, Allocator, SiteChoices, Unreachable, allocate, by_spectrum, standard_alignment,
};
use linwright_compress::methods::StructuredMethod;
use linwright_compress::pipeline::Context;
use linwright_compress::plan::Edit;
use linwright_compress::{MethodSpec, Plan, Size};
use linwright_lm::allocate::{
    Candidates, Measured, Sensitivity, SiteLoss, Tried, judged, sensitivity,
};
use linwright_model::{Transformer, Windows};
use linwright_ops::{LinearSlot, OpSpec, Sites};
use linwright_report::Block;
use linwright_report::number::signed;
use linwright_run::Store;
use serde::{Deserialize, Serialize};

/// Kinds of operators that `auto` tries beside low rank: those that few alternations fit.
const KINDS: [&str; 2] = ["monarch", "block_hadamard"];
/// Starts and iterations of their fits; more gain little in an alternation from a closed form.
const EFFORT: (u32, u32) = (1, 20);
/// Shares of parameters at which they are tried, over the one that is asked for.
const SHARES: [f64; 3] = [0.5, 1.0, 1.5];

/// Refuses before any work a model that cannot be measured: one without a loss of the next token,
/// or one larger than memory, of which several forms would be held.
pub(super) fn check_model(
    spec: &Spec,
    model: &Transformer,
    is_offloaded: bool,
) -> Result<(), Failure> {
    let reason = match (spec.needs_measures(), model.config().is_causal()) {
        (false, _) => return Ok(()),
        (true, false) => {
            "the model is an encoder, and layers are measured by the loss of the next token"
        }
        (true, true) if is_offloaded => {
            "the weights stay in files, and layers are measured in a model held in memory"
        }
        (true, true) => return Ok(()),
    };
    Err(Failure::usage(reason).hint("give --allocate spectrum, or a method without --allocate"))
}

/// A division of the budget with what it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Allocated {
    /// The allocator.
    allocator: Allocator,
    /// Multiple of the ranks.
    align: usize,
    /// What was measured, without the choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<Sensitivity>,
    /// Plans that were judged on validation windows of the calibration text, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tried: Vec<Tried>,
    /// The plan, which a result has for itself.
    #[serde(skip)]
    pub(super) plan: Option<Plan>,
}

impl Allocated {
    /// Tables of what an edit of each site costs, and of the plans that were tried.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let Some(measured) = &self.measured else { return Vec::new() };
        let site = |site: &SiteLoss| {
            vec![
                site.site.to_string(),
                site.method.clone(),
                format!("{:.2e}", site.error),
                signed(site.loss),
            ]
        };
        let sites = measured.losses.iter().map(site).collect();
        let plan = |tried: &Tried| {
            vec![tried.name.clone(), format!("{:.4}", tried.keep), format!("{:.4}", tried.loss)]
        };
        let plans = self.tried.iter().map(plan).collect();
        let tokens = measured.tokens;
        vec![
            text([format!(
                "the first plan won on {tokens} validation tokens of the calibration text, where \
                 the dense model has {:.4} nats/token; judge the result on other text",
                measured.dense_loss
            )]),
            table(&["plan", "keep", "nats/token"], plans),
            table(&["site", "replaced by", "fit error", "costs nats/token"], sites),
        ]
    }
}

/// What a budget is divided for.
pub(super) struct Dividing<'a> {
    pub(super) slots: &'a Slots,
    pub(super) seed: u64,
    /// The plan with one method and size.
    pub(super) uniform: &'a Plan,
    pub(super) model: &'a OpenModel,
    pub(super) calibration: Option<&'a Windows>,
    pub(super) store: &'a Store,
}

impl Dividing<'_> {
    /// The division; none if it is uniform.
    pub(super) fn divided(&self, session: &mut Session<'_>) -> Result<Option<Allocated>, Failure> {
        let share = match self.slots.division {
            Division::Uniform => return Ok(None),
            Division::Spectrum(share) | Division::Sensitivity { share, .. } => share,
        };
        let decoder = &self.model.loaded.decoder;
        let replaced = self.uniform.edits[0].sites.of(decoder)?;
        let shapes = replaced.iter().filter_map(|site| decoder.slot(site)).map(LinearSlot::shape);
        let align = share.align.unwrap_or_else(|| standard_alignment(shapes));
        let heal = self.slots.heal;
        let plan_of = |allocation: &Allocation, choices: &[SiteChoices]| {
            let mut plan = allocation.plan(choices, self.seed, heal != Heal::None);
            plan.edits.extend(plan::healing(decoder, &replaced, heal));
            plan
        };
        match self.slots.division {
            Division::Uniform => Ok(None),
            Division::Spectrum(_) => {
                let method = &self.uniform.edits[0].method;
                let found = spectra(self.model, &replaced, &Store::none(), session)?;
                let choices = by_spectrum(&found, method, align)
                    .map_err(|error| Failure::general(error.to_string()))?;
                let allocation = allocate(&choices, share.keep).map_err(unreachable)?;
                let plan = plan_of(&allocation, &choices);
                let allocator = Allocator::Spectrum;
                Ok(Some(Allocated {
                    allocator,
                    align,
                    measured: None,
                    tried: Vec::new(),
                    plan: Some(plan),
                }))
            }
            Division::Sensitivity { tries_operators, .. } => {
                let edit = &self.uniform.edits[0];
                let candidates = candidates(edit, (share.keep, align), tries_operators, self.seed)?;
                self.measured(&candidates, &plan_of, session).map(Some)
            }
        }
    }

    fn measured(
        &self,
        candidates: &Candidates,
        plan_of: &dyn Fn(&Allocation, &[SiteChoices]) -> Plan,
        session: &mut Session<'_>,
    ) -> Result<Allocated, Failure> {
        let windows = self.calibration.ok_or_else(|| {
            Failure::usage("--allocate sensitivity measures on calibration text")
                .hint("give --calibration FILE")
        })?;
        let (model, tokenizer) = (&self.model.loaded.decoder, self.model.tokenizer()?);
        let context = Context { store: Some(self.store), ..Context::new(&self.model.loaded.hash) };
        let measured = Measured { model, tokenizer, windows };
        let mut found = sensitivity(measured, candidates, &context, session)?;
        let tried = judged(measured, &found, candidates, &context, plan_of, session)?;
        let tried = tried.map_err(unreachable)?;
        found.choices.clear();
        let (allocator, plan) = (Allocator::Sensitivity, Some(tried[0].plan.clone()));
        let align = candidates.align;
        Ok(Allocated { allocator, align, measured: Some(found), tried, plan })
    }
}

fn unreachable(error: Unreachable) -> Failure {
    Failure::usage(error.to_string()).hint("give a larger --keep")
}

fn candidates(
    edit: &Edit,
    (keep, align): (f64, usize),
    tries_operators: bool,
    seed: u64,
) -> Result<Candidates, Failure> {
    let mut methods = vec![edit.method.clone()];
    if tries_operators {
        for kind in KINDS {
            let operator: OpSpec = plan::operator(kind, Some(Size::Keep(keep)))?;
            let (starts, iterations) = EFFORT;
            methods.push(MethodSpec::Structured(StructuredMethod {
                starts,
                iterations,
                ..StructuredMethod::new(operator)
            }));
        }
    }
    let keeps = SHARES.into_iter().map(|share| share * keep).filter(|keep| *keep < 1.0).collect();
    Ok(Candidates { methods, align, keeps, keep, sites: edit.sites.clone(), seed })
}
