//! One self-contained HTML file: no script, and no font or image from elsewhere, which its content
//! policy enforces. It is laid out for phones first and follows the reader's preference for a light
//! or dark page.
//!
//! The template is `page.html`; this module prepares blocks for it.

use crate::document::{Block, ColouredText, Document, Figure};
use crate::heat_map::{HeatMap, number};
use crate::plot::{Plot, Size, svg};
use crate::table::{Column, Mark, Table};
use crate::{Grid, ReportError, palette};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use std::sync::LazyLock;

/// Its ending makes the engine escape what it prints.
const PAGE: &str = "page.html";
const STYLE: &str = include_str!("style.css");

/// Plots are drawn twice, for narrow and for wide pages, so that their text keeps its size; the
/// style sheet shows one of them.
const NARROW: Size = Size { width: 350, height: 270, text: 12 };
const WIDE: Size = Size { width: 880, height: 340, text: 13 };
const THIRD: Size = Size { width: 350, height: 290, text: 14 };

/// Number of columns from which a table is set in smaller type, so that tables of an inspection fit
/// a page of 1,400 pixels.
const MANY_COLUMNS: usize = 12;

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.expect("the usual delimiters are valid"));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_formatter(|out, _, value| {
        let text = value.to_string();
        let text = if value.is_safe() { text } else { escape(&text) };
        out.write_str(&text).map_err(Error::from)
    });
    environment.add_filter("breakable", |text: &str| Value::from_safe_string(breakable(text)));
    environment.add_filter("sentence", sentence);
    environment.add_function("no_layout", |kind: &str| -> Result<(), Error> {
        Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("blocks of kind {kind} have no layout"),
        ))
    });
    environment.add_template(PAGE, include_str!("page.html")).expect("the template is valid");
    environment
});

/// The whole report as an HTML document.
///
/// # Errors
/// [`ReportError::Plot`] if a plot cannot be drawn.
pub fn render(document: &Document) -> Result<String, ReportError> {
    let blocks = document.blocks.iter().filter(|block| !is_empty(block));
    let blocks = blocks.map(|block| block_view(block, &document.series));
    let page = PageView {
        version: env!("CARGO_PKG_VERSION"),
        style: format!("{STYLE}{}", palette::style_sheet()),
        title: &document.title,
        heading: document.heading.as_ref().unwrap_or(&document.title),
        kicker: &document.kicker,
        headline: document.headline.as_deref(),
        facts: &document.facts,
        blocks: blocks.collect::<Result<_, _>>()?,
    };
    let template = TEMPLATES.get_template(PAGE).expect("it was added");
    Ok(template.render(Serde(page)).expect("the template knows all blocks"))
}

fn is_empty(block: &Block) -> bool {
    matches!(block, Block::Notes(notes) if notes.is_empty())
}

