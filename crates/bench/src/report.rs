//! Reports of operator benchmarks.

use crate::growth::{forward_times, labels};
use crate::{Entry, Machine, OperatorBench, Pass, PassTime, crossovers};
use linwright_ops::Shape;
use linwright_report::number::count;
use linwright_report::plot::{Axis, Plot, Series, Style};
use linwright_report::{Block, Document, Image, Panel, ReportError, Scale, Sheet, Table};
use serde_json::Value;

/// Median milliseconds of a forward pass by number of features for square shapes, on logarithmic
/// axes, as one SVG file. A ring marks where an operator becomes faster than dense.
///
/// # Errors
/// [`ReportError::Plot`] if no square shape was timed.
pub fn operator_growth(bench: &OperatorBench) -> Result<String, ReportError> {
    let title = format!("Forward pass of {} rows", bench.rows);
    let labels = labels(bench);
    let lines: Vec<Vec<(f64, f64)>> = labels.iter().map(|l| forward_times(bench, l)).collect();
    let points = || lines.iter().flatten();
    let empty = || ReportError::Plot {
        plot: title.clone(),
        reason: "no square shape has a forward time".to_owned(),
    };
    let x = Scale::around(points().map(|point| point.0), true).ok_or_else(empty)?;
    let y = Scale::around(points().map(|point| point.1), true).ok_or_else(empty)?;
    let mut dims: Vec<f64> = points().map(|point| point.0).collect();
    dims.sort_by(f64::total_cmp);
    dims.dedup();
    let mut series: Vec<Series> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| Series {
            index,
            points: line.iter().map(|&(x, y)| (x, y, None)).collect(),
            style: Style::Marked,
        })
        .collect();
    let dense = forward_times(bench, "dense");
    for crossover in crossovers(bench) {
        let index = labels.iter().position(|label| *label == crossover.label);
        let place = crossover.features.and_then(|at| Some((at, on_line(&dense, at)?, None)));
        if let (Some(index), Some(place)) = (index, place) {
            series.push(Series { index, points: vec![place], style: Style::Ring });
        }
    }
    let plot = Plot {
        title: title.clone(),
        x: Axis {
            title: "input and output features".to_owned(),
            scale: x,
            ticks: Some(dims.iter().map(|dim| (*dim, format!("{dim}"))).collect()),
        },
        y: Axis { title: String::new(), scale: y, ticks: None },
        series,
        baseline: None,
    };
    let legend = labels.iter().map(|label| (*label).to_owned()).enumerate().collect();
    let heading = "milliseconds, median of rounds; ring: faster than dense from here on".to_owned();
    let panel = Panel { heading, plot, legend };
    Sheet { title, panels: vec![panel], notes: notes(bench) }.svg()
}

/// Value at `at` by linear interpolation on logarithmic axes.
fn on_line(points: &[(f64, f64)], at: f64) -> Option<f64> {
    if let Some((_, y)) = points.iter().find(|(x, _)| *x == at) {
        return Some(*y);
    }
    let pair = points.windows(2).find(|pair| pair[0].0 < at && at < pair[1].0)?;
    let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
    let share = (at / x0).ln() / (x1 / x0).ln();
    Some((y0.ln() + share * (y1 / y0).ln()).exp())
}

fn notes(bench: &OperatorBench) -> Vec<String> {
    let words = crossovers(bench).into_iter().map(|crossover| {
        let at = match crossover.features {
            None => "not faster than dense at the largest size".to_owned(),
            Some(at) if crossover.always => format!("faster at every size from {at:.0}"),
            Some(at) => format!("faster from {at:.0}"),
        };
        format!("{}: {at}", crossover.label)
    });
    let machine = &bench.machine;
    let cores = machine.cores.map_or_else(|| "unknown".to_owned(), |cores| cores.to_string());
    let line = format!(
        "{} cores, {}, {} threads, {}, linwright {}, {}, seed {}, {} rounds.",
        cores,
        machine.instruction_set,
        machine.threads,
        machine.platform,
        machine.version,
        bench.dtype,
        bench.seed,
        bench.rounds
    );
    vec![words.collect::<Vec<_>>().join("; "), line]
}

/// Table of times, one row per operator, shape and pass.
#[must_use]
pub fn times(bench: &OperatorBench) -> Table {
    let columns = [
        ("operator", false),
        ("out x in", false),
        ("pass", false),
        ("ms (min..max)", true),
        ("x dense", true),
        ("GFlop/s eq.", true),
        ("parameters", true),
        ("keep", true),
        ("MACs/row", true),
        ("peak MB", true),
    ];
    let rows = bench.results.iter().flat_map(|entry| entry.passes.iter().map(move |t| (entry, t)));
    Table::new("Times of operators", columns).with(rows.map(|(entry, time)| line(entry, time)))
}

