//! An inspection as a report; its tables are at most 100 columns wide in a terminal.

use super::page;
use crate::inspect::{Group, Inspection, SpectralMeans, TensorRecord, Totals, ValueStatistics};
use linwright_report::number::{bytes, count, scientific, significant};
use linwright_report::terminal::shortened;
use linwright_report::{Block, Document, Report, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest name in a finding, in characters.
const NAME: usize = 48;
/// Longest list of findings; the rest is counted.
const FINDINGS: usize = 12;

/// Rows of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// One row per name pattern.
    #[default]
    Name,
    /// One row per layer.
    Layer,
    /// One row per tensor.
    Tensor,
}

impl By {
    /// All groupings.
    pub const ALL: [Self; 3] = [Self::Name, Self::Layer, Self::Tensor];

    /// Its name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Layer => "layer",
            Self::Tensor => "tensor",
        }
    }
}

/// The report of an inspection, with one row per tensor, name pattern or layer.
#[must_use]
pub fn document(found: &Inspection, by: By) -> Document {
    let Totals { tensors, parameters, bytes: size, .. } = found.totals;
    let files = match found.files.len() {
        1 => "1 file".to_owned(),
        many => format!("{many} files"),
    };
    let (tensors, parameters) = (count(tensors as f64), count(parameters as f64));
    let contents = match by {
        By::Name => contents_by_name(found),
        By::Layer => contents_by_layer(found),
        By::Tensor => contents_by_tensor(found),
    };
    let mut blocks = page::pictures(found);
    blocks.push(Block::Table(contents));
    blocks.extend(spectra(found, by).map(Block::Table));
    blocks.extend(page::folded(found));
    blocks.extend([Block::Text(findings(found)), Block::Notes(found.notes.clone())]);
    Document {
        title: found.model.clone(),
        heading: None,
        kicker: "Linwright inspection".to_owned(),
        headline: Some(format!(
            "{tensors} tensors, {parameters} parameters, {} in {files}",
            bytes(size)
        )),
        facts: page::facts(found),
        series: Vec::new(),
        blocks,
    }
}

impl Report for Inspection {
    const KIND: &'static str = "inspect";

    fn document(&self) -> Document {
        document(self, By::Name)
    }
}

fn table(caption: &str, columns: &[(&str, bool)], rows: Vec<Vec<String>>) -> Table {
    Table { shortens: true, ..Table::new(caption, columns.iter().copied()).with(rows) }
}

fn shape_text(shape: Option<&[usize]>) -> String {
    match shape {
        None => "various".to_owned(),
        Some([]) => "one number".to_owned(),
        Some(extents) => extents.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x "),
    }
}

fn value_cells(values: Option<ValueStatistics>) -> [String; 3] {
    match values {
        None => ["", "", ""].map(str::to_owned),
        Some(values) => [values.mean, values.std, f64::from(values.abs_max)].map(scientific),
    }
}

const VALUE_COLUMNS: [(&str, bool); 3] = [("mean", true), ("std", true), ("largest", true)];

fn contents_by_name(found: &Inspection) -> Table {
    let mut columns = vec![
        ("name", false),
        ("count", true),
        ("shape", true),
        ("type", false),
        ("parameters", true),
    ];
    columns.extend(VALUE_COLUMNS);
    let row = |group: &Group| {
        let mut cells = vec![
            group.name.clone(),
            group.totals.tensors.to_string(),
            shape_text(group.shape.as_deref()),
            group.dtype.clone().unwrap_or_else(|| "various".to_owned()),
            count(group.totals.parameters as f64),
        ];
        cells.extend(value_cells(group.values));
        cells
    };
    table("Tensors by name", &columns, found.groups.iter().map(row).collect())
}

fn contents_by_tensor(found: &Inspection) -> Table {
    let mut columns =
        vec![("tensor", false), ("shape", true), ("type", false), ("parameters", true)];
    columns.extend(VALUE_COLUMNS);
    let row = |tensor: &TensorRecord| {
        let mut cells = vec![
            tensor.name.clone(),
            shape_text(Some(&tensor.shape)),
            tensor.dtype.clone(),
            count(tensor.parameters as f64),
        ];
        cells.extend(value_cells(tensor.values));
        cells
    };
    table("Tensors", &columns, found.tensors.iter().map(row).collect())
}

