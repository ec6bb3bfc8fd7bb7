//! An inspection as one HTML file that loads nothing from elsewhere: totals, heat maps of ranks
//! over layers and names, spectra, and a table of all tensors.

use super::html::{CLOSE_TABLE, CLOSING, THIRD, escape, open_table, opening, section, wrapping};
use super::number::{bytes, count, percent, scientific, significant};
use super::plot::{Axis, Look, Plot, Series, svg};
use super::scale::Scale;
use crate::inspect::{Inspection, TensorRecord};
use crate::report::ReportError;
use crate::spectra::Figures;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The page.
///
/// # Errors
/// [`ReportError::Plot`] if a plot cannot be drawn.
pub fn inspection_page(found: &Inspection) -> Result<String, ReportError> {
    let mut page = opening(&format!("Weights of {}", found.model));
    header(&mut page, found);
    let matrices = Matrices::of(found);
    for map in &HEAT_MAPS {
        heat_map(&mut page, &matrices, map);
    }
    plots(&mut page, &matrices)?;
    section(&mut page, "All tensors", |page| tensor_table(page, found));
    let duplicates = found.duplicates.iter().map(|same| {
        format!("The same bytes ({} each): {}", bytes(same.bytes), same.names.join(", "))
    });
    let notes: Vec<String> = duplicates.chain(found.notes.iter().cloned()).collect();
    if !notes.is_empty() {
        section(&mut page, "Notes", |page| {
            page.push_str("<ul>\n");
            for note in &notes {
                let _ = writeln!(page, "<li>{}</li>", wrapping(note));
            }
            page.push_str("</ul>\n");
        });
    }
    page.push_str(CLOSING);
    Ok(page)
}

fn header(page: &mut String, found: &Inspection) {
    let totals = found.totals;
    let _ = write!(
        page,
        "<header>\n<p class=\"kicker\">Linwright inspection</p>\n<h1>{}</h1>\n<dl class=\"facts\">\n",
        wrapping(&found.model)
    );
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value));
    };
    fact("Tensors", count(totals.tensors as f64));
    fact("Parameters", count(totals.parameters as f64));
    fact("Bytes", bytes(totals.bytes));
    fact("Files", found.files.len().to_string());
    fact("Not finite", count((totals.nan + totals.infinite) as f64));
    fact("Rows of zeros", count(totals.zero_rows as f64));
    fact("Constant rows", count(totals.constant_rows as f64));
    fact("Repeated bytes", bytes(totals.duplicate_bytes));
    page.push_str("</dl>\n</header>\n");
}

