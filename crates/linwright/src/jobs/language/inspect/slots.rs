//! `linwright inspect --slots`: the replaceable linear layers of a model.

use crate::jobs::kit::outcome::{page, table, text};
use crate::jobs::kit::source::{OpenModel, open_model};
use crate::jobs::kit::{Failure, Outcome, Session};
use linwright_molecule::Checkpoint;
use linwright_nets::{Net, OpenedNet};
use linwright_ops::{LinearSlot, Network, Sites, parameter_count};
use linwright_report::number::grouped;
use linwright_report::{Block, Document, Report};
use linwright_run::Monitor;
use linwright_trial::TrialPotential;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// The replaceable linear layers of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Slots {
    model: String,
    model_hash: String,
    family: String,
    layers: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hidden: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vocab: Option<usize>,
    parameters: u64,
    linear_parameters: u64,
    sites: Vec<Site>,
    notes: Vec<String>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    let slots = if is_net(model) {
        of_net(model, session)?
    } else if Checkpoint::is_at(Path::new(model)) {
        of_potential(model, session)?
    } else {
        of_model(model, session)?
    };
    session.finish();
    Ok(Outcome::of(slots))
}

/// Whether a name is that of a small network: a saved one, or a description.
fn is_net(model: &str) -> bool {
    let path = Path::new(model);
    let ending = path.extension().and_then(|ending| ending.to_str());
    Net::is_saved_at(path) || (path.is_file() && matches!(ending, Some("yaml" | "yml" | "json")))
}

fn of_net(model: &str, session: &mut Session<'_>) -> Result<Slots, Failure> {
    session.step(&format!("loading {model}"));
    let OpenedNet { net, hash } = Net::open(Path::new(model))?;
    let sites = sites_of(&net);
    let layers: BTreeSet<usize> = net.slots().iter().filter_map(|slot| slot.layer()).collect();
    Ok(Slots {
        model: model.to_owned(),
        model_hash: hash,
        family: "net".to_owned(),
        layers: layers.len(),
        hidden: None,
        vocab: None,
        parameters: net.parameters(),
        linear_parameters: sites.iter().map(|site| site.parameters).sum(),
        sites,
        notes: Vec::new(),
    })
}

fn of_potential(model: &str, session: &mut Session<'_>) -> Result<Slots, Failure> {
    session.step(&format!("loading {model}"));
    let TrialPotential { model: opened, network, hash } = TrialPotential::open(Path::new(model))?;
    let sites = sites_of(&network);
    Ok(Slots {
        model: model.to_owned(),
        model_hash: hash,
        family: "tensornet".to_owned(),
        layers: network.config().layers,
        hidden: Some(network.config().channels),
        vocab: None,
        parameters: network.parameters(),
        linear_parameters: sites.iter().map(|site| site.parameters).sum(),
        sites,
        notes: opened.checkpoint.notes,
    })
}

fn of_model(model: &str, session: &mut Session<'_>) -> Result<Slots, Failure> {
    let OpenModel { loaded, place } = open_model(model, session)?;
    let sites = sites_of(&loaded.decoder);
    let config = loaded.decoder.config();
    let linear_parameters = sites.iter().map(|site| site.parameters).sum();
    let dense_total: u64 = sites.iter().map(|site| site.dense_parameters).sum();
    Ok(Slots {
        model: place.name,
        model_hash: loaded.hash,
        family: config.family.model_type.to_owned(),
        layers: config.layers.len(),
        hidden: Some(config.hidden),
        vocab: Some(config.vocab),
        parameters: config.parameters() + linear_parameters - dense_total,
        linear_parameters,
        sites,
        notes: loaded.notes,
    })
}

fn sites_of(network: &impl Sites) -> Vec<Site> {
    let site = |slot: &LinearSlot| {
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
    };
    network.slots().into_iter().map(site).collect()
}

impl Report for Slots {
    const KIND: &'static str = "inspect-slots";

    fn document(&self) -> Document {
        page(blocks(self))
    }
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
    let row = if slots.vocab.is_some() { "token" } else { "row" };
    let macs = format!("MACs per {row}");
    let header = ["site", "role", "out x inp", "operator", "parameters", &macs];
    let sizes = [("hidden", slots.hidden), ("vocabulary", slots.vocab)];
    let sizes = sizes.into_iter().filter_map(|(name, size)| Some(format!(", {name} {}", size?)));
    let facts = [
        format!(
            "{}: {}, {} layers{}",
            slots.model,
            slots.family,
            slots.layers,
            sizes.collect::<String>()
        ),
        format!(
            "{} parameters, {} in linear layers",
            grouped(slots.parameters),
            grouped(slots.linear_parameters)
        ),
    ];
    vec![text(facts), table(&header, rows)]
}
