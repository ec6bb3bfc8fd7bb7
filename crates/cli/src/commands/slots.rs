//! `linwright inspect --slots`: the replaceable linear layers of a model.

use super::{grouped, print, print_json, table};
use crate::args::Shared;
use crate::console::Console;
use crate::failure::Failure;
use crate::source::{OpenModel, open_model};
use linwright::ops::{Sites, parameter_count};
use serde::Serialize;

#[derive(Serialize)]
struct Slots {
    model: String,
    model_hash: String,
    family: String,
    layers: usize,
    hidden: usize,
    vocab: usize,
    parameters: u64,
    linear_parameters: u64,
    sites: Vec<Site>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Site {
    site: String,
    role: String,
    out: usize,
    inp: usize,
    operator: String,
    parameters: u64,
    dense_parameters: u64,
    macs_per_row: u64,
    bias: bool,
}

pub(crate) fn run(model: &str, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let OpenModel { loaded, place } = open_model(model, &mut console)?;
    console.finish();
    let decoder = &loaded.decoder;
    let sites: Vec<Site> = decoder
        .slots()
        .into_iter()
        .map(|slot| {
            let map = slot.op().map();
            Site {
                site: slot.id().to_string(),
                role: slot.role().to_string(),
                out: slot.shape().out,
                inp: slot.shape().inp,
                operator: map.spec().kind().to_owned(),
                parameters: parameter_count(&map.params()) as u64,
                dense_parameters: slot.shape().dense_parameters() as u64,
                macs_per_row: map.macs_per_row(),
                bias: slot.bias().is_some(),
            }
        })
        .collect();
    let config = decoder.config();
    let linear_parameters = sites.iter().map(|site| site.parameters).sum();
    let dense_total: u64 = sites.iter().map(|site| site.dense_parameters).sum();
    let slots = Slots {
        model: place.name,
        model_hash: loaded.hash,
        family: config.family.model_type.to_owned(),
        layers: config.layers.len(),
        hidden: config.hidden,
        vocab: config.vocab,
        parameters: config.parameters() + linear_parameters - dense_total,
        linear_parameters,
        sites,
        notes: loaded.notes,
    };
    if shared.json { print_json(&slots) } else { print(&render(&slots)) }
}

fn render(slots: &Slots) -> String {
    let rows: Vec<Vec<String>> = slots
        .sites
        .iter()
        .map(|site| {
            vec![
                site.site.clone(),
                site.role.clone(),
                format!("{} x {}", site.out, site.inp),
                site.operator.clone(),
                grouped(site.parameters),
                grouped(site.macs_per_row),
            ]
        })
        .collect();
    let header = ["site", "role", "out x inp", "operator", "parameters", "MACs per token"];
    format!(
        "{}: {}, {} layers, hidden {}, vocabulary {}\n{} parameters, {} in linear layers\n\n{}",
        slots.model,
        slots.family,
        slots.layers,
        slots.hidden,
        slots.vocab,
        grouped(slots.parameters),
        grouped(slots.linear_parameters),
        table(&header, &rows)
    )
}