/// Matrices with spectra by name and layer.
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
    fn mean(&self, name: &str, layer: usize, f: fn(&TensorRecord, &Figures) -> f64) -> Option<f64> {
        let tensors = self.cells.get(&(name, Some(layer)))?;
        let values: Vec<f64> =
            tensors.iter().filter_map(|t| Some(f(t, t.spectrum.as_deref()?))).collect();
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// One figure over layers and names.
struct HeatMap {
    title: &'static str,
    note: &'static str,
    value: fn(&TensorRecord, &Figures) -> f64,
    write: fn(f64) -> String,
    /// Whether colours go by the logarithm.
    log: bool,
}

const HEAT_MAPS: [HeatMap; 3] = [
    HeatMap {
        title: "Stable rank",
        note: "Sum of the squared singular values over the largest of them: 1 for a matrix of rank \
               one. Colours go by the logarithm.",
        value: |_, figures| figures.stable_rank,
        write: |value| significant(value, 3),
        log: true,
    },
    HeatMap {
        title: "Effective rank",
        note: "Exponential of the entropy of the singular values, as a share of the full rank.",
        value: |tensor, figures| figures.effective_rank / full_rank(tensor),
        write: percent,
        log: false,
    },
    HeatMap {
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

fn heat_map(page: &mut String, matrices: &Matrices<'_>, map: &HeatMap) {
    let value = |name: &str, layer: usize| matrices.mean(name, layer, map.value);
    let scaled = |value: f64| if map.log { value.max(1e-9).ln() } else { value };
    let rows: Vec<&str> = (matrices.names.iter().copied())
        .filter(|name| matrices.layers.iter().any(|layer| value(name, *layer).is_some()))
        .collect();
    let all = || {
        let cells = rows.iter().flat_map(|name| matrices.layers.iter().map(move |l| (*name, *l)));
        cells.filter_map(|(name, layer)| value(name, layer)).map(scaled)
    };
    let (low, high) =
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if rows.is_empty() {
        return;
    }
    section(page, map.title, |page| {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", map.note);
        open_table(page, map.title, 1 + matrices.layers.len(), "heat");
        page.push_str("<th scope=\"col\">Layer</th>");
        for layer in &matrices.layers {
            let _ = write!(page, "<th scope=\"col\" class=\"n\">{layer}</th>");
        }
        page.push_str("</tr>\n</thead>\n<tbody>\n");
        for name in &rows {
            let _ = write!(page, "<tr><th scope=\"row\">{}</th>", wrapping(name));
            for layer in &matrices.layers {
                let _ = match value(name, *layer) {
                    None => write!(page, "<td></td>"),
                    Some(value) => {
                        let shade = (scaled(value) - low) / (high - low).max(1e-12);
                        let words = (map.write)(value);
                        write!(page, "<td style=\"--v:{shade:.3}\">{words}</td>")
                    }
                };
            }
            page.push_str("</tr>\n");
        }
        page.push_str(CLOSE_TABLE);
    });
}

/// Singular values over their place, a panel for each name, a line for each matrix.
fn plots(page: &mut String, matrices: &Matrices<'_>) -> Result<(), ReportError> {
    if matrices.names.is_empty() {
        return Ok(());
    }
    let x = Scale::linear(0.0, 1.0);
    let mut panels = String::new();
    for name in &matrices.names {
        let cells = matrices.cells.iter().filter(|((group, _), _)| group == name);
        let tensors: Vec<&TensorRecord> = cells.flat_map(|(_, t)| t.iter().copied()).collect();
        let lines: Vec<Series> = tensors.iter().filter_map(|tensor| line(tensor)).collect();
        let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let Some(y) = Scale::around(values, true) else { continue };
        let plot = Plot {
            title: (*name).to_owned(),
            x: Axis { title: "place over full rank".to_owned(), scale: x.clone(), ticks: None },
            y: Axis { title: String::new(), scale: y, ticks: None },
            series: lines,
            dense: None,
        };
        let _ = write!(
            panels,
            "<figure>\n<figcaption><strong>{}</strong><span>singular value over the largest</span>\
             </figcaption>\n<div class=\"plot\" role=\"img\" aria-label=\"spectra of {}\">\n{}</div>\n\
             </figure>\n",
            wrapping(name),
            escape(name),
            svg(&plot, THIRD)?
        );
    }
    section(page, "Spectra", |page| {
        let _ = write!(
            page,
            "<p class=\"note\">A line is one matrix: its singular values, falling, each over the \
             largest.</p>\n<div class=\"panels\">\n{panels}</div>\n"
        );
    });
    Ok(())
}

fn line(tensor: &TensorRecord) -> Option<Series> {
    let figures = tensor.spectrum.as_deref()?;
    let full = full_rank(tensor);
    let points = figures.curve.iter().map(|(place, value)| {
        // Rounding stands at the bottom: it says only that there is nothing.
        (*place as f64 / full, (value / figures.largest).max(1e-8), None)
    });
    let look = Look::Line;
    (figures.largest > 0.0).then(|| Series { method: 0, points: points.collect(), look })
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

fn tensor_table(page: &mut String, found: &Inspection) {
    open_table(page, "All tensors", 1 + COLUMNS.len(), "");
    page.push_str("<th scope=\"col\">Name</th>");
    for column in COLUMNS {
        let _ = write!(page, "<th scope=\"col\" class=\"n\">{column}</th>");
    }
    page.push_str("</tr>\n</thead>\n<tbody>\n");
    for tensor in &found.tensors {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", wrapping(&tensor.name));
        for cell in cells(tensor) {
            let _ = write!(page, "<td class=\"n\">{}</td>", escape(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str(CLOSE_TABLE);
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
    use super::super::inspection::tests::example;
    use super::*;

    #[test]
    fn a_page_is_whole_and_loads_nothing() {
        let page = inspection_page(&example()).unwrap();
        for said in ["Stable rank", "Effective rank", "<svg", "--v:", "1.31", "BF16", "a word"] {
            assert!(page.contains(said), "{said:?} in {page}");
        }
        crate::report::tests::check_page(&page);
        assert!(!page.contains("<b>") && page.contains("model&lt;b&gt;.<wbr>language_model.<wbr>"));
        // Twenty columns fit 1,400 pixels in smaller letters only.
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
        let page = inspection_page(&found).unwrap();
        assert!(!page.contains("<svg") && page.contains("All tensors"));
        assert_eq!(cells(&found.tensors[0]).len(), COLUMNS.len());
    }
}
