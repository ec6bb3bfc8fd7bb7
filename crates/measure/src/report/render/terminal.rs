//! Plain text with aligned columns.

use crate::report::Report;
use crate::report::table::Table;
use std::fmt::Write;

/// The headline, the result tables and the notes, without colours; lines end in `\n`. Control
/// characters in names are left out, so that a name cannot move the cursor.
#[must_use]
pub fn terminal(report: &Report) -> String {
    let mut text = format!("{}\n{}\n", printable(&report.title), printable(&report.headline()));
    for table in report.result_tables().iter().chain(&report.group_tables()) {
        let _ = write!(text, "\n{}\n", printable(&table.caption));
        write_table(&mut text, table);
    }
    for note in &report.notes {
        let _ = write!(text, "\nnote: {}", printable(note));
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    text
}

pub(super) fn write_table(text: &mut String, table: &Table) {
    let heads: Vec<String> = table.columns.iter().map(|(head, _)| printable(head)).collect();
    let body: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| row.cells.iter().map(|cell| printable(cell)).collect())
        .collect();
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| {
            let cells = body.iter().map(|row| row[column].chars().count());
            cells.chain([head.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let start = text.len();
        for ((cell, width), (_, numeric)) in cells.zip(&widths).zip(&table.columns) {
            // Writing to a string cannot fail.
            let _ = match numeric {
                true => write!(text, "{cell:>width$}  "),
                false => write!(text, "{cell:<width$}  "),
            };
        }
        let end = start + text[start..].trim_end().len();
        text.truncate(end);
        text.push('\n');
    };
    line(&mut heads.iter().map(String::as_str));
    let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    line(&mut rules.iter().map(String::as_str));
    for (row, cells) in table.rows.iter().zip(&body) {
        if row.starts_block {
            line(&mut std::iter::empty());
        }
        line(&mut cells.iter().map(String::as_str));
    }
}

pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control())
        .collect()
}