fn layer_name(layer: Option<usize>) -> String {
    layer.map_or_else(|| "none".to_owned(), |layer| layer.to_string())
}

fn contents_by_layer(found: &Inspection) -> Table {
    let columns = [("layer", false), ("tensors", true), ("parameters", true), ("bytes", true)];
    let rows = found.layers.iter().map(|layer| {
        let Totals { tensors, parameters, bytes, .. } = layer.totals;
        let numbers = [tensors as u64, parameters, bytes].map(|number| count(number as f64));
        [vec![layer_name(layer.layer)], numbers.to_vec()].concat()
    });
    table("Tensors by layer", &columns, rows.collect())
}

/// Names of rows with their spectral statistics, if they have any.
fn figures_of(found: &Inspection, by: By) -> Vec<(String, SpectralMeans)> {
    let of = |tensors: &[&TensorRecord]| {
        SpectralMeans::of(tensors.iter().filter_map(|tensor| tensor.spectrum.as_deref()).collect())
    };
    let named = |(name, figures): (&str, Option<SpectralMeans>)| Some((name.to_owned(), figures?));
    match by {
        By::Name => {
            let groups = found.groups.iter();
            groups.filter_map(|g| named((&g.name, g.spectra.as_deref().cloned()))).collect()
        }
        By::Tensor => found.tensors.iter().filter_map(|t| named((&t.name, of(&[t])))).collect(),
        By::Layer => {
            let mut layers: BTreeMap<Option<usize>, Vec<&TensorRecord>> = BTreeMap::new();
            for tensor in found.tensors.iter().filter(|tensor| tensor.spectrum.is_some()) {
                layers.entry(tensor.layer).or_default().push(tensor);
            }
            let line = |(layer, tensors): (Option<usize>, Vec<&TensorRecord>)| {
                Some((layer_name(layer), of(&tensors)?))
            };
            layers.into_iter().filter_map(line).collect()
        }
    }
}

fn spectra(found: &Inspection, by: By) -> Option<Table> {
    let lines = figures_of(found, by);
    if lines.is_empty() {
        return None;
    }
    let columns = [
        (by.name(), false),
        ("s1", true),
        ("stable", true),
        ("effect.", true),
        ("90 %", true),
        ("95 %", true),
        ("99 %", true),
        ("even", true),
        (">noise", true),
        ("alpha", true),
        ("Vendi", true),
        ("cond.", true),
    ];
    let rank = |value: f64| {
        if value.fract() == 0.0 { count(value) } else { significant(value, 3) }
    };
    let maybe = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), rank);
    let rows = lines.into_iter().map(|(name, f)| {
        let numbers = [
            rank(f.largest),
            rank(f.stable_rank),
            rank(f.effective_rank),
            rank(f.rank_90),
            rank(f.rank_95),
            rank(f.rank_99),
            rank(f.break_even_rank),
            maybe(f.above_edge),
            maybe(f.alpha),
            rank(f.vendi_score),
            f.condition_number.map_or_else(|| "-".to_owned(), condition),
        ];
        [vec![name], numbers.to_vec()].concat()
    });
    let caption = "Singular values (means): the largest; stable and effective rank; ranks with 90, 95 and 99 % of\n\
         the squares; rank at which two factors cost as much as the matrix; values above the noise;\n\
         power-law exponent of the squares; directions of rows; condition number";
    Some(table(caption, &columns, rows.collect()))
}

/// Formats a condition number; large ones in scientific notation.
fn condition(value: f64) -> String {
    if value < 1e4 { significant(value, 2) } else { format!("{value:.0e}") }
}

