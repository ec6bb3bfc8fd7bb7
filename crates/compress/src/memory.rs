//! Memory of fits.

use crate::CompressError;
use crate::methods::SampleRows;
use crate::pipeline::needs;
use crate::plan::{InputEdits, Plan};
use linwright_measure::capture::Needs;
use linwright_ops::{Examples, LinearSlot, Network, Sites};
use serde::Serialize;

/// Memory in bytes that a plan takes beside the original network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FitMemory {
    /// The numbers of all operators.
    pub operators: u64,
    /// The numbers of the weights that they replace, in `f32`.
    pub replaced: u64,
    /// Samples or sums of the largest capture, and the matrices of its fits.
    pub largest_fit: u64,
}

/// Bytes of a number of a weight.
const NUMBER: u64 = size_of::<f32>() as u64;
/// Square and rectangular matrices of doubles that a closed form holds beside its sums: a
/// factorisation, its vectors, and products on the way.
const OF_FIT: u64 = 6;

/// Memory of the fits of a plan, of all examples.
///
/// # Errors
/// As [`Plan::sites`], and those of sizes that a method cannot have.
pub fn memory<N: Network>(
    plan: &Plan,
    network: &N,
    examples: Option<&dyn Examples<N::Input>>,
) -> Result<FitMemory, CompressError> {
    let mut memory = FitMemory::default();
    let rows = examples.map(|examples| {
        let train = examples.training_rows();
        SampleRows { train, validation: examples.all_rows() - train }
    });
    for group in &plan.sites(network)? {
        for slot in &group.slots {
            let shape = network.slot(&slot.site).expect("the site was found in the plan").shape();
            let parameters = slot.edit.method.parameters(slot.edit.size, shape);
            let failed = |source| CompressError::Fit { site: slot.site.clone(), source };
            memory.operators += NUMBER * parameters.map_err(failed)? as u64;
            memory.replaced += NUMBER * shape.dense_parameters() as u64;
        }
        let own = of_group(group, network, |_| rows);
        memory.largest_fit = memory.largest_fit.max(own);
    }
    Ok(memory)
}

/// Memory of the capture and the fits of slots with the same input; `rows` are those of a slot,
/// none without examples.
pub(crate) fn of_group(
    group: &InputEdits<'_>,
    network: &impl Sites,
    rows: impl Fn(&LinearSlot) -> Option<SampleRows>,
) -> u64 {
    let slot = |site| network.slot(site).expect("the site was found in the plan");
    let first = group.slots.first().and_then(|first| rows(slot(&first.site)));
    let all_needs = needs(group, network, first.map_or(0, |rows| rows.train));
    let (mut capture, mut fit) = (0, 0);
    for (edit, needs) in group.slots.iter().zip(all_needs) {
        let slot = slot(&edit.site);
        if let Some(rows) = rows(slot) {
            capture += capture_bytes(needs, slot, (rows.train + rows.validation) as u64);
        }
        let (out, inp) = (slot.shape().out as u64, slot.shape().inp as u64);
        let own = OF_FIT * size_of::<f64>() as u64 * (out.min(inp).pow(2) + out * inp);
        let sums = match needs {
            Needs::Stats | Needs::Inputs => OF_FIT * size_of::<f64>() as u64 * inp * inp,
            Needs::Outputs | Needs::Samples => 0,
        };
        fit = fit.max(own + sums);
    }
    capture + fit
}

fn capture_bytes(needs: Needs, slot: &LinearSlot, rows: u64) -> u64 {
    let (out, inp) = (slot.shape().out as u64, slot.shape().inp as u64);
    match needs {
        // Training and validation, each in two parts until it is complete.
        Needs::Stats => 2 * 16 * (inp * inp + out * inp),
        Needs::Inputs => 2 * 16 * inp * inp,
        Needs::Outputs => 2 * 16 * out * out,
        Needs::Samples => 4 * rows * (out + inp),
    }
}