fn line(entry: &Entry, time: &PassTime) -> Vec<String> {
    let spread = time.milliseconds;
    let peak = match entry.forward_peak_bytes {
        _ if time.pass != Pass::Forward => String::new(),
        Some(bytes) => format!("{:.1}", bytes as f64 / 1e6),
        None => "not measured".to_owned(),
    };
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    vec![
        entry.label.clone(),
        format!("{} x {}", entry.shape.out, entry.shape.inp),
        time.pass.name().to_owned(),
        format!("{:.4} ({:.4}..{:.4})", spread.median, spread.min, spread.max),
        optional(time.times_dense, 2),
        optional(time.equivalent_gflops, 1),
        count(entry.parameters as f64),
        format!("{:.2e}", entry.keep),
        count(entry.macs_per_row as f64),
        peak,
    ]
}

/// Skipped operators, and the machine.
#[must_use]
pub fn remarks(bench: &OperatorBench) -> Vec<String> {
    let skipped = bench.skipped.iter().map(|skipped| {
        let Shape { out, inp } = skipped.shape;
        format!("skipped: {} {out} x {inp}: {}", skipped.label, skipped.reason)
    });
    let Machine { cores, instruction_set, threads, platform, version } = &bench.machine;
    let cores = cores.map_or_else(|| "unknown".to_owned(), |cores| cores.to_string());
    let machine = format!(
        "{cores} cores, {instruction_set}, {threads} threads, {platform}, linwright {version}, {}, \
         seed {}, {} rows, median of {} rounds; peak: beyond input, output and operator",
        bench.dtype, bench.seed, bench.rows, bench.rounds
    );
    skipped.chain([machine]).collect()
}

/// The report of a benchmark, with the plot of [`operator_growth`] if square shapes were timed.
#[must_use]
pub fn document(bench: &OperatorBench) -> Document {
    let title = "Forward time over features".to_owned();
    let figure = operator_growth(bench).ok().map(|svg| Block::Image(Image { title, svg }));
    let tables = [Block::Table(times(bench)), Block::Text(remarks(bench))];
    Document {
        title: "Speed of operators".to_owned(),
        kicker: "Linwright bench".to_owned(),
        blocks: figure.into_iter().chain(tables).collect(),
        ..Document::default()
    }
}

/// The report of a saved `linwright bench operators` or power iteration experiment; `None` for any
/// other JSON value.
///
/// # Errors
/// [`ReportError::NotAReport`] if the value claims to be one, but is not valid.
pub fn saved(value: &Value) -> Option<Result<Document, ReportError>> {
    let operators = |value: &Value| -> Result<Document, ReportError> {
        Ok(document(&serde_json::from_value(value.clone())?))
    };
    let rotors = |value: &Value| -> Result<Document, ReportError> {
        Ok(crate::convergence::report::document(&serde_json::from_value(value.clone())?))
    };
    match value.get("bench") {
        Some(bench) => Some(operators(bench)),
        None if value["machine"].is_object() && value["results"].is_array() => {
            Some(operators(value))
        }
        None if value["machine"].is_object() && value["accuracy"].is_array() => Some(rotors(value)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dtype, OperatorPlan, Pass, Subject, run, standard};
    use linwright_ops::Shape;
    use linwright_run::Silent;

    #[test]
    fn a_figure_holds_every_operator_and_the_machine() {
        let plan = OperatorPlan {
            subjects: ["rotor", "low_rank"].map(|k| Subject::new(standard(k).unwrap())).to_vec(),
            shapes: [64, 128].map(|d| Shape { out: d, inp: d }).to_vec(),
            passes: vec![Pass::Forward],
            dtype: Dtype::F32,
            rows: 2,
            rounds: 1,
            seed: 0,
        };
        let mut bench = run(&plan, &mut Silent).unwrap();
        let svg = operator_growth(&bench).unwrap();
        for said in
            ["rotor", "low_rank rank=64", "dense", "\n128\n", "input and output features", "seed 0"]
        {
            assert!(svg.contains(said), "{said:?} in {svg}");
        }
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        bench.results.clear();
        assert!(operator_growth(&bench).is_err());
    }

    #[test]
    fn a_line_on_logarithmic_axes_is_a_power() {
        let points = [(64.0, 2.0), (256.0, 32.0)];
        assert!((on_line(&points, 128.0).unwrap() - 8.0).abs() < 1e-12);
        assert_eq!(on_line(&points, 64.0), Some(2.0));
        assert_eq!(on_line(&points, 512.0), None);
    }
}
