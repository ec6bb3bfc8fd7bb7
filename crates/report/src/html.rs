//! One self-contained HTML file: no script, no font, no image from anywhere else, which its own
//! content policy enforces. It is laid out for phones first and follows the reader's choice of a
//! light or dark page.

use crate::document::{Block, ColouredText, Document, Figure, Image, Mark};
use crate::heat_map::{HeatMap, number};
use crate::plot::{Plot, Size, svg};
use crate::table::{Row, Table};
use crate::{Grid, ReportError, palette};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Plots are drawn twice, for narrow and for wide pages, so that their text keeps its size; the
/// style sheet shows one of them.
const NARROW: Size = Size { width: 350, height: 270, text: 12 };
const WIDE: Size = Size { width: 880, height: 340, text: 13 };
const THIRD: Size = Size { width: 350, height: 290, text: 14 };

/// The whole report as an HTML document.
///
/// # Errors
/// [`ReportError::Plot`] if a plot cannot be drawn.
pub fn render(document: &Document) -> Result<String, ReportError> {
    let mut page = opening(&document.title);
    header(&mut page, document);
    for block in &document.blocks {
        match block {
            Block::Text(lines) => {
                for line in lines {
                    let _ = writeln!(page, "<p>{}</p>", wrapping(line));
                }
            }
            Block::Table(table) => {
                section(&mut page, &table.caption, |page| self::table(page, table));
            }
            Block::Details { summary, table } => section(&mut page, &table.caption, |page| {
                let _ = write!(page, "<details>\n<summary>{}</summary>\n", escape(summary));
                self::table(page, table);
                page.push_str("</details>\n");
            }),
            Block::Figure(figure) => self::figure(&mut page, figure, &document.series)?,
            Block::HeatMap(map) => heat_map(&mut page, map),
            Block::Grid(grid) => self::grid(&mut page, grid),
            Block::Image(image) => self::image(&mut page, image),
            Block::ColouredText(text) => coloured_text(&mut page, text),
            Block::Notes(notes) => self::notes(&mut page, notes),
            Block::Provenance(table) => provenance(&mut page, table),
        }
    }
    page.push_str(CLOSING);
    Ok(page)
}

/// Everything before the content of a page.
fn opening(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"linwright {}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n",
        env!("CARGO_PKG_VERSION"),
        escape(title),
        palette::style_sheet()
    )
}

/// Everything after it.
const CLOSING: &str = "</main>\n</body>\n</html>\n";

fn header(page: &mut String, document: &Document) {
    let heading = wrapping(document.heading.as_ref().unwrap_or(&document.title));
    if document.kicker.is_empty() {
        let _ = writeln!(page, "<h1>{heading}</h1>");
        return;
    }
    let kicker = escape(&document.kicker);
    let _ = write!(page, "<header>\n<p class=\"kicker\">{kicker}</p>\n<h1>{heading}</h1>\n");
    if let Some(headline) = &document.headline {
        let _ = writeln!(page, "<p class=\"headline\">{}</p>", escape(headline));
    }
    if !document.facts.is_empty() {
        page.push_str("<dl class=\"facts\">\n");
        pairs(page, document.facts.iter().map(|(name, value)| (name, value)));
        page.push_str("</dl>\n");
    }
    page.push_str("</header>\n");
}

/// Names and values of a list.
fn pairs<'a>(page: &mut String, pairs: impl Iterator<Item = (&'a String, &'a String)>) {
    for (name, value) in pairs {
        let _ =
            writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", wrapping(name), wrapping(value));
    }
}

/// A part of the page under a heading.
fn section(page: &mut String, title: &str, content: impl FnOnce(&mut String)) {
    let _ = write!(page, "<section>\n<h2>{}</h2>\n", escape(&sentence(title)));
    content(page);
    page.push_str("</section>\n");
}

fn table(page: &mut String, table: &Table) {
    open_table(page, &table.caption, table.columns.len(), "");
    for column in &table.columns {
        let class = if column.numeric { " class=\"n\"" } else { "" };
        let _ = write!(page, "<th scope=\"col\"{class}>{}</th>", escape(&column.head));
    }
    page.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in &table.rows {
        line(page, table, row);
    }
    page.push_str(CLOSE_TABLE);
}

