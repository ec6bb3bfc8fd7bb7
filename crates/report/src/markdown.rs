//! GitHub-flavoured Markdown.

use crate::document::{Block, Document};
use crate::heat_map::{HeatMap, number};
use crate::table::Table;
use std::fmt::Write;

/// The whole report except pictures; external text is escaped.
#[must_use]
pub fn render(document: &Document) -> String {
    let mut text = format!("# {}\n", escape(&document.title));
    if let Some(headline) = &document.headline {
        let _ = write!(text, "\n{}\n", escape(headline));
    }
    for block in &document.blocks {
        match block {
            Block::Text(lines) => {
                for line in lines {
                    let _ = write!(text, "\n{}\n", escape(line));
                }
            }
            Block::Notes(notes) if notes.is_empty() => {}
            Block::Notes(notes) => {
                text.push_str("\n## Notes\n\n");
                for note in notes {
                    let _ = writeln!(text, "- {}", escape(note));
                }
            }
            Block::Table(table) | Block::Provenance(table) => write_table(&mut text, table),
            Block::HeatMap(map) => {
                heat_map(&mut text, map);
            }
            Block::ColouredText(coloured) => {
                let _ = write!(text, "\n## {}\n\n", escape(&coloured.title));
                for (piece, weight) in &coloured.pieces {
                    let _ = writeln!(text, "- {}: {:+.2}", escape(piece), coloured.share(*weight));
                }
            }
            Block::Details { .. } | Block::Figure(_) | Block::Grid(_) | Block::Image(_) => {}
        }
    }
    text
}

fn write_table(text: &mut String, table: &Table) {
    let _ = write!(text, "\n## {}\n\n|", escape(&table.caption));
    for column in &table.columns {
        let _ = write!(text, " {} |", escape(&column.head));
    }
    text.push_str("\n|");
    for column in &table.columns {
        text.push_str(if column.numeric { " ---: |" } else { " --- |" });
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

/// A heat map as a table; the best value is bold.
fn heat_map(text: &mut String, map: &HeatMap) {
    let (title, axis) = (escape(&map.title), escape(&map.axis));
    let _ = write!(text, "\n### {title}\n\n{}\n\n| {axis} |", map.legend(""));
    for column in &map.columns {
        let _ = write!(text, " {} |", escape(column));
    }
    text.push_str("\n| --- |");
    text.push_str(&" --: |".repeat(map.columns.len()));
    let best = map.best();
    for (row, (name, values)) in map.rows.iter().zip(&map.values).enumerate() {
        let _ = write!(text, "\n| {} |", escape(name));
        for (column, value) in values.iter().enumerate() {
            let shown = value.map_or_else(String::new, number);
            let _ = match best == Some((row, column)) {
                true => write!(text, " **{shown}** |"),
                false => write!(text, " {shown} |"),
            };
        }
    }
    text.push('\n');
}

/// Escapes markup and line breaks.
fn escape(text: &str) -> String {
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
