//! Report of the convergence of the power iteration.

use crate::convergence::{Angles, Convergence, ITERATIONS, STEPS};
use linwright_report::plot::{Axis, Plot, Series, Style};
use linwright_report::{Block, Document, Image, Panel, ReportError, Scale, Sheet, Table};

/// Numbers of iterations shown in the terminal.
const SHOWN: [usize; 4] = [1, 5, 20, 100];

/// One SVG file with three panels: iterations during training, errors of the rotor for random
/// bivectors, and errors of its derivative for equal or nearly equal angles.
///
/// # Errors
/// [`ReportError::Plot`] if there are no results.
pub fn rotor_convergence(found: &Convergence) -> Result<String, ReportError> {
    let panels = vec![training(found)?, values(found)?, derivatives(found)?];
    let exact = found.exact.iter().map(|row| row.rotor_error.max).fold(0.0, f64::max);
    let notes = vec![
        format!(
            "{} random bivectors of each size, seed {}. Left: a double rotor learns another, after \
             appendix D of arXiv 2507.11688. Middle and right: a fixed number of iterations for each \
             plane, against the exponential series; the paper allows 20.",
            found.repeats, found.seed
        ),
        format!(
            "The eigendecomposition is at most {exact:.1e} from the series on all of these \
             bivectors, equal angles included. Power iteration gives the value for equal angles, and \
             never its derivative."
        ),
    ];
    let title = "Power iteration of the invariant decomposition".to_owned();
    Sheet { title, panels, notes }.svg()
}

/// Points of each series with its name.
type Lines = Vec<(String, Vec<(f64, f64)>)>;

/// A panel, whose axes are both linear or both logarithmic.
fn panel(
    heading: &str,
    x_title: &str,
    lines: Lines,
    is_log: bool,
    ticks: Vec<usize>,
) -> Result<Panel, ReportError> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let empty = || ReportError::Plot {
        plot: heading.to_owned(),
        reason: "there are no results".to_owned(),
    };
    let x = Scale::around(points().map(|point| point.0), is_log).ok_or_else(empty)?;
    let y = Scale::around(points().map(|point| point.1), is_log).ok_or_else(empty)?;
    let series = lines.iter().enumerate().map(|(index, (_, points))| Series {
        index,
        points: points.iter().map(|&(x, y)| (x, y, None)).collect(),
        style: Style::Marked,
    });
    let plot = Plot {
        title: heading.to_owned(),
        x: Axis {
            title: x_title.to_owned(),
            scale: x,
            ticks: Some(ticks.iter().map(|&tick| (tick as f64, tick.to_string())).collect()),
        },
        y: Axis { title: String::new(), scale: y, ticks: None },
        series: series.collect(),
        baseline: None,
    };
    let legend = lines.iter().map(|(name, _)| name.clone()).enumerate().collect();
    Ok(Panel { heading: heading.to_owned(), plot, legend })
}

