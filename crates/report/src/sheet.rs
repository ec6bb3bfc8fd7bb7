//! Stand-alone SVG files: panels side by side, each with heading and legend, and notes below.

use crate::ReportError;
use crate::html::escape;
use crate::palette::{self, Marker};
use crate::plot::{FINE, Plot, Size, svg};
use plotters::style::RGBColor;
use std::fmt::Write;

/// Pixels of one panel.
const PANEL: Size = Size { width: 560, height: 380, text: 13 };
/// Pixels around the sheet and between panels.
const MARGIN: i32 = 20;
/// Line height in pixels.
const LINE: i32 = 18;
/// Legend entries per line.
const LEGEND_COLUMNS: usize = 3;

/// A plot with heading and legend.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Title of the y axis.
    pub heading: String,
    /// The plot.
    pub plot: Plot,
    /// Index in the palette and name of each series.
    pub legend: Vec<(usize, String)>,
}

/// A figure as an SVG file.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Title.
    pub title: String,
    /// Panels, from left to right.
    pub panels: Vec<Panel>,
    /// Paragraphs below.
    pub notes: Vec<String>,
}

impl Sheet {
    /// The SVG file.
    ///
    /// # Errors
    /// [`ReportError::Plot`] if a plot cannot be drawn.
    pub fn svg(&self) -> Result<String, ReportError> {
        let count = i32::try_from(self.panels.len()).unwrap_or(i32::MAX / 4096);
        let width = MARGIN + count * (PANEL.width + MARGIN);
        let legend_lines = |panel: &Panel| panel.legend.len().div_ceil(LEGEND_COLUMNS);
        let most = self.panels.iter().map(legend_lines).max().unwrap_or(0);
        let legend_height = LINE * i32::try_from(most).unwrap_or(1);
        let top = MARGIN + 2 * LINE;
        let plot_top = top + LINE + legend_height;
        // Characters of this size are about 6.2 pixels wide.
        let letters = (f64::from(width - 2 * MARGIN) / 6.2) as usize;
        let notes: Vec<String> = self.notes.iter().flat_map(|note| wrap(note, letters)).collect();
        let notes_top = plot_top + PANEL.height + LINE;
        let height = notes_top + LINE * i32::try_from(notes.len()).unwrap_or(1) + MARGIN / 2;
        let mut page = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n"
        );
        words(&mut page, point(MARGIN, MARGIN + LINE / 2), 16, palette::BASELINE.0, &self.title);
        for (index, panel) in (0..).zip(&self.panels) {
            let left = MARGIN + index * (PANEL.width + MARGIN);
            words(&mut page, point(left, top), 13, palette::BASELINE.0, &panel.heading);
            legend(&mut page, point(left, top + LINE), &panel.legend);
            let plot = svg(&panel.plot, PANEL)?;
            page.push_str(&placed(&plot, point(left, plot_top)));
        }
        for (line, note) in (0..).zip(&notes) {
            words(&mut page, point(MARGIN, notes_top + line * LINE), 12, palette::INK.0, note);
        }
        page.push_str("</svg>\n");
        Ok(page)
    }
}

/// A place in the sheet, from the left and from the top.
#[derive(Clone, Copy)]
struct Point {
    x: i32,
    y: i32,
}

fn point(x: i32, y: i32) -> Point {
    Point { x, y }
}

/// Positions a plot in the sheet by replacing its opening tag.
fn placed(plot: &str, Point { x, y }: Point) -> String {
    let body = plot.split_once('>').map_or(plot, |(_, body)| body);
    let Size { width, height, .. } = PANEL;
    let (inner, tall) = (width * FINE, height * FINE);
    format!(
        "<svg x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {inner} {tall}\">{body}"
    )
}

fn words(page: &mut String, Point { x, y }: Point, size: i32, colour: RGBColor, text: &str) {
    let (colour, text) = (palette::hex(colour), escape(text));
    let _ = writeln!(
        page,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\">{text}</text>"
    );
}

fn legend(page: &mut String, Point { x: left, y: top }: Point, entries: &[(usize, String)]) {
    let column = PANEL.width / LEGEND_COLUMNS as i32;
    for (index, (method, label)) in entries.iter().enumerate() {
        let (row, place) = (index / LEGEND_COLUMNS, index % LEGEND_COLUMNS);
        let x = left + 6 + column * place as i32;
        let y = top + LINE * row as i32;
        let _ = writeln!(page, "{}", mark(*method, point(x, y - 4)));
        words(page, point(x + 10, y), 12, palette::INK.0, label);
    }
}

fn mark(method: usize, Point { x, y }: Point) -> String {
    let fill = palette::hex(palette::colour(method));
    let shape = |points: [(i32, i32); 4]| {
        let points = points.map(|(dx, dy)| format!("{},{}", x + dx, y + dy)).join(" ");
        format!("<polygon points=\"{points}\" fill=\"{fill}\"/>")
    };
    match palette::marker(method) {
        Marker::Disc => format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"5\" fill=\"{fill}\"/>"),
        Marker::Square => shape([(-4, -4), (4, -4), (4, 4), (-4, 4)]),
        Marker::Triangle => shape([(-5, 4), (5, 4), (0, -6), (0, -6)]),
        Marker::Diamond => shape([(-6, 0), (0, -6), (6, 0), (0, 6)]),
    }
}

/// Wraps text to lines of at most `letters` characters, at word boundaries.
fn wrap(text: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = &lines[lines.len() - 1];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > letters {
            lines.push(String::new());
        }
        let at = lines.len() - 1;
        if !lines[at].is_empty() {
            lines[at].push(' ');
        }
        lines[at].push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible word", 4), ["incomprehensible", "word"]);
    }
}
