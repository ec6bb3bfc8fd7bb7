//! One self-contained HTML file: no script, no font, no image from anywhere else, which its own
//! content policy enforces. It is laid out for phones first and follows the reader's choice of a
//! light or dark page.

use super::figures::{Figure, figures};
use super::number::{count, percent, significant};
use super::palette;
use super::plot::{Plot, Size, svg};
use crate::report::summary::metric_of;
use crate::report::table::{Table, TableRow};
use crate::report::{Report, ReportError, iso_date};
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Plots are drawn twice, for narrow and for wide pages, so that their text keeps its size; the
/// style sheet shows one of them.
const NARROW: Size = Size { width: 350, height: 270, text: 12 };
const WIDE: Size = Size { width: 880, height: 340, text: 13 };
pub(super) const THIRD: Size = Size { width: 350, height: 290, text: 14 };

/// The whole report as an HTML document.
///
/// # Errors
/// [`ReportError::Plot`] if a plot cannot be drawn.
pub fn html(report: &Report) -> Result<String, ReportError> {
    let mut page = opening(&report.title);
    header(&mut page, report);
    for table in &report.result_tables() {
        section(&mut page, &table.caption, |page| {
            table_html(page, table, report);
        });
    }
    for figure in figures(report) {
        figure_html(&mut page, &figure, report)?;
    }
    for table in &report.group_tables() {
        section(&mut page, &table.caption, |page| {
            table_html(page, table, report);
        });
    }
    let runs = report.run_table();
    if !runs.rows.is_empty() {
        section(&mut page, &runs.caption, |page| {
            let _ =
                write!(page, "<details>\n<summary>Show all {} runs</summary>\n", runs.rows.len());
            table_html(page, &runs, report);
            page.push_str("</details>\n");
        });
    }
    if !report.notes.is_empty() {
        section(&mut page, "Notes", |page| {
            page.push_str("<ul>\n");
            for note in &report.notes {
                let _ = writeln!(page, "<li>{}</li>", wrapping(note));
            }
            page.push_str("</ul>\n");
        });
    }
    provenance(&mut page, report);
    page.push_str(CLOSING);
    Ok(page)
}

/// Everything before the content of a page.
pub(super) fn opening(title: &str) -> String {
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
pub(super) const CLOSING: &str = "</main>\n</body>\n</html>\n";

fn header(page: &mut String, report: &Report) {
    let _ = write!(
        page,
        "<header>\n<p class=\"kicker\">Linwright report · {}</p>\n<h1>{}</h1>\n\
         <p class=\"headline\">{}</p>\n<dl class=\"facts\">\n",
        escape(iso_date(report.provenance.date_unix_seconds).split('T').next().unwrap_or("")),
        escape(&report.title),
        escape(&report.headline())
    );
    let mut fact = |name: &str, value: &str| {
        let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), wrapping(value));
    };
    fact("Model", &report.model.name);
    fact("Parameters", &count(report.model.parameters as f64));
    let task = report.perplexity_task();
    let dense = task.and_then(|task| metric_of(&report.baseline, task, "token_perplexity"));
    if let Some(dense) = dense {
        fact("Dense perplexity", &significant(dense, 4));
    }
    for result in &report.baseline {
        let accuracy = result.metrics.iter().find(|metric| metric.higher_is_better);
        if let Some(metric) = accuracy {
            let name = format!("Dense, {}", result.task.replace('_', " "));
            fact(&name, &percent(metric.value));
        }
    }
    fact("Runs", &report.rows.len().to_string());
    page.push_str("</dl>\n</header>\n");
}

/// A part of the page under a heading.
pub(super) fn section(page: &mut String, title: &str, content: impl FnOnce(&mut String)) {
    let _ = write!(page, "<section>\n<h2>{}</h2>\n", escape(&sentence(title)));
    content(page);
    page.push_str("</section>\n");
}

fn table_html(page: &mut String, table: &Table, report: &Report) {
    let methods = report.methods();
    table_with(page, table, |row| swatch(row.method.as_deref(), &methods));
}

/// A table without colours.
pub(super) fn plain_table(page: &mut String, table: &Table) {
    table_with(page, table, |_| String::new());
}

