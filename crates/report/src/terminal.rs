//! Plain text with aligned columns.

use crate::document::{Block, Document};
use crate::table::Table;
use std::fmt::Write;

/// Largest width of a table with shortened names, in characters.
const WIDTH: usize = 100;
/// Mark for omitted parts of a name.
const LEFT_OUT: &str = "…";

/// Headline, tables, paragraphs and notes, without colours; lines end in `\n`. Control characters
/// are removed, so that a name cannot move the cursor.
#[must_use]
pub fn render(document: &Document) -> String {
    let mut text = format!("{}\n", printable(&document.title));
    if let Some(headline) = &document.headline {
        let _ = writeln!(text, "{}", printable(headline));
    }
    text + &blocks(&document.blocks)
}

/// Blocks without a heading, each after an empty line.
#[must_use]
pub fn blocks(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        match block {
            Block::Text(lines) => paragraph(&mut text, "", lines.iter().map(String::as_str)),
            Block::Notes(notes) => {
                paragraph(&mut text, "note: ", notes.iter().map(String::as_str));
            }
            Block::Table(table) => {
                paragraph(&mut text, "", table.caption.lines());
                if table.caption.is_empty() {
                    text.push('\n');
                }
                write_table(&mut text, table);
            }
            Block::HeatMap(map) => {
                let table = map.table();
                paragraph(&mut text, "", [table.caption.as_str(), &map.legend("")]);
                write_table(&mut text, &table);
            }
            Block::ColouredText(coloured) => {
                let _ = write!(text, "\n{}\n", printable(&coloured.title));
                let pieces = coloured.pieces.iter().map(|(piece, weight)| {
                    format!("{} ({:+.2})", printable(piece), coloured.share(*weight))
                });
                let _ = writeln!(text, "{}", pieces.collect::<Vec<_>>().join(" "));
            }
            Block::Details { .. }
            | Block::Figure(_)
            | Block::Grid(_)
            | Block::Image(_)
            | Block::Provenance(_) => {}
        }
    }
    text
}

/// Lines after an empty line.
fn paragraph<'a>(text: &mut String, before: &str, lines: impl IntoIterator<Item = &'a str>) {
    for (index, line) in lines.into_iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}{before}{}", printable(line));
    }
}

fn write_table(text: &mut String, table: &Table) {
    let heads: Vec<String> = table.columns.iter().map(|column| printable(&column.head)).collect();
    let mut body: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| row.cells.iter().map(|cell| printable(cell)).collect())
        .collect();
    let width = |column: usize, body: &[Vec<String>]| {
        let cells = body.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    if table.shortens {
        let others: usize = (1..heads.len()).map(|column| 2 + width(column, &body)).sum();
        let room = WIDTH.saturating_sub(others).max(12);
        for row in &mut body {
            row[0] = shortened(&row[0], room);
        }
    }
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column, &body)).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let start = text.len();
        for ((cell, width), column) in cells.zip(&widths).zip(&table.columns) {
            // Writing to a string cannot fail.
            let _ = match column.numeric {
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

fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !c.is_control())
        .collect()
}

/// A name with parts omitted to fit `room` characters. Numbers stay, since they distinguish layers,
/// and so does the end, which is the most specific part.
#[must_use]
pub fn shortened(name: &str, room: usize) -> String {
    let fits = |name: &str| name.chars().count() <= room;
    if fits(name) {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = name.split('.').collect();
    // An asterisk stands for the numbers of all layers.
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'*');
    // The first parts are the least specific; a single mark replaces any number of omitted parts.
    for place in 0..parts.len().saturating_sub(1) {
        if is_number(parts[place]) {
            continue;
        }
        parts[place] = LEFT_OUT;
        let mut seen = parts.clone();
        seen.dedup_by(|a, b| *a == LEFT_OUT && *b == LEFT_OUT);
        let short = seen.join(".");
        if fits(&short) {
            return short;
        }
    }
    let numbers: Vec<&str> = parts.iter().copied().filter(|part| is_number(part)).collect();
    let numbers = numbers.join(".");
    let letters: Vec<char> = name.chars().collect();
    let tail = room.saturating_sub(numbers.chars().count() + 2);
    if !numbers.is_empty() && tail > 2 {
        let end: String = letters[letters.len() - tail..].iter().collect();
        return format!("{LEFT_OUT}{numbers}{LEFT_OUT}{end}");
    }
    let head = (room - 1) / 4;
    let tail = room - 1 - head;
    let start: String = letters[..head].iter().collect();
    let end: String = letters[letters.len() - tail..].iter().collect();
    format!("{start}{LEFT_OUT}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_middle() {
        assert_eq!(shortened("model.layers.0.mlp", 18), "model.layers.0.mlp");
        assert_eq!(shortened("model.layers.0.mlp", 9), "….0.mlp");
        let expert = "model.layers.13.mlp.experts.27.down_proj.weight";
        for (room, short) in [
            (47, expert),
            (46, "….layers.13.mlp.experts.27.down_proj.weight"),
            (40, "….13.mlp.experts.27.down_proj.weight"),
            (33, "….13.….27.down_proj.weight"),
            (20, "….13.….27.….weight"),
            (16, "…13.27…oj.weight"),
        ] {
            let found = shortened(expert, room);
            assert!(found.chars().count() <= room && found == short, "{room}: {found}");
        }
        assert_eq!(shortened("a_name_without_any_parts", 9), "a_…_parts");
    }

    #[test]
    fn weights_of_pieces_are_shown_as_shares_of_the_largest() {
        let pieces = vec![("the".to_owned(), 0.5), ("\u{1b}cat".to_owned(), -2.0)];
        let text = crate::ColouredText { title: "Scores".into(), note: "n".into(), pieces };
        let document = Document { blocks: vec![Block::ColouredText(text)], ..Document::default() };
        assert!(render(&document).ends_with("\nScores\nthe (+0.25) cat (-1.00)\n"));
        let page = crate::html::render(&document).unwrap();
        assert!(page.contains("rgba(214,39,40,0.70)\" title=\"-2\">cat</span>"), "{page}");
        let markdown = crate::markdown::render(&document);
        assert!(markdown.ends_with("## Scores\n\n- the: +0.25\n- cat: -1.00\n"), "{markdown}");
    }

    #[test]
    fn pictures_are_in_pages_alone() {
        let image = crate::Image { title: "a <b>".into(), svg: "<svg></svg>".into() };
        let document = Document { blocks: vec![Block::Image(image)], ..Document::default() };
        let page = crate::html::render(&document).unwrap();
        assert!(page.contains("aria-label=\"a &lt;b&gt;\">\n<svg></svg></div>"), "{page}");
        assert_eq!(render(&document), "\n");
    }
}
