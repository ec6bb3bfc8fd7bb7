//! Plots of runs.

use super::summary::first_appearances;
use super::{Run, Runs, SiteFit, Summary};
use linwright_report::plot::{Axis, Baseline, Plot, Series, Style, whole_ticks};
use linwright_report::{Figure, Scale, Spread};
use std::collections::BTreeSet;

/// Largest number of single curves of one method in a plot.
const MAX_CURVES: usize = 40;

/// All plots for which the report has data.
pub(super) fn figures(report: &Runs<'_>) -> Vec<Figure> {
    let fits = fits(report);
    [quality(report), curves(report, &fits), errors(report, &fits)].into_iter().flatten().collect()
}

/// The fits of all runs; those that nested sets of layers share are there once.
fn fits<'a>(report: &'a Runs<'a>) -> Vec<(&'a Run<'a>, &'a SiteFit)> {
    let mut seen = BTreeSet::new();
    let mut fits = Vec::new();
    for row in &report.rows {
        for fit in row.sites {
            if seen.insert((&row.method, &fit.site, row.seed)) {
                fits.push((row, fit));
            }
        }
    }
    fits
}

/// Parameters against the main figure in nats, one panel per number of layers.
fn quality(report: &Runs<'_>) -> Option<Figure> {
    let quality = report.quality()?;
    let value = |summary: &Summary<'_>| quality.mean_nats(summary);
    let size = |summary: &Summary<'_>| summary.parameters(|p| p.targeted as f64);
    let dense = quality.nats(report.baseline);
    let summaries: Vec<Summary<'_>> =
        report.summaries().into_iter().filter(|summary| value(summary).is_some()).collect();
    // All panels have the same scale.
    let spreads = summaries.iter().filter_map(value);
    let ends = spreads.flat_map(|s: Spread| {
        let deviation = s.deviation.unwrap_or(0.0);
        [s.mean - deviation, s.mean + deviation]
    });
    let y = Scale::around(ends.chain(dense), false)?;
    let x = Scale::around(summaries.iter().map(size), true)?;
    let mut counts: Vec<usize> = summaries.iter().map(|summary| summary.layer_count).collect();
    counts.dedup();
    let panels = counts.iter().map(|&layers| {
        let here = || summaries.iter().filter(move |summary| summary.layer_count == layers);
        let series =
            first_appearances(here().map(|summary| summary.method)).into_iter().map(|method| {
                let mut points: Vec<_> = here()
                    .filter(|summary| summary.method == method)
                    .filter_map(|summary| {
                        let spread = value(summary)?;
                        Some((size(summary), spread.mean, spread.deviation))
                    })
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Series { index: place(report, method), points, style: Style::Marked }
            });
        let noun = if layers == 1 { "layer" } else { "layers" };
        Plot {
            title: format!("{layers} {noun} replaced"),
            x: Axis {
                title: "parameters of the replaced sites".to_owned(),
                scale: x.clone(),
                ticks: None,
            },
            y: Axis { title: String::new(), scale: y.clone(), ticks: None },
            series: series.collect(),
            baseline: dense.map(|value| Baseline { value, name: "dense".to_owned() }),
        }
    });
    Some(Figure {
        title: "Parameters against quality".to_owned(),
        note: "Lower and further left is better. Marks are means over runs, bars one standard \
               deviation; the dashed line is the dense model."
            .to_owned(),
        y_title: quality.axis().to_owned(),
        panels: panels.collect(),
    })
}

