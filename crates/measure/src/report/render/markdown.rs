//! GitHub-flavoured Markdown.

use crate::report::Report;
use crate::report::table::Table;
use std::fmt::Write;

/// The whole report but its plots; what comes from outside is escaped.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut text = format!("# {}\n\n{}\n", escape(&report.title), escape(&report.headline()));
    for table in report.result_tables().iter().chain(&report.group_tables()) {
        write_table(&mut text, table);
    }
    if !report.notes.is_empty() {
        text.push_str("\n## Notes\n\n");
        for note in &report.notes {
            let _ = writeln!(text, "- {}", escape(note));
        }
    }
    write_table(&mut text, &report.provenance_table());
    text
}

pub(super) fn write_table(text: &mut String, table: &Table) {
    let _ = write!(text, "\n## {}\n\n|", escape(&table.caption));
    for (head, _) in &table.columns {
        let _ = write!(text, " {} |", escape(head));
    }
    text.push_str("\n|");
    for (_, numeric) in &table.columns {
        text.push_str(if *numeric { " ---: |" } else { " --- |" });
    }
    text.push('\n');
    for row in &table.rows {
        text.push('|');
        for cell in &row.cells {
            let _ = write!(text, " {} |", escape(cell));
        }
        text.push('\n');
    }
}

/// Keeps text from being taken for markup, and on one line.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            c if c.is_whitespace() => escaped.push(' '),
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}
