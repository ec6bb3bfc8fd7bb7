//! `linwright plan`: sizes against error, from spectra.

use super::PlanSizes;
use super::result::{PlanResult, Planned, Seconds, SiteRanks};
use crate::jobs::kit::outcome::text;
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{Failure, Outcome, Session, outputs, quoted, store};
use crate::jobs::language::offload::open_mapped;
use linwright_compress::allocate::{
    Allocation, Allocator, SiteChoices, SiteSpectrum, allocate, by_spectrum, standard_alignment,
    uniform,
};
use linwright_compress::plan::SlotSet;
use linwright_compress::{MethodSpec, Unit};
use linwright_measure::spectra::MatrixId;
use linwright_ops::{SiteId, Sites};
use linwright_report::AnyReport;
use linwright_run::atomic::AtomicDir;
use linwright_run::{Measured, Monitor, Store};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Instant;

/// The methods of the registry that take ranks by their name alone.
pub(super) fn ranked_methods() -> Vec<&'static str> {
    let is_ranked = |id: &&str| method(id).is_ok_and(|method| method.units().contains(&Unit::Rank));
    MethodSpec::IDS.iter().copied().filter(is_ranked).collect()
}

fn method(id: &str) -> Result<MethodSpec, Failure> {
    serde_json::from_value(json!({ "method": id }))
        .map_err(|error| Failure::usage(format!("--method {id}: {error}")))
}

pub(super) fn run(job: &PlanSizes, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let (method, sites) = checked(job, session)?;
    let store = store::open(job.cache.as_deref(), job.no_cache, session)?;
    let model = open_mapped(&job.model, session)?;
    let replaced = sites.of(&model.loaded.decoder)?;
    let began = Instant::now();
    let spectra = spectra(&model, &replaced, &store, session)?;
    let of_spectra = began.elapsed().as_secs_f64();
    session.tell_damage(&store);
    let align =
        job.allocate.align.unwrap_or_else(|| standard_alignment(spectra.iter().map(|s| s.shape)));
    let began = Instant::now();
    let choices = by_spectrum(&spectra, &method, align)
        .map_err(|error| Failure::general(error.to_string()))?;
    let planned = job
        .keep
        .iter()
        .map(|keep| planned(&choices, *keep, job.allocate.allocator))
        .collect::<Result<Vec<_>, Failure>>()?;
    let of_plans = began.elapsed().as_secs_f64();
    session.finish();
    let result = PlanResult {
        model: model.place.name.clone(),
        model_hash: model.loaded.hash.clone(),
        method,
        align,
        plans: planned,
        sites: spectra.iter().map(SiteRanks::of).collect(),
        seconds: Measured(Seconds { decompositions: of_spectra, plans: of_plans }),
    };
    write(job, &result)?;
    let mut blocks = result.blocks();
    if let (Some(output), Some(first)) = (&job.output, result.plans.first()) {
        let path = quoted(&session.portable(output.join(name_of(first))));
        blocks.push(text([format!(
            "linwright compress {} --plan {path} --calibration TEXT -o DIR carries out a plan",
            quoted(&job.model)
        )]));
    }
    Ok(Outcome::of(result).showing(blocks))
}

/// Method and layers, and the checks of all options that need no model.
fn checked(job: &PlanSizes, session: &mut Session<'_>) -> Result<(MethodSpec, SlotSet), Failure> {
    if let Some(output) = &job.output {
        let inputs = outputs::inputs_of(job, session);
        outputs::directory(output, job.force, &inputs, session)?;
    }
    if job.keep.is_empty() {
        return Err(Failure::usage("no sizes").hint("give --keep 0.8,0.6"));
    }
    if let Some(keep) = job.keep.iter().find(|keep| !(**keep > 0.0 && **keep < 1.0)) {
        return Err(Failure::usage(format!(
            "--keep {keep}: expected a share of parameters between 0 and 1"
        )));
    }
    Ok((method(&job.method)?, job.slots.set()?))
}

/// Singular values of the weights, one at a time.
pub(in crate::jobs) fn spectra(
    model: &OpenModel,
    sites: &[SiteId],
    store: &Store,
    session: &mut Session<'_>,
) -> Result<Vec<SiteSpectrum>, Failure> {
    let mut found = Vec::with_capacity(sites.len());
    session.step("singular values of the weights");
    for site in sites {
        if session.interrupted() {
            return Err(linwright_compress::CompressError::Interrupted.into());
        }
        let slot = model.loaded.decoder.slot(site).expect("the slot was found in the model");
        let weight = slot.op().to_dense().map_err(|error| {
            Failure::usage(format!("{site}: {error}")).hint("leave it out with --ignore")
        })?;
        let values = MatrixId::of(weight.view())
            .singular_values(store, weight.view())
            .map_err(|error| Failure::general(format!("{site}: {error}")))?;
        slot.op().map().release();
        found.push(SiteSpectrum { site: site.clone(), shape: slot.shape(), values });
        session.progress(found.len() as u64, sites.len() as u64);
    }
    Ok(found)
}

fn planned(choices: &[SiteChoices], keep: f64, allocator: Allocator) -> Result<Planned, Failure> {
    let refused = |error: linwright_compress::allocate::Unreachable| {
        Failure::usage(error.to_string()).hint("give a larger --keep")
    };
    let same = uniform(choices, keep).map_err(refused)?;
    let divided = allocate(choices, keep).map_err(refused)?;
    let count = choices.len().max(1) as f64;
    let (bound, uniform_error) = (divided.bound / count, same.loss / count);
    let chosen: Allocation = if allocator == Allocator::Uniform { same } else { divided };
    Ok(Planned {
        asked: keep,
        keep: chosen.keep(),
        parameters: chosen.parameters,
        dense_parameters: chosen.dense_parameters,
        error: chosen.loss / count,
        uniform_error,
        bound,
        plan: chosen.plan(choices, 0, false),
    })
}

fn name_of(planned: &Planned) -> String {
    format!("plan-{}.json", planned.asked)
}

fn write(job: &PlanSizes, result: &PlanResult) -> Result<(), Failure> {
    let Some(output) = &job.output else { return Ok(()) };
    let mut directory = AtomicDir::create(output, job.force)?;
    let mut put = |name: &str, value: &Value| {
        directory.write(name, |out: &mut dyn Write| writeln!(out, "{value:#}")).map(drop)
    };
    for planned in &result.plans {
        put(&name_of(planned), &json!(planned.plan))?;
    }
    let whole = result.to_value().map_err(|error| Failure::general(error.to_string()))?;
    put("result.json", &whole)?;
    Ok(directory.commit()?)
}