/// Distinct numbers of features in the order of first appearance.
fn sizes(features: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut sizes = Vec::new();
    for size in features {
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    sizes
}

fn training(found: &Convergence) -> Result<Panel, ReportError> {
    let of = |size: usize| {
        let rows = found.training.iter().filter(move |row| row.features == size);
        rows.map(|row| (row.step as f64, row.mean_iterations)).collect()
    };
    let sizes = sizes(found.training.iter().map(|row| row.features));
    let lines = sizes.into_iter().map(|size| (format!("d = {size}"), of(size))).collect();
    let heading = "iterations to |v + v'| < 1e-3, first plane, mean";
    panel(heading, "training step", lines, false, (1..=STEPS as usize).collect())
}

fn values(found: &Convergence) -> Result<Panel, ReportError> {
    let normal = || found.accuracy.iter().filter(|row| row.angles == Angles::Normal);
    let of = |size: usize| {
        let rows = normal().filter(move |row| row.features == size);
        rows.map(|row| (row.iterations as f64, row.rotor_error.median)).collect()
    };
    let sizes = sizes(normal().map(|row| row.features));
    let lines = sizes.into_iter().map(|size| (format!("d = {size}"), of(size))).collect();
    let heading = "|r - exp(b)|, b normal, median";
    panel(heading, "iterations for each plane", lines, true, ticks())
}

fn derivatives(found: &Convergence) -> Result<Panel, ReportError> {
    let of = |angles: Angles| {
        let rows = found.accuracy.iter().filter(move |row| row.angles == angles);
        let point = |row: &crate::convergence::AccuracyRow| {
            Some((row.iterations as f64, row.derivative_error?.median))
        };
        rows.filter_map(point).collect::<Vec<_>>()
    };
    let mut lines: Lines =
        Angles::CHOSEN.iter().map(|&angles| (angles.name(), of(angles))).collect();
    let errors = found.exact.iter().filter(|row| row.angles != Angles::Normal);
    let worst = errors.filter_map(|row| Some(row.derivative_error?.max)).fold(0.0, f64::max);
    let exact = ITERATIONS.iter().map(|&count| (count as f64, worst)).collect();
    lines.push(("exact, all angles".to_owned(), exact));
    let heading = "relative error of a derivative of r, d = 256, median";
    panel(heading, "iterations for each plane", lines, true, ticks())
}

fn ticks() -> Vec<usize> {
    vec![1, 2, 5, 10, 20, 50, 100]
}

/// Iterations during training, and errors after fixed numbers of iterations.
#[must_use]
pub fn tables(found: &Convergence) -> [Table; 2] {
    let training: Vec<Vec<String>> = found
        .training
        .iter()
        .map(|row| {
            let spread = row.iterations;
            vec![
                row.features.to_string(),
                row.step.to_string(),
                format!("{:.2}", row.mean_iterations),
                format!("{}..{}", spread.min, spread.max),
                row.not_converged.to_string(),
            ]
        })
        .collect();
    let accuracy: Vec<Vec<String>> = found
        .accuracy
        .iter()
        .filter(|row| SHOWN.contains(&row.iterations))
        .map(|row| {
            let iterations = row.iterations.to_string();
            (row.angles, row.features, iterations, row.rotor_error, row.derivative_error)
        })
        .chain(found.exact.iter().map(|row| {
            (row.angles, row.features, "exact".into(), row.rotor_error, row.derivative_error)
        }))
        .map(|(angles, features, iterations, rotor, derivative)| {
            let derivative = derivative.map_or_else(String::new, |d| format!("{:.1e}", d.median));
            let features = features.to_string();
            vec![angles.name(), features, iterations, format!("{:.1e}", rotor.median), derivative]
        })
        .collect();
    let steps = [
        ("features", true),
        ("step", true),
        ("iterations", true),
        ("min..max", true),
        ("not converged", true),
    ];
    let errors = [
        ("bivectors", false),
        ("features", true),
        ("iterations", true),
        ("rotor error", true),
        ("derivative error", true),
    ];
    [
        Table::new("Power iterations during the training of a rotor", steps).with(training),
        Table::new("Errors of the power iteration", errors).with(accuracy),
    ]
}

/// Number of bivectors and seed.
#[must_use]
pub fn drawn(found: &Convergence) -> String {
    format!("{} bivectors of each size, seed {}; medians", found.repeats, found.seed)
}

/// The experiments as a report.
#[must_use]
pub fn document(found: &Convergence) -> Document {
    let title = "Power iteration compared with the exact rotor".to_owned();
    let figure = rotor_convergence(found).ok();
    let figure = figure.map(|svg| Block::Image(Image { title: title.clone(), svg }));
    let tables = tables(found).into_iter().map(Block::Table);
    let blocks = figure.into_iter().chain(tables).chain([Block::Text(vec![drawn(found)])]);
    let blocks = blocks.collect();
    Document { title, kicker: "Linwright bench".to_owned(), blocks, ..Document::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convergence::{ConvergencePlan, run};
    use linwright_run::Silent;

    #[test]
    fn a_figure_holds_every_size_and_case() {
        let plan = ConvergencePlan { generators: vec![4, 5], repeats: 2, seed: 0 };
        let mut found = run(&plan, &mut Silent).unwrap();
        let svg = rotor_convergence(&found).unwrap();
        for said in ["d = 16", "d = 32", "angles equal", "exact, all angles", "training step"] {
            assert!(svg.contains(said), "{said:?} in {svg}");
        }
        assert_eq!(svg.matches("<svg").count(), 4);
        found.training.clear();
        assert!(rotor_convergence(&found).is_err());
    }
}