/// Data for the template.
#[derive(Serialize)]
struct PageView<'a> {
    version: &'static str,
    style: String,
    title: &'a str,
    heading: &'a str,
    kicker: &'a str,
    headline: Option<&'a str>,
    facts: &'a [(String, String)],
    blocks: Vec<BlockView<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum BlockView<'a> {
    Text { lines: &'a [String] },
    Table { table: TableView<'a> },
    Details { summary: &'a str, table: TableView<'a> },
    Figure(FigureView<'a>),
    HeatMap(ShadedView<'a>),
    Grid(ShadedView<'a>),
    Image { title: &'a str, svg: &'a str },
    ColouredText { title: &'a str, note: &'a str, pieces: Vec<PieceView<'a>> },
    Notes { notes: &'a [String] },
    Provenance { caption: &'a str, pairs: Vec<(&'a str, &'a str)> },
}

#[derive(Serialize)]
struct TableView<'a> {
    caption: &'a str,
    class: &'static str,
    columns: &'a [Column],
    rows: Vec<RowView<'a>>,
}

#[derive(Serialize)]
struct RowView<'a> {
    class: &'static str,
    mark: Swatch,
    cells: &'a [String],
}

/// Class of a mark; none where nothing is marked.
type Swatch = Option<String>;

#[derive(Serialize)]
struct FigureView<'a> {
    title: &'a str,
    note: &'a str,
    y_title: &'a str,
    /// None if there is nothing to distinguish.
    legend: Option<Vec<(Swatch, &'a str)>>,
    panels: Vec<PanelView<'a>>,
}

#[derive(Serialize)]
struct PanelView<'a> {
    title: &'a str,
    x_title: &'a str,
    /// SVG elements, each with the class of the pages that show it; empty for all of them.
    drawings: Vec<(&'static str, String)>,
}

/// A table of shaded cells.
#[derive(Serialize)]
struct ShadedView<'a> {
    title: &'a str,
    note: String,
    class: String,
    axis: &'a str,
    columns: &'a [String],
    rows: Vec<(&'a str, Vec<Option<CellView>>)>,
}

#[derive(Serialize)]
struct CellView {
    style: String,
    text: String,
    is_best: bool,
}

#[derive(Serialize)]
struct PieceView<'a> {
    style: String,
    weight: String,
    text: &'a str,
}

fn block_view<'a>(block: &'a Block, series: &'a [String]) -> Result<BlockView<'a>, ReportError> {
    Ok(match block {
        Block::Text(lines) => BlockView::Text { lines },
        Block::Table(table) => BlockView::Table { table: table_view(table) },
        Block::Details { summary, table } => {
            BlockView::Details { summary, table: table_view(table) }
        }
        Block::Figure(figure) => BlockView::Figure(figure_view(figure, series)?),
        Block::HeatMap(map) => BlockView::HeatMap(heat_map_view(map)),
        Block::Grid(grid) => BlockView::Grid(grid_view(grid)),
        Block::Image(image) => BlockView::Image { title: &image.title, svg: &image.svg },
        Block::ColouredText(text) => {
            BlockView::ColouredText { title: &text.title, note: &text.note, pieces: pieces(text) }
        }
        Block::Notes(notes) => BlockView::Notes { notes },
        Block::Provenance(table) => {
            let pair = |cells: &'a [String]| match cells {
                [name, value, ..] => Some((name.as_str(), value.as_str())),
                _ => None,
            };
            let pairs = table.rows.iter().filter_map(|row| pair(&row.cells)).collect();
            BlockView::Provenance { caption: &table.caption, pairs }
        }
    })
}

fn table_view(table: &Table) -> TableView<'_> {
    let rows = table.rows.iter().map(|row| RowView {
        class: match (row.mark, row.starts_block) {
            (Mark::Baseline, _) => "dense",
            (_, true) => "block",
            _ => "",
        },
        mark: swatch(row.mark),
        cells: &row.cells,
    });
    TableView {
        caption: &table.caption,
        class: if table.columns.len() >= MANY_COLUMNS { "many" } else { "" },
        columns: &table.columns,
        rows: rows.collect(),
    }
}

fn swatch(mark: Mark) -> Swatch {
    let series = match mark {
        Mark::Plain => return None,
        Mark::Baseline => return Some("line".to_owned()),
        Mark::Series(series) => series,
    };
    let shape = match palette::marker(series) {
        palette::Marker::Disc => "disc",
        palette::Marker::Square => "square",
        palette::Marker::Triangle => "triangle",
        palette::Marker::Diamond => "diamond",
    };
    Some(format!("{shape} {}", palette::class(series)))
}

fn figure_view<'a>(figure: &'a Figure, names: &'a [String]) -> Result<FigureView<'a>, ReportError> {
    let is_single = figure.panels.len() == 1;
    let panel = |panel: &'a Plot| {
        let sizes: &[_] =
            if is_single { &[("narrow", NARROW), ("wide", WIDE)] } else { &[("", THIRD)] };
        let drawings = sizes.iter().map(|(class, size)| Ok((*class, svg(panel, *size)?)));
        Ok(PanelView {
            title: &panel.title,
            x_title: &panel.x.title,
            drawings: drawings.collect::<Result<_, ReportError>>()?,
        })
    };
    Ok(FigureView {
        title: &figure.title,
        note: &figure.note,
        y_title: &figure.y_title,
        legend: legend(figure, names),
        panels: figure.panels.iter().map(panel).collect::<Result<_, ReportError>>()?,
    })
}

/// Names of the series that a figure shows, with their marks.
fn legend<'a>(figure: &'a Figure, names: &'a [String]) -> Option<Vec<(Swatch, &'a str)>> {
    let baseline = figure.panels.iter().find_map(|panel| panel.baseline.as_ref());
    if names.is_empty() && baseline.is_none() {
        return None;
    }
    let is_shown = |index: usize| {
        let mut series = figure.panels.iter().flat_map(|panel| &panel.series);
        series.any(|series| series.index == index && !series.points.is_empty())
    };
    let names = names.iter().enumerate().filter(|(index, _)| is_shown(*index));
    let names = names.map(|(index, name)| (swatch(Mark::Series(index)), name.as_str()));
    let baseline = baseline.map(|baseline| (swatch(Mark::Baseline), baseline.name.as_str()));
    Some(names.chain(baseline).collect())
}