/// Findings: non-finite numbers, constant rows, duplicates.
fn findings(found: &Inspection) -> Vec<String> {
    let name = |name: &str| shortened(name, NAME);
    let mut lines = Vec::new();
    for tensor in &found.tensors {
        if let Some(values) = tensor.values.filter(|v| v.nan + v.infinite > 0) {
            let (nan, infinite) = (count(values.nan as f64), count(values.infinite as f64));
            lines.push(format!(
                "not finite: {}: {nan} NaN, {infinite} infinite",
                name(&tensor.name)
            ));
        }
    }
    let broken = lines.len();
    for tensor in &found.tensors {
        if let Some(rows) = tensor.rows.filter(|rows| rows.zero + rows.constant > 0) {
            let (zero, constant) = (count(rows.zero as f64), count(rows.constant as f64));
            let all = count(tensor.shape[0] as f64);
            let name = name(&tensor.name);
            lines.push(format!("rows: {name}: of {all}, {zero} are zero, {constant} constant"));
        }
    }
    for same in &found.duplicates {
        let (first, size) = (name(&same.names[0]), bytes(same.bytes));
        lines.push(match &same.names[1..] {
            [one] => format!("the same: {first} = {} ({size})", shortened(one, NAME - 16)),
            more => format!("the same: {first} and {} others ({size} each)", more.len()),
        });
    }
    // Non-finite numbers are always listed.
    let most = FINDINGS.max(broken);
    if lines.len() > most {
        let more = lines.len() - most;
        lines.truncate(most);
        lines.push(format!("and {more} more findings; --json lists all"));
    }
    lines
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::inspect::{Duplicates, LayerTotals, RowCounts, WeightFile};
    use crate::spectra::{SpectralStatistics, Spectrum};
    use linwright_report::terminal;

    /// Two layers of a matrix with long names, one of them damaged.
    pub(in crate::inspect) fn example() -> Inspection {
        let values = vec![4.0, 2.0, 1.0];
        let spectrum = Spectrum { rows: 3, cols: 400, singular_values: values, vendi_score: 2.25 };
        let tensor = |layer: usize| TensorRecord {
            name: format!(
                "model<b>.language_model.layers.{layer}.self_attention.query_key_value.w"
            ),
            group: "model<b>.language_model.layers.*.self_attention.query_key_value.w".into(),
            layer: Some(layer),
            file: 0,
            dtype: "BF16".into(),
            shape: vec![3, 400],
            parameters: 1200,
            bytes: 2400,
            values: Some(ValueStatistics {
                nan: layer as u64,
                infinite: 0,
                mean: -1.25e-9,
                std: 0.02,
                abs_max: 3.5,
            }),
            rows: Some(RowCounts { zero: 1, constant: 0 }),
            same_as: None,
            spectrum: Some(Box::new(SpectralStatistics::of(&spectrum))),
            no_spectrum: None,
        };
        let tensors = vec![tensor(0), tensor(1)];
        let totals = Totals {
            tensors: 2,
            parameters: 2400,
            bytes: 4800,
            nan: 1,
            zero_rows: 2,
            ..Totals::default()
        };
        let group = Group {
            name: tensors[0].group.clone(),
            dtype: Some("BF16".into()),
            shape: None,
            totals,
            values: tensors[0].values,
            spectra: SpectralMeans::of(
                tensors.iter().filter_map(|t| t.spectrum.as_deref()).collect(),
            )
            .map(Box::new),
        };
        let layer = |layer| LayerTotals { layer: Some(layer), totals: Totals::of(&tensors[..1]) };
        Inspection {
            model: "some/\u{1b}[31mmodel".into(),
            files: vec![WeightFile { path: "some/model".into(), tensors: 2, bytes: 4800 }],
            totals,
            layers: vec![layer(0), layer(1)],
            groups: vec![group],
            tensors,
            duplicates: vec![Duplicates { bytes: 8, names: vec!["a".into(), "b".into()] }],
            notes: vec!["a word".into()],
        }
    }

    #[test]
    fn every_view_fits_the_page_and_tells_what_stands_out() {
        for by in By::ALL {
            let text = terminal::render(&document(&example(), by));
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
            for said in [
                "2 tensors, 2,400 parameters, 4.8 kB in 1 file",
                "1 NaN",
                "of 3, 1 are zero",
                "a = b",
                "note: a word",
                "1.31",
            ] {
                assert!(text.contains(said), "{said:?} in {text}");
            }
        }
        let by_name = terminal::render(&document(&example(), By::Name));
        assert!(by_name.contains("…") && by_name.contains("various"), "{by_name}");
    }
}
