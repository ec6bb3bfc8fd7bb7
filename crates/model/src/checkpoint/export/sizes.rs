//! Size notes of an export: parts that are not smaller than dense weights.

use super::{BLOCKS, ExportForm, factored, is_dense};
use crate::transformer::Transformer;
use linwright_ops::{LinearSlot, Network, Sites};

/// The first few entries of a list, and the number of others.
pub(super) fn listed(all: &[String]) -> String {
    const SHOWN: usize = 4;
    let more = all.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    all[..all.len().min(SHOWN)].join(", ") + &rest
}

/// Notes on a whole model in a form: operators without a gain, and operators that a dense form
/// expands.
pub(super) fn of_model(model: &Transformer, form: ExportForm) -> Vec<String> {
    match form.is_dense() {
        true => made_dense(model, form).into_iter().collect(),
        false => break_even(model),
    }
}

/// Operators that are written as dense weights although they have fewer parameters.
fn made_dense(model: &Transformer, form: ExportForm) -> Option<String> {
    let slots = model.slots();
    let replaced = slots.iter().filter(|slot| !is_dense(slot)).count();
    let (stored, dense) = (model.parameters(), model.config().parameters());
    if replaced == 0 || stored >= dense {
        return None;
    }
    let no_file = factored::missing_site(model).is_some() || model.config().family == BLOCKS;
    let smaller = if no_file { ExportForm::Native } else { ExportForm::Factored };
    Some(format!(
        "form {} writes the operators of {replaced} of {} linear layers as dense weights: {dense} \
         parameters, {stored} in form {}",
        form.name(),
        slots.len(),
        smaller.name()
    ))
}

/// Sites, and a whole model, that are not smaller than dense weights.
fn break_even(model: &Transformer) -> Vec<String> {
    let mut warnings = Vec::new();
    let slots = model.slots();
    let large = |slot: &&&LinearSlot| {
        !is_dense(slot) && slot.parameters() >= slot.shape().dense_parameters()
    };
    let large: Vec<String> = slots
        .iter()
        .filter(large)
        .map(|slot| {
            let (own, dense) = (slot.parameters(), slot.shape().dense_parameters());
            format!("{} ({own}, dense {dense})", slot.id())
        })
        .collect();
    if !large.is_empty() {
        let listed = listed(&large);
        warnings
            .push(format!("operators that hold no fewer parameters than a dense weight: {listed}"));
    }
    let (stored, dense) = (model.parameters(), model.config().parameters());
    if stored > dense {
        warnings.push(format!(
            "the model is larger than in dense form: {stored} parameters, dense {dense}"
        ));
    }
    warnings
}

/// Notes on an adapter: sites by name with the parameters of factors and weights, and the bytes of
/// all factors, `own`, and of the whole model.
pub(super) fn of_adapter(sites: &[(&str, u64, u64)], own: u64, whole: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    let large = sites.iter().filter(|(_, factors, weight)| factors >= weight);
    let large: Vec<String> = large
        .map(|(site, factors, weight)| format!("{site} ({factors}, weight {weight})"))
        .collect();
    if !large.is_empty() {
        warnings.push(format!(
            "factors that hold no fewer parameters than the weight: {}; a smaller rank or share of \
             energy cuts them",
            listed(&large)
        ));
    }
    if own >= whole {
        warnings.push(format!(
            "the adapter is no smaller than the model: {own} bytes, the model {whole}; form `dense` \
             or a smaller rank, share of energy or storage type takes less"
        ));
    }
    warnings
}
