//! `linwright inspect --slots`: the replaceable linear layers of a model.

use crate::jobs::outcome::{table, text};
use crate::jobs::source::{OpenModel, open_model};
use crate::jobs::{Failure, Outcome, Session};
use linwright_ops::{Sites, parameter_count};
use linwright_report::Block;
use linwright_report::number::grouped;
use linwright_run::Monitor;
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

pub(super) fn run(model: &str, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    let OpenModel { loaded, place } = open_model(model, session)?;
    session.finish();
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
    let blocks = blocks(&slots);
    Ok(Outcome::new(slots, blocks))
}

fn blocks(slots: &Slots) -> Vec<Block> {
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
    let facts = [
        format!(
            "{}: {}, {} layers, hidden {}, vocabulary {}",
            slots.model, slots.family, slots.layers, slots.hidden, slots.vocab
        ),
        format!(
            "{} parameters, {} in linear layers",
            grouped(slots.parameters),
            grouped(slots.linear_parameters)
        ),
    ];
    vec![text(facts), table(&header, rows)]
}