fn line(page: &mut String, table: &Table, row: &Row) {
    let class = match (row.mark, row.starts_block) {
        (Mark::Baseline, _) => " class=\"dense\"",
        (_, true) => " class=\"block\"",
        _ => "",
    };
    let _ = write!(page, "<tr{class}>");
    for (index, (cell, column)) in row.cells.iter().zip(&table.columns).enumerate() {
        let cell = if column.numeric { escape(cell) } else { wrapping(cell) };
        let _ = if index == 0 {
            write!(page, "<th scope=\"row\">{}{cell}</th>", swatch(row.mark))
        } else if column.numeric {
            write!(page, "<td class=\"n\">{cell}</td>")
        } else {
            write!(page, "<td>{cell}</td>")
        };
    }
    page.push_str("</tr>\n");
}

fn swatch(mark: Mark) -> String {
    let place = match mark {
        Mark::Plain => return String::new(),
        Mark::Baseline => return "<span class=\"swatch line\"></span>".to_owned(),
        Mark::Series(place) => place,
    };
    let shape = match palette::marker(place) {
        palette::Marker::Disc => "disc",
        palette::Marker::Square => "square",
        palette::Marker::Triangle => "triangle",
        palette::Marker::Diamond => "diamond",
    };
    format!("<span class=\"swatch {shape} {}\"></span>", palette::class(place))
}

/// Names of the series that a figure shows, with their marks.
fn legend(page: &mut String, figure: &Figure, names: &[String]) {
    let is_shown = |place: usize| {
        let mut series = figure.panels.iter().flat_map(|panel| &panel.series);
        series.any(|series| series.index == place && !series.points.is_empty())
    };
    let baseline = figure.panels.iter().find_map(|panel| panel.baseline.as_ref());
    if names.is_empty() && baseline.is_none() {
        return;
    }
    page.push_str("<ul class=\"legend\">\n");
    for (place, name) in names.iter().enumerate().filter(|(place, _)| is_shown(*place)) {
        let _ = writeln!(page, "<li>{}{}</li>", swatch(Mark::Series(place)), wrapping(name));
    }
    if let Some(baseline) = baseline {
        let mark = swatch(Mark::Baseline);
        let _ = writeln!(page, "<li>{mark}{}</li>", wrapping(&baseline.name));
    }
    page.push_str("</ul>\n");
}

fn figure(page: &mut String, figure: &Figure, names: &[String]) -> Result<(), ReportError> {
    let (title, note) = (escape(&figure.title), escape(&figure.note));
    let _ = write!(page, "<section>\n<h2>{title}</h2>\n<p class=\"note\">{note}</p>\n");
    legend(page, figure, names);
    let single = figure.panels.len() == 1;
    let class = if single { "panels single" } else { "panels" };
    let _ = writeln!(page, "<div class=\"{class}\">");
    for panel in &figure.panels {
        self::panel(page, figure, panel, single)?;
    }
    page.push_str("</div>\n</section>\n");
    Ok(())
}

fn panel(
    page: &mut String,
    figure: &Figure,
    panel: &Plot,
    single: bool,
) -> Result<(), ReportError> {
    let heading = if panel.title.is_empty() { &figure.title } else { &panel.title };
    let _ = write!(page, "<figure>\n<figcaption>");
    if !panel.title.is_empty() {
        let _ = write!(page, "<strong>{}</strong> ", wrapping(&panel.title));
    }
    let label = format!("{}: {} over {}", heading, figure.y_title, panel.x.title);
    let _ = write!(
        page,
        "<span>{}</span></figcaption>\n<div class=\"plot\" role=\"img\" aria-label=\"{}\">\n",
        escape(&figure.y_title),
        escape(&label)
    );
    if single {
        let _ = writeln!(page, "<div class=\"narrow\">{}</div>", svg(panel, NARROW)?);
        let _ = writeln!(page, "<div class=\"wide\">{}</div>", svg(panel, WIDE)?);
    } else {
        page.push_str(&svg(panel, THIRD)?);
    }
    page.push_str("</div>\n</figure>\n");
    Ok(())
}

fn notes(page: &mut String, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    section(page, "Notes", |page| {
        page.push_str("<ul>\n");
        for note in notes {
            let _ = writeln!(page, "<li>{}</li>", wrapping(note));
        }
        page.push_str("</ul>\n");
    });
}

fn provenance(page: &mut String, table: &Table) {
    section(page, &table.caption, |page| {
        page.push_str("<dl class=\"provenance\">\n");
        let rows = table.rows.iter().filter_map(|row| row.cells.first().zip(row.cells.get(1)));
        pairs(page, rows);
        page.push_str("</dl>\n");
    });
}

