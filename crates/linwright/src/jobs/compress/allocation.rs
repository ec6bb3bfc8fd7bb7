//! From a budget to a plan that divides it over the layers.

use super::plan::{self, heal};
use super::{Compress, Heal, MethodName};
use crate::jobs::outcome::table;
use crate::jobs::source::OpenModel;
use crate::jobs::{Failure, JobError, Session};
use linwright_compress::allocate::{
    Allocation, Allocator, Candidates, Measured, Sensitivity, SiteChoices, SiteSpectrum, allocate,
    by_spectrum, sensitivity, standard_alignment,
};
use linwright_compress::methods::StructuredMethod;
use linwright_compress::pipeline::Context;
use linwright_compress::{MethodSpec, Plan, Size};
use linwright_measure::spectra::MatrixId;
use linwright_model::Windows;
use linwright_ops::{OpSpec, SiteId, Sites};
use linwright_report::Block;
use linwright_run::{Monitor, Store};
use serde::Serialize;

/// Kinds of operators that `auto` tries beside low rank: those that few alternations fit.
const KINDS: [&str; 2] = ["monarch", "block_hadamard"];
/// Starts and iterations of their fits; more gain little in an alternation from a closed form.
const EFFORT: (u32, u32) = (1, 20);
/// Shares of parameters at which they are tried, over the one that is asked for.
const SHARES: [f64; 3] = [0.5, 1.0, 1.5];

/// Checks options before any work.
pub(super) fn check(job: &Compress) -> Result<(), JobError> {
    let is_auto = job.method.is_some_and(MethodName::is_auto);
    let allocator = job.allocator();
    if allocator == Allocator::Uniform {
        return match (is_auto, job.align) {
            (true, _) => Err(JobError::new("--method auto divides the parameters by sensitivity")
                .hint("leave out --allocate uniform")),
            (false, Some(_)) => {
                Err(JobError::new("--align goes with --allocate spectrum or sensitivity"))
            }
            (false, None) => Ok(()),
        };
    }
    if is_auto && allocator == Allocator::Spectrum {
        return Err(JobError::new("singular values do not tell which method is best in a layer")
            .hint("leave out --allocate spectrum"));
    }
    if job.keep.is_none() {
        return Err(JobError::new(format!(
            "--allocate {} divides a share of parameters",
            allocator.name()
        ))
        .hint("give --keep SHARE"));
    }
    let method = plan::method(job)?;
    match method.units().contains(&linwright_compress::Unit::Rank) {
        true => Ok(()),
        false => Err(JobError::new(format!("{} has no ranks to divide", method.label(None)))),
    }
}

/// An allocation with what it was made from.
#[derive(Serialize)]
pub(super) struct Allocated {
    /// Name of the allocator.
    allocator: &'static str,
    /// Multiple of the ranks.
    align: usize,
    /// What was measured, without the choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Sensitivity>,
    allocation: Allocation,
    #[serde(skip)]
    pub(super) plan: Plan,
}

impl Allocated {
    /// A table of what an edit of each site costs.
    pub(super) fn block(&self) -> Option<Block> {
        let measured = self.measured.as_ref()?;
        let row = |site: &linwright_compress::allocate::SiteLoss| {
            vec![
                site.site.to_string(),
                site.method.clone(),
                format!("{:.2e}", site.error),
                format!("{:+.4}", -site.loss),
            ]
        };
        let rows = measured.losses.iter().map(row).collect();
        Some(table(&["site", "method", "fit error", "nats/token if restored"], rows))
    }
}

/// Divides the budget of a job over the sites of its plan, which gives all of them one method.
pub(super) fn allocated(
    job: &Compress,
    uniform: &Plan,
    model: &OpenModel,
    calibration: Option<&Windows>,
    store: &Store,
    session: &mut Session<'_>,
) -> Result<Option<Allocated>, Failure> {
    let allocator = job.allocator();
    let (Some(keep), false) = (job.keep, allocator == Allocator::Uniform || job.plan.is_some())
    else {
        return Ok(None);
    };
    let decoder = &model.loaded.decoder;
    let replaced = uniform.edits[0].sites.of(decoder)?;
    let shapes = replaced.iter().filter_map(|site| decoder.slot(site)).map(|slot| slot.shape());
    let align = job.align.unwrap_or_else(|| standard_alignment(shapes));
    let method = &uniform.edits[0].method;
    let (choices, measured) = match calibration {
        Some(windows) if allocator == Allocator::Sensitivity => {
            let candidates = candidates(job, uniform, keep, align)?;
            let context = Context { store: Some(store), ..Context::new(&model.loaded.hash) };
            let measured = Measured { model: decoder, tokenizer: model.tokenizer()?, windows };
            let mut found = sensitivity(measured, &candidates, &context, session)?;
            (std::mem::take(&mut found.choices), Some(found))
        }
        Some(_) | None if allocator == Allocator::Spectrum => {
            (spectra(model, &replaced, method, align, session)?, None)
        }
        _ => {
            return Err(Failure::usage("--allocate sensitivity measures on calibration text")
                .hint("give --dataset FILE"));
        }
    };
    let allocation = allocate(&choices, keep)
        .map_err(|error| Failure::usage(error.to_string()).hint("give a larger --keep"))?;
    let heal = heal(job, method);
    let mut plan = allocation.plan(&choices, job.seed, heal != Heal::None);
    plan.edits.extend(plan::healing(decoder, &replaced, heal));
    Ok(Some(Allocated { allocator: allocator.name(), align, measured, allocation, plan }))
}

fn candidates(
    job: &Compress,
    uniform: &Plan,
    keep: f64,
    align: usize,
) -> Result<Candidates, Failure> {
    let edit = &uniform.edits[0];
    let mut methods = vec![edit.method.clone()];
    if job.method.is_some_and(MethodName::is_auto) {
        for kind in KINDS {
            let operator: OpSpec = plan::operator(kind, Some(Size::Keep(keep)))?;
            let (starts, iterations) = EFFORT;
            methods.push(MethodSpec::Structured(StructuredMethod { operator, starts, iterations }));
        }
    }
    let keeps = SHARES.into_iter().map(|share| share * keep).filter(|keep| *keep < 1.0).collect();
    let (sites, seed) = (edit.sites.clone(), job.seed);
    Ok(Candidates { methods, align, keeps, keep, sites, seed })
}

fn spectra(
    model: &OpenModel,
    replaced: &[SiteId],
    method: &MethodSpec,
    align: usize,
    session: &mut Session<'_>,
) -> Result<Vec<SiteChoices>, Failure> {
    let mut sites = Vec::new();
    for site in replaced {
        session.step(&format!("{site}: singular values"));
        let Some(slot) = model.loaded.decoder.slot(site) else { continue };
        let weight = slot.op().to_dense().map_err(|error| Failure::general(error.to_string()))?;
        let values = MatrixId::of(weight.view())
            .singular_values(&Store::none(), weight.view())
            .map_err(|error| Failure::general(format!("{site}: {error}")))?;
        sites.push(SiteSpectrum { site: site.clone(), shape: slot.shape(), values });
    }
    by_spectrum(&sites, method, align).map_err(|error| Failure::general(error.to_string()))
}