/// A table whose cells are shaded by their distance from the baseline.
fn heat_map_view(map: &HeatMap) -> ShadedView<'_> {
    let best = map.best();
    let rows = map.rows.iter().zip(&map.values).enumerate().map(|(row, (name, values))| {
        let cells = values.iter().enumerate().map(|(column, value)| {
            let cell = |value: f64| CellView {
                style: shade(map.gain(value)),
                text: number(value),
                is_best: best == Some((row, column)),
            };
            value.map(cell)
        });
        (name.as_str(), cells.collect())
    });
    ShadedView {
        title: &map.title,
        note: map.legend(" Shades of blue are better, of red worse."),
        class: if map.columns.len() + 1 >= MANY_COLUMNS { "many".into() } else { String::new() },
        axis: &map.axis,
        columns: &map.columns,
        rows: rows.collect(),
    }
}

/// Blue for a share above zero, red below.
fn shade(share: f64) -> String {
    let colour = if share < 0.0 { "214,39,40" } else { "31,119,180" };
    format!("background:rgba({colour},{:.2})", 0.7 * share.abs())
}

fn grid_view(grid: &Grid) -> ShadedView<'_> {
    let rows = grid.rows.iter().map(|(name, cells)| {
        let cells = cells.iter().map(|cell| {
            cell.as_ref().map(|cell| CellView {
                style: format!("--v:{:.3}", grid.share(cell)),
                text: cell.text.clone(),
                is_best: false,
            })
        });
        (name.as_str(), cells.collect())
    });
    let many = if grid.columns.len() + 1 >= MANY_COLUMNS { " many" } else { "" };
    ShadedView {
        title: &grid.title,
        note: grid.note.clone(),
        class: format!("heat{many}"),
        axis: &grid.axis,
        columns: &grid.columns,
        rows: rows.collect(),
    }
}

fn pieces(text: &ColouredText) -> Vec<PieceView<'_>> {
    let pieces = text.pieces.iter().map(|(piece, weight)| PieceView {
        style: shade(text.share(*weight)),
        weight: weight.to_string(),
        text: piece,
    });
    pieces.collect()
}

/// With a capital first letter.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}

/// Text for element content in which a line may break after the dots of long names. A break is not
/// a character: copying a name gives the name.
fn breakable(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dot) = rest.find('.') {
        let (part, after) = rest.split_at(dot + 1);
        written.push_str(&escape(part));
        let before = part[..dot].chars().next_back();
        let next = after.chars().next();
        let in_number = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let is_name = |c: char| !c.is_whitespace() && c != '.';
        if next.is_some_and(is_name) && !(in_number(before) && in_number(next)) {
            written.push_str("<wbr>");
        }
        rest = after;
    }
    written.push_str(&escape(rest));
    written
}

/// Text for element content and quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && !c.is_whitespace() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_after_dots_and_are_copied_unharmed() {
        for (name, want) in [
            ("model.layers.0.mlp", "model.<wbr>layers.<wbr>0.<wbr>mlp"),
            ("3.547 of 1.0", "3.547 of 1.0"),
            ("an end. And.", "an end. And."),
            ("a<b>.c&d..e", "a&lt;b&gt;.<wbr>c&amp;d..<wbr>e"),
            (".hidden", ".<wbr>hidden"),
            ("h.0.1.w", "h.<wbr>0.1.<wbr>w"),
            ("é.ü\u{1b}.x", "é.<wbr>ü.<wbr>x"),
            ("", ""),
        ] {
            let written = breakable(name);
            assert_eq!(written, want);
            assert_eq!(written.replace("<wbr>", ""), escape(name), "{name}");
        }
    }
}
