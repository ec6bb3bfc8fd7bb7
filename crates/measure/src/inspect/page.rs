//! The parts of an inspection report beside its tables: totals, heat maps of ranks over layers and
//! name patterns, spectra, and tables of all tensors.

use super::{Duplicates, Inspection, TensorRecord};
use crate::spectra::SpectralStatistics;
use linwright_report::number::{bytes, count, percent, scientific, significant};
use linwright_report::plot::{Axis, Plot, Series, Style};
use linwright_report::{Block, Figure, Grid, GridCell, Scale, Table};
use std::collections::BTreeMap;

/// Heat maps and plots of the spectra.
pub(super) fn pictures(found: &Inspection) -> Vec<Block> {
    let matrices = Matrices::of(found);
    let grids = GRIDS.iter().filter_map(|shown| grid(&matrices, shown)).map(Block::Grid);
    grids.chain(plots(&matrices).map(Block::Figure)).collect()
}

/// Long tables: all tensors, and duplicates.
pub(super) fn folded(found: &Inspection) -> Vec<Block> {
    [tensor_table(found), repeated(found)]
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .map(|table| Block::Details { summary: format!("Show {} rows", table.rows.len()), table })
        .collect()
}

/// Totals.
pub(super) fn facts(found: &Inspection) -> Vec<(String, String)> {
    let totals = found.totals;
    [
        ("Tensors", count(totals.tensors as f64)),
        ("Parameters", count(totals.parameters as f64)),
        ("Bytes", bytes(totals.bytes)),
        ("Files", found.files.len().to_string()),
        ("Not finite", count((totals.nan + totals.infinite) as f64)),
        ("Rows of zeros", count(totals.zero_rows as f64)),
        ("Constant rows", count(totals.constant_rows as f64)),
        ("Repeated bytes", bytes(totals.duplicate_bytes)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Matrices with spectra, by name pattern and layer.
struct Matrices<'a> {
    names: Vec<&'a str>,
    layers: Vec<usize>,
    cells: BTreeMap<(&'a str, Option<usize>), Vec<&'a TensorRecord>>,
}

impl<'a> Matrices<'a> {
    fn of(found: &'a Inspection) -> Self {
        let mut cells: BTreeMap<(&str, Option<usize>), Vec<&TensorRecord>> = BTreeMap::new();
        for tensor in found.tensors.iter().filter(|tensor| tensor.spectrum.is_some()) {
            cells.entry((&tensor.group, tensor.layer)).or_default().push(tensor);
        }
        let names = found.groups.iter().filter(|group| group.spectra.is_some());
        let mut layers: Vec<usize> = cells.keys().filter_map(|(_, layer)| *layer).collect();
        layers.sort_unstable();
        layers.dedup();
        Self { names: names.map(|group| group.name.as_str()).collect(), layers, cells }
    }

    /// Mean over the matrices of a cell.
    fn mean(
        &self,
        name: &str,
        layer: usize,
        f: fn(&TensorRecord, &SpectralStatistics) -> f64,
    ) -> Option<f64> {
        let tensors = self.cells.get(&(name, Some(layer)))?;
        let values: Vec<f64> =
            tensors.iter().filter_map(|t| Some(f(t, t.spectrum.as_deref()?))).collect();
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// A statistic shown as a heat map over layers and name patterns.
struct Shown {
    title: &'static str,
    note: &'static str,
    value: fn(&TensorRecord, &SpectralStatistics) -> f64,
    write: fn(f64) -> String,
    /// Whether the colour scale is logarithmic.
    log: bool,
}

const GRIDS: [Shown; 3] = [
    Shown {
        title: "Stable rank",
        note: "Sum of the squared singular values over the largest of them: 1 for a matrix of rank \
               one. Colours go by the logarithm.",
        value: |_, figures| figures.stable_rank,
        write: |value| significant(value, 3),
        log: true,
    },
    Shown {
        title: "Effective rank",
        note: "Exponential of the entropy of the singular values, as a share of the full rank.",
        value: |tensor, figures| figures.effective_rank / full_rank(tensor),
        write: percent,
        log: false,
    },
    Shown {
        title: "Rank with 90 % of the squares",
        note: "Over the rank at which two factors have as many numbers as the matrix: above 100 % a \
               low-rank map with that energy is larger than the matrix.",
        value: |_, figures| figures.rank_90 as f64 / figures.break_even_rank.max(1) as f64,
        write: percent,
        log: false,
    },
];

fn full_rank(tensor: &TensorRecord) -> f64 {
    tensor.shape.iter().copied().min().unwrap_or(1).max(1) as f64
}

fn grid(matrices: &Matrices<'_>, shown: &Shown) -> Option<Grid> {
    let cell = |name: &str, layer: usize| {
        let value = matrices.mean(name, layer, shown.value)?;
        let shade = if shown.log { value.max(1e-9).ln() } else { value };
        Some(GridCell { text: (shown.write)(value), shade })
    };
    let cells = |name: &str| -> Vec<Option<GridCell>> {
        matrices.layers.iter().map(|layer| cell(name, *layer)).collect()
    };
    let rows = matrices.names.iter().map(|name| ((*name).to_owned(), cells(name)));
    let rows: Vec<_> = rows.filter(|(_, cells)| cells.iter().any(Option::is_some)).collect();
    (!rows.is_empty()).then(|| Grid {
        title: shown.title.to_owned(),
        note: shown.note.to_owned(),
        axis: "Layer".to_owned(),
        columns: matrices.layers.iter().map(usize::to_string).collect(),
        rows,
    })
}

/// Singular values by index: a panel per name pattern, a curve per matrix.
fn plots(matrices: &Matrices<'_>) -> Option<Figure> {
    let panel = |name: &&str| {
        let cells = matrices.cells.iter().filter(|((group, _), _)| group == name);
        let tensors: Vec<&TensorRecord> = cells.flat_map(|(_, t)| t.iter().copied()).collect();
        let lines: Vec<Series> = tensors.iter().filter_map(|tensor| line(tensor)).collect();
        let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let y = Scale::around(values, true)?;
        let x = Scale::linear(0.0, 1.0);
        Some(Plot {
            title: (*name).to_owned(),
            x: Axis { title: "index / full rank".to_owned(), scale: x, ticks: None },
            y: Axis { title: String::new(), scale: y, ticks: None },
            series: lines,
            baseline: None,
        })
    };
    let panels: Vec<Plot> = matrices.names.iter().filter_map(panel).collect();
    (!panels.is_empty()).then(|| Figure {
        title: "Spectra".to_owned(),
        note: "Each curve is one matrix: its singular values in descending order, divided by the largest."
            .to_owned(),
        y_title: "singular value / largest".to_owned(),
        panels,
    })
}

fn line(tensor: &TensorRecord) -> Option<Series> {
    let figures = tensor.spectrum.as_deref()?;
    let full = full_rank(tensor);
    let points = figures.curve.iter().map(|(place, value)| {
        // Values within rounding error are clamped to the bottom of the plot.
        (*place as f64 / full, (value / figures.largest).max(1e-8), None)
    });
    (figures.largest > 0.0).then(|| Series {
        index: 0,
        points: points.collect(),
        style: Style::Line,
    })
}

const COLUMNS: [&str; 19] = [
    "Shape",
    "Type",
    "Bytes",
    "Not finite",
    "Zero rows",
    "Mean",
    "Deviation",
    "Largest",
    "Frobenius",
    "s1",
    "Stable",
    "Effective",
    "90 %",
    "99 %",
    "Break-even",
    "Above noise",
    "Alpha",
    "Vendi",
    "Condition",
];

fn tensor_table(found: &Inspection) -> Table {
    let columns = COLUMNS.iter().map(|column| (*column, true));
    let row =
        |tensor: &TensorRecord| std::iter::once(tensor.name.clone()).chain(cells(tensor)).collect();
    Table::new("All tensors", std::iter::once(("Name", false)).chain(columns))
        .with(found.tensors.iter().map(row))
}

fn repeated(found: &Inspection) -> Table {
    let row = |same: &Duplicates| vec![bytes(same.bytes), same.names.join(", ")];
    Table::new("Tensors with the same bytes", [("Bytes of each", false), ("Tensors", false)])
        .with(found.duplicates.iter().map(row))
}

fn cells(tensor: &TensorRecord) -> Vec<String> {
    let shape: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
    let mut cells = vec![shape.join(" x "), tensor.dtype.clone(), count(tensor.bytes as f64)];
    cells.extend(match tensor.values {
        None => vec![String::new(); 1],
        Some(values) => vec![count((values.nan + values.infinite) as f64)],
    });
    cells.push(tensor.rows.map_or_else(String::new, |rows| count(rows.zero as f64)));
    cells.extend(match tensor.values {
        None => vec![String::new(); 3],
        Some(v) => [v.mean, v.std, f64::from(v.abs_max)].map(scientific).to_vec(),
    });
    let maybe = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), scientific);
    cells.extend(match &tensor.spectrum {
        None => vec![String::new(); 11],
        Some(f) => vec![
            scientific(f.frobenius_norm),
            scientific(f.largest),
            significant(f.stable_rank, 3),
            significant(f.effective_rank, 3),
            count(f.rank_90 as f64),
            count(f.rank_99 as f64),
            count(f.break_even_rank as f64),
            f.noise.map_or_else(String::new, |noise| count(noise.above as f64)),
            maybe(f.power_law.map(|law| law.alpha)),
            significant(f.vendi_score, 3),
            maybe(f.condition_number),
        ],
    });
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::report::tests::example;
    use crate::inspect::report::{By, document};

    fn page_of(found: &Inspection) -> String {
        linwright_report::html::render(&document(found, By::Name)).unwrap()
    }

    #[test]
    fn a_page_is_whole_and_loads_nothing() {
        let page = page_of(&example());
        for said in ["Stable rank", "Effective rank", "<svg", "--v:", "1.31", "BF16", "a word"] {
            assert!(page.contains(said), "{said:?} in {page}");
        }
        linwright_report::conformance::check_page(&page);
        assert!(!page.contains("<b>") && page.contains("model&lt;b&gt;.<wbr>language_model.<wbr>"));
        // Twenty columns fit 1,400 pixels only in a smaller font.
        let table = page.split_once("aria-label=\"All tensors\"").unwrap().1;
        assert!(table.starts_with(" tabindex=\"0\">\n<table class=\"many\">"), "{table}");
        let namespace = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!namespace.contains("://") && !page.contains("<script"));
        let rows = page.matches("<tr>").count();
        assert_eq!(rows, page.matches("</tr>").count());
        assert_eq!(cells(&example().tensors[0]).len(), COLUMNS.len());
    }

    #[test]
    fn without_spectra_there_are_only_tables() {
        let mut found = example();
        found.tensors.iter_mut().for_each(|tensor| tensor.spectrum = None);
        found.groups.iter_mut().for_each(|group| group.spectra = None);
        let page = page_of(&found);
        assert!(!page.contains("<svg") && page.contains("All tensors"));
        assert_eq!(cells(&found.tensors[0]).len(), COLUMNS.len());
    }
}
