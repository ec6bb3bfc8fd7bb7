//! What a comparison would cost.

use crate::jobs::kit::outcome::{page, text};
use linwright_report::number::{grouped, seconds};
use linwright_report::{Block, Document, Report, Table};
use serde::{Deserialize, Serialize};

/// What a comparison of what replaces the layers of a network would cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::jobs) struct SlotsCost {
    /// All rows on each set of layers.
    pub(super) rows: Vec<Planned>,
    /// Number of seeds.
    pub(super) seeds: usize,
}

/// A row that is not made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Planned {
    /// Its name.
    pub(super) row: String,
    /// The share that is asked for.
    pub(super) keep: Option<f64>,
    /// The layers.
    pub(super) layers: Vec<usize>,
    /// Why there is no network.
    pub(super) left_out: Option<String>,
    /// Parameters of the layers.
    pub(super) parameters: Option<u64>,
    /// The same of the dense network.
    pub(super) parameters_dense: u64,
    /// Memory of the fits.
    pub(super) memory_bytes: Option<u64>,
    /// Time of the fits with one seed, where there is an estimate.
    pub(super) fit_seconds: Option<f64>,
}

impl Planned {
    fn cells(&self) -> Vec<String> {
        let none = String::new;
        let kept = match (self.parameters, &self.left_out) {
            (Some(count), _) => {
                format!("{:.4}", count as f64 / self.parameters_dense.max(1) as f64)
            }
            (None, reason) => format!("no network: {}", reason.as_deref().unwrap_or_default()),
        };
        vec![
            self.row.clone(),
            self.keep.map_or_else(none, |keep| keep.to_string()),
            format!("{:?}", self.layers),
            self.parameters.map_or_else(none, grouped),
            grouped(self.parameters_dense),
            kept,
            self.memory_bytes.map_or_else(none, |bytes| grouped(bytes >> 20)),
            self.fit_seconds.map_or_else(none, |seconds| format!("{seconds:.1}")),
        ]
    }
}

impl Report for SlotsCost {
    const KIND: &'static str = "comparison-dry-run";

    fn document(&self) -> Document {
        let columns = [
            ("method", false),
            ("asked", true),
            ("layers", false),
            ("parameters", true),
            ("dense", true),
            ("kept", false),
            ("MB", true),
            ("fit, s", true),
        ];
        let of_one: f64 = self.rows.iter().filter_map(|row| row.fit_seconds).sum();
        let all = seconds(of_one * self.seeds as f64);
        let table = Table::new("Rows", columns).with(self.rows.iter().map(Planned::cells));
        let told = format!("fits of all seeds: about {all}, evaluation apart");
        page(vec![Block::Table(table), text([told])])
    }
}