/// A table; `mark` stands before the first cell of a row.
fn table_with(page: &mut String, table: &Table, mark: impl Fn(&TableRow) -> String) {
    open_table(page, &table.caption, table.columns.len(), "");
    for (head, numeric) in &table.columns {
        let class = if *numeric { " class=\"n\"" } else { "" };
        let _ = write!(page, "<th scope=\"col\"{class}>{}</th>", escape(head));
    }
    page.push_str("</tr>\n</thead>\n<tbody>\n");
    for row in &table.rows {
        let class = match (&row.method, row.starts_block) {
            (None, _) => " class=\"dense\"",
            (_, true) => " class=\"block\"",
            _ => "",
        };
        let _ = write!(page, "<tr{class}>");
        for (index, (cell, (_, numeric))) in row.cells.iter().zip(&table.columns).enumerate() {
            let cell = if *numeric { escape(cell) } else { wrapping(cell) };
            let _ = if index == 0 {
                write!(page, "<th scope=\"row\">{}{cell}</th>", mark(row))
            } else if *numeric {
                write!(page, "<td class=\"n\">{cell}</td>")
            } else {
                write!(page, "<td>{cell}</td>")
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str(CLOSE_TABLE);
}

fn swatch(method: Option<&str>, methods: &[&str]) -> String {
    let Some(place) = method.and_then(|m| methods.iter().position(|known| *known == m)) else {
        return "<span class=\"swatch line\"></span>".to_owned();
    };
    let shape = match palette::marker(place) {
        palette::Marker::Disc => "disc",
        palette::Marker::Square => "square",
        palette::Marker::Triangle => "triangle",
        palette::Marker::Diamond => "diamond",
    };
    format!("<span class=\"swatch {shape} {}\"></span>", palette::class(place))
}

fn figure_html(page: &mut String, figure: &Figure, report: &Report) -> Result<(), ReportError> {
    let methods = report.methods();
    let _ = write!(
        page,
        "<section>\n<h2>{}</h2>\n<p class=\"note\">{}</p>\n<ul class=\"legend\">\n",
        escape(&figure.title),
        escape(&figure.note)
    );
    let shown = |place: usize| {
        let mut series = figure.panels.iter().flat_map(|panel| &panel.series);
        series.any(|series| series.method == place && !series.points.is_empty())
    };
    for (_, method) in methods.iter().enumerate().filter(|(place, _)| shown(*place)) {
        let mark = swatch(Some(method), &methods);
        let _ = writeln!(page, "<li>{mark}{}</li>", wrapping(method));
    }
    if figure.panels.iter().any(|panel| panel.dense.is_some()) {
        let _ = writeln!(page, "<li>{}dense</li>", swatch(None, &methods));
    }
    let single = figure.panels.len() == 1;
    let class = if single { "panels single" } else { "panels" };
    let _ = write!(page, "</ul>\n<div class=\"{class}\">\n");
    for panel in &figure.panels {
        panel_html(page, figure, panel, single)?;
    }
    page.push_str("</div>\n</section>\n");
    Ok(())
}

fn panel_html(
    page: &mut String,
    figure: &Figure,
    panel: &Plot,
    single: bool,
) -> Result<(), ReportError> {
    let heading = if panel.title.is_empty() { &figure.title } else { &panel.title };
    let _ = write!(page, "<figure>\n<figcaption>");
    if !panel.title.is_empty() {
        let _ = write!(page, "<strong>{}</strong> ", wrapping(&sentence(&panel.title)));
    }
    let label = format!("{}: {} over {}", heading, figure.y_title, panel.x.title);
    let _ = write!(
        page,
        "<span>{}</span></figcaption>\n<div class=\"plot\" role=\"img\" aria-label=\"{}\">\n",
        escape(figure.y_title),
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

fn provenance(page: &mut String, report: &Report) {
    let table = report.provenance_table();
    section(page, &table.caption, |page| {
        page.push_str("<dl class=\"provenance\">\n");
        for row in &table.rows {
            let cells: Vec<String> = row.cells.iter().map(|cell| wrapping(cell)).collect();
            let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", cells[0], cells[1]);
        }
        page.push_str("</dl>\n");
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
pub(in crate::report) fn open_table(page: &mut String, label: &str, columns: usize, class: &str) {
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
pub(in crate::report) const CLOSE_TABLE: &str = "</tbody>\n</table>\n</div>\n";

/// Text for element content in which a line may break after the dots of long names. A break is no
/// letter: who copies a name gets the name.
pub(in crate::report) fn wrapping(text: &str) -> String {
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
pub(in crate::report) fn escape(text: &str) -> String {
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
