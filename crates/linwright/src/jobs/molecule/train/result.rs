//! A training of a potential, as it is saved and reported.

use crate::jobs::kit::outcome::text;
use linwright_molecule::{ErrorPair, PredictionErrors, Units};
use linwright_report::number::{grouped, seconds};
use linwright_report::plot::{Axis, Plot, Series, Style};
use linwright_report::{Block, Document, Figure, Report, Scale, Table};
use linwright_run::Measured;
use linwright_train::{Curve, CurvePoint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names of the series of the training curve.
const SERIES: [&str; 2] = ["training", "validation"];

/// What a potential is, and what it is trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PotentialPlanned {
    /// Its parameters.
    pub parameters: u64,
    /// The structures.
    pub structures: SetSizes,
    /// Updates that are planned.
    pub planned_steps: u64,
}

/// Numbers of structures, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetSizes {
    /// Structures that are trained on.
    pub training: usize,
    /// Structures for the curve and the choice of the best step.
    pub validation: usize,
    /// Structures for the final measurement of errors.
    pub test: usize,
}

impl PotentialPlanned {
    fn lines(&self) -> [String; 2] {
        let SetSizes { training, validation, test } = self.structures;
        let [training, validation, test] =
            [training, validation, test].map(|count| grouped(count as u64));
        [
            format!("{} parameters", grouped(self.parameters)),
            format!(
                "{training} structures, {validation} for validation, {test} for a test, {} steps",
                grouped(self.planned_steps)
            ),
        ]
    }
}

impl Report for PotentialPlanned {
    const KIND: &'static str = "molecule-train-dry-run";

    fn document(&self) -> Document {
        Document { blocks: vec![text(self.lines())], ..Document::default() }
    }
}

/// A trained potential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PotentialTrained {
    /// The potential and its structures.
    #[serde(flatten)]
    pub planned: PotentialPlanned,
    /// Elements of the structures.
    pub elements: Vec<String>,
    /// What was subtracted from energies.
    pub references: EnergyReferences,
    /// Weights of the losses.
    pub weights: LossWeights,
    /// Updates made.
    pub steps: u64,
    /// Update with the lowest loss on structures for validation.
    pub best_step: u64,
    /// That loss.
    pub validation_loss: f64,
    /// Errors on the structures for validation.
    pub validation: SetErrors,
    /// Errors on the structures for the test, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<SetErrors>,
    /// Losses over the training.
    pub curve: Curve,
    /// The directory; no file in it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Time of training.
    #[serde(default)]
    pub seconds: Measured<f64>,
    /// Updates in a second.
    #[serde(default)]
    pub steps_per_second: Measured<f64>,
}

/// What was subtracted from energies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EnergyReferences {
    /// Energies of atoms, by element.
    pub atoms: BTreeMap<String, f64>,
    /// Mean that was subtracted from each energy.
    pub mean: f64,
    /// Number by which energies and forces were divided.
    pub std: f64,
}

/// Weights of losses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LossWeights {
    /// Weight of the loss of energies.
    pub energy: f64,
    /// Weight of the loss of components of forces.
    pub force: f64,
}

/// Errors on one set; none of quantities without reference values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SetErrors {
    /// Number of structures.
    structures: u64,
    /// Number of their atoms.
    atoms: u64,
    /// Mean absolute error of energies per atom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    energy_mae: Option<f64>,
    /// Root mean square error of energies per atom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    energy_rmse: Option<f64>,
    /// Mean absolute error of components of forces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    force_mae: Option<f64>,
    /// Root mean square error of components of forces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    force_rmse: Option<f64>,
    /// Units of the errors.
    units: SetUnits,
}

/// Units of errors on a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SetUnits {
    energy: String,
    force: String,
}

impl SetErrors {
    /// Errors in the units of a potential.
    pub(super) fn new(errors: &PredictionErrors, units: Units) -> Self {
        let (structures, atoms) = errors.counts();
        let (energy, force) = (errors.energy_per_atom(), errors.force());
        let mae = |pair: Option<ErrorPair>| pair.map(|pair| pair.mae);
        let rmse = |pair: Option<ErrorPair>| pair.map(|pair| pair.rmse);
        let (unit, length) = (units.energy.name(), units.length.name());
        Self {
            structures,
            atoms,
            energy_mae: mae(energy),
            energy_rmse: rmse(energy),
            force_mae: mae(force),
            force_rmse: rmse(force),
            units: SetUnits { energy: format!("{unit}/atom"), force: format!("{unit}/{length}") },
        }
    }

    fn row(&self, set: &str) -> Vec<String> {
        let errors = [self.energy_mae, self.energy_rmse, self.force_mae, self.force_rmse];
        let cell = |error: Option<f64>| {
            error.map_or_else(|| "-".to_owned(), |error| format!("{error:.6}"))
        };
        let mut row = vec![set.to_owned(), grouped(self.structures)];
        row.extend(errors.map(cell));
        row
    }
}

impl PotentialTrained {
    /// Errors on all sets.
    fn errors(&self) -> Block {
        let SetUnits { energy, force } = &self.validation.units;
        let heads = [
            "set".to_owned(),
            "structures".to_owned(),
            format!("energy MAE, {energy}"),
            format!("energy RMSE, {energy}"),
            format!("force MAE, {force}"),
            format!("force RMSE, {force}"),
        ];
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut rows = vec![self.validation.row("validation")];
        rows.extend(self.test.as_ref().map(|errors| errors.row("test")));
        let errors = Table::of_cells(&heads, rows);
        Block::Table(Table { caption: "Errors".to_owned(), ..errors })
    }
}

impl Report for PotentialTrained {
    const KIND: &'static str = "molecule-train";

    fn document(&self) -> Document {
        let mut head = Vec::from(self.planned.lines());
        head.push(format!(
            "step {} of {}: validation loss {:.6}",
            self.best_step, self.steps, self.validation_loss
        ));
        let mut blocks = vec![text(head), self.errors()];
        blocks.extend(figure(&self.curve));
        blocks.extend(self.output.as_ref().map(|output| text([format!("wrote {output}")])));
        Document { series: SERIES.map(str::to_owned).to_vec(), blocks, ..Document::default() }
    }

    fn times(&self) -> Vec<Block> {
        vec![text([format!("training: {}", seconds(self.seconds.0))])]
    }
}

/// Training and validation losses over the steps; none if no loss is above zero.
fn figure(curve: &[CurvePoint]) -> Option<Block> {
    let losses = curve.iter().flat_map(|point| [point.train, point.validation]);
    let y = Scale::around(losses, true)?;
    let last = curve.last().map_or(1.0, |point| point.step.max(1) as f64);
    let line = |index: usize, of: fn(&CurvePoint) -> f64| {
        let points = curve.iter().map(|point| (point.step as f64, of(point), None));
        Series { index, points: points.collect(), style: Style::Line }
    };
    Some(Block::Figure(Figure {
        title: "Training curve".to_owned(),
        note:
            "Weighted losses of energies and forces; that of training is the mean since the point \
               before."
                .to_owned(),
        y_title: "loss".to_owned(),
        panels: vec![Plot {
            title: String::new(),
            x: Axis { title: "step".to_owned(), scale: Scale::linear(0.0, last), ticks: None },
            y: Axis { title: String::new(), scale: y, ticks: None },
            series: vec![line(0, |point| point.train), line(1, |point| point.validation)],
            baseline: None,
        }],
    }))
}