/// A table whose cells are shaded by how far they are from the baseline.
fn heat_map(page: &mut String, map: &HeatMap) {
    let _ = write!(
        page,
        "<section>\n<h2>{}</h2>\n<p>{}</p>\n",
        escape(&map.title),
        escape(&map.legend(" Shades of blue are better, of red worse."))
    );
    open_table(page, &map.title, 1 + map.columns.len(), "");
    let _ = write!(page, "<th scope=\"col\">{}</th>", escape(&map.axis));
    for column in &map.columns {
        let _ = write!(page, "<th scope=\"col\">{}</th>", wrapping(column));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    let best = map.best();
    for (row, (name, values)) in map.rows.iter().zip(&map.values).enumerate() {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", wrapping(name));
        for (column, value) in values.iter().enumerate() {
            let Some(value) = value else {
                page.push_str("<td></td>");
                continue;
            };
            let shown = number(*value);
            let shown = match best == Some((row, column)) {
                true => format!("<strong>{shown}</strong>"),
                false => shown,
            };
            let _ = write!(page, "<td style=\"{}\">{shown}</td>", shade(map.gain(*value)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str(CLOSE_TABLE);
    page.push_str("</section>\n");
}

/// Blue for a share above zero, red below.
fn shade(share: f64) -> String {
    let colour = if share < 0.0 { "214,39,40" } else { "31,119,180" };
    format!("background:rgba({colour},{:.2})", 0.7 * share.abs())
}

fn grid(page: &mut String, grid: &Grid) {
    section(page, &grid.title, |page| {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(&grid.note));
        open_table(page, &grid.title, 1 + grid.columns.len(), "heat");
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(&grid.axis));
        for column in &grid.columns {
            let _ = write!(page, "<th scope=\"col\" class=\"n\">{}</th>", escape(column));
        }
        page.push_str("</tr>\n</thead>\n<tbody>\n");
        for (name, cells) in &grid.rows {
            let _ = write!(page, "<tr><th scope=\"row\">{}</th>", wrapping(name));
            for cell in cells {
                let _ = match cell {
                    None => write!(page, "<td></td>"),
                    Some(cell) => {
                        let (share, text) = (grid.share(cell), escape(&cell.text));
                        write!(page, "<td style=\"--v:{share:.3}\">{text}</td>")
                    }
                };
            }
            page.push_str("</tr>\n");
        }
        page.push_str(CLOSE_TABLE);
    });
}

fn image(page: &mut String, image: &Image) {
    section(page, &image.title, |page| {
        let (label, svg) = (escape(&image.title), &image.svg);
        let _ = writeln!(page, "<div role=\"img\" aria-label=\"{label}\">\n{svg}</div>");
    });
}

fn coloured_text(page: &mut String, text: &ColouredText) {
    section(page, &text.title, |page| {
        let _ = write!(page, "<p class=\"note\">{}</p>\n<p>", escape(&text.note));
        for (piece, weight) in &text.pieces {
            let (style, piece) = (shade(text.share(*weight)), escape(piece));
            let _ = write!(page, "<span style=\"{style}\" title=\"{weight}\">{piece}</span>");
        }
        page.push_str("</p>\n");
    });
}

/// With a capital letter.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}

/// Columns from which on a table is set smaller, so that those of an inspection fit a page of 1,400
/// pixels.
const MANY_COLUMNS: usize = 12;

/// Opens a table and its first row of heads. It stands in a region that scrolls where it is wider
/// than the page, or longer than it, so that the bar that scrolls sideways is always in sight.
fn open_table(page: &mut String, label: &str, columns: usize, class: &str) {
    let many = if columns >= MANY_COLUMNS { "many" } else { "" };
    let classes = [class, many].into_iter().filter(|class| !class.is_empty());
    let class = classes.collect::<Vec<_>>().join(" ");
    let class = if class.is_empty() { class } else { format!(" class=\"{class}\"") };
    let _ = write!(
        page,
        "<div class=\"scroll\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n<table{class}>\n\
         <thead>\n<tr>",
        escape(label)
    );
}

/// What closes it.
const CLOSE_TABLE: &str = "</tbody>\n</table>\n</div>\n";

/// Text for element content in which a line may break after the dots of long names. A break is no
/// letter: who copies a name gets the name.
fn wrapping(text: &str) -> String {
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
            let written = wrapping(name);
            assert_eq!(written, want);
            assert_eq!(written.replace("<wbr>", ""), escape(name), "{name}");
        }
    }
}
