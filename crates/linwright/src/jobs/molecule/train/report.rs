//! The training curve and the errors of a potential, for readers.

use linwright_molecule::{ErrorPair, PredictionErrors, Units};
use linwright_report::number::grouped;
use linwright_report::plot::{Axis, Plot, Series, Style};
use linwright_report::{Block, Figure, Scale, Table};
use linwright_train::CurvePoint;
use serde_json::{Map, Value, json};

/// Names of the series of [`figure`].
pub(super) const SERIES: [&str; 2] = ["training", "validation"];

/// Errors on one set.
pub(super) fn errors(found: &PredictionErrors, units: Units) -> Value {
    let (energy, length) = (units.energy.name(), units.length.name());
    let (structures, atoms) = found.counts();
    let mut all = Map::new();
    all.insert("structures".into(), structures.into());
    all.insert("atoms".into(), atoms.into());
    for (name, pair) in [("energy", found.energy_per_atom()), ("force", found.force())] {
        if let Some(ErrorPair { mae, rmse }) = pair {
            all.insert(format!("{name}_mae"), mae.into());
            all.insert(format!("{name}_rmse"), rmse.into());
        }
    }
    let (of_energy, of_force) = (format!("{energy}/atom"), format!("{energy}/{length}"));
    all.insert("units".into(), json!({ "energy": of_energy, "force": of_force }));
    Value::Object(all)
}

/// A table of the errors on several sets.
pub(super) fn table_of_errors(sets: &[(&str, &PredictionErrors)], units: Units) -> Block {
    let (energy, length) = (units.energy.name(), units.length.name());
    let heads = [
        "set".to_owned(),
        "structures".to_owned(),
        format!("energy MAE, {energy}/atom"),
        format!("energy RMSE, {energy}/atom"),
        format!("force MAE, {energy}/{length}"),
        format!("force RMSE, {energy}/{length}"),
    ];
    let cell = |pair: Option<ErrorPair>, of: fn(ErrorPair) -> f64| {
        pair.map_or_else(|| "-".to_owned(), |pair| format!("{:.6}", of(pair)))
    };
    let (mae, rmse) = (|pair: ErrorPair| pair.mae, |pair: ErrorPair| pair.rmse);
    let row = |(name, found): &(&str, &PredictionErrors)| {
        let (energy, force) = (found.energy_per_atom(), found.force());
        vec![
            (*name).to_owned(),
            grouped(found.counts().0),
            cell(energy, mae),
            cell(energy, rmse),
            cell(force, mae),
            cell(force, rmse),
        ]
    };
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let errors = Table::of_cells(&heads, sets.iter().map(row).collect());
    Block::Table(Table { caption: "Errors".to_owned(), ..errors })
}

/// Training and validation losses over the steps; none if no loss is above zero.
pub(super) fn figure(curve: &[CurvePoint]) -> Option<Block> {
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