/// Validation losses during training.
fn curves(report: &Runs<'_>, fits: &[(&Run<'_>, &SiteFit)]) -> Option<Figure> {
    let trained: Vec<_> = fits.iter().filter(|(_, fit)| !fit.curve.is_empty()).collect();
    let mut series = Vec::new();
    let mut left_out = 0;
    let methods = first_appearances(trained.iter().map(|(row, _)| row.method.as_str()));
    for method in methods {
        let own = trained.iter().filter(|(row, _)| row.method == method);
        let lines: Vec<Vec<(f64, f64)>> = own.map(|(_, fit)| relative(fit)).collect();
        left_out += lines.len().saturating_sub(MAX_CURVES);
        let mean = geometric_mean(&lines);
        let faint = if mean.is_some() { Style::Faint } else { Style::Line };
        let index = place(report, method);
        for line in lines.into_iter().take(MAX_CURVES) {
            series.push(Series { index, points: bare(line), style: faint });
        }
        if let Some(mean) = mean {
            series.push(Series { index, points: bare(mean), style: Style::Line });
        }
    }
    // Means are drawn over single curves.
    series.sort_by_key(|series| series.style != Style::Faint);
    let y = Scale::around(series.iter().flat_map(|s| s.points.iter().map(|p| p.1)), true)?;
    let mut note = "Each faint line is one fit, the strong line the geometric mean of the method. \
                    Errors are squared, relative to the power of the target."
        .to_owned();
    if left_out > 0 {
        note.push_str(&format!(" {left_out} further fits are only in the means."));
    }
    Some(Figure {
        title: "Training curves".to_owned(),
        note,
        y_title: "validation error / power of the target".to_owned(),
        panels: vec![Plot {
            title: String::new(),
            x: Axis {
                title: "share of training".to_owned(),
                scale: Scale::linear(0.0, 1.0),
                ticks: Some(
                    [(0.0, "0"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1.0, "100 %")]
                        .map(|(value, label)| (value, label.to_owned()))
                        .into(),
                ),
            },
            y: Axis { title: String::new(), scale: y, ticks: None },
            series,
            baseline: None,
        }],
    })
}

/// Points of a curve: (share of steps, relative validation error).
fn relative(fit: &SiteFit) -> Vec<(f64, f64)> {
    let steps = fit.curve.last().map_or(1, |point| point.step.max(1)) as f64;
    let power = if fit.target_power > 0.0 { fit.target_power } else { 1.0 };
    let points = fit.curve.iter();
    points.map(|point| (point.step as f64 / steps, point.validation / power)).collect()
}

/// Geometric mean of curves of equal length; `None` for a single curve, or if lengths differ.
fn geometric_mean(lines: &[Vec<(f64, f64)>]) -> Option<Vec<(f64, f64)>> {
    let [first, rest @ ..] = lines else {
        return None;
    };
    if rest.is_empty() || rest.iter().any(|line| line.len() != first.len()) {
        return None;
    }
    let mean = |index: usize| {
        let logs: f64 = lines.iter().map(|line| line[index].1.ln()).sum();
        (first[index].0, (logs / lines.len() as f64).exp())
    };
    Some((0..first.len()).map(mean).collect())
}

fn bare(line: Vec<(f64, f64)>) -> Vec<(f64, f64, Option<f64>)> {
    line.into_iter().map(|(x, y)| (x, y, None)).collect()
}

/// Fit errors over layers, one panel per role.
fn errors(report: &Runs<'_>, all: &[(&Run<'_>, &SiteFit)]) -> Option<Figure> {
    let y = Scale::around(all.iter().map(|(_, fit)| fit.relative_error), true)?;
    let roles = first_appearances(all.iter().map(|(_, fit)| fit.role.as_str()));
    let mut layers: Vec<usize> = all.iter().map(|(_, fit)| fit.layer).collect();
    layers.sort_unstable();
    layers.dedup();
    let (first, last) = (*layers.first()? as f64, *layers.last()? as f64);
    let methods = first_appearances(all.iter().map(|(row, _)| row.method.as_str()));
    let panel = |&role: &&str| {
        let series = methods.iter().map(|&method| {
            let points = layers.iter().filter_map(|&layer| {
                let values: Vec<f64> = all
                    .iter()
                    .filter(|(row, fit)| {
                        fit.role == role && fit.layer == layer && row.method == method
                    })
                    .map(|(_, fit)| fit.relative_error)
                    .collect();
                let spread = Spread::of(&values)?;
                Some((layer as f64, spread.mean, spread.deviation))
            });
            Series { index: place(report, method), points: points.collect(), style: Style::Marked }
        });
        Plot {
            title: capitalised(role),
            x: Axis {
                title: "layer".to_owned(),
                scale: Scale::linear(first - 0.5, last + 0.5),
                ticks: Some(whole_ticks(&layers, 10)),
            },
            y: Axis { title: String::new(), scale: y.clone(), ticks: None },
            series: series.collect(),
            baseline: None,
        }
    };
    Some(Figure {
        title: "Fit error of each layer".to_owned(),
        note:
            "Squared error on held-out activations, relative to the power of the target: 1 is as \
               good as predicting zero. Marks are means over runs, bars one standard deviation."
                .to_owned(),
        y_title: "relative squared error".to_owned(),
        panels: roles.iter().map(panel).collect(),
    })
}

fn place(report: &Runs<'_>, method: &str) -> usize {
    report.methods().iter().position(|known| *known == method).unwrap_or(0)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}
