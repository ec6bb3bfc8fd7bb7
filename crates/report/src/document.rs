//! Reports as blocks, which know nothing of what they show.

use crate::plot::Plot;
use crate::table::Table;
use crate::{Grid, HeatMap};
use serde::Serialize;

/// A report: a heading, and blocks in the order in which they are read.
///
/// [`crate::terminal::render`], [`crate::markdown::render`] and [`crate::html::render`] turn it
/// into text. A page holds every block; the plain forms leave out what only a picture can show.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Document {
    /// Title of the page; heading of the plain forms.
    pub title: String,
    /// Heading of the page, where it is not the title.
    pub heading: Option<String>,
    /// Kind and date of the report, above the heading of a page; nothing where it is empty.
    pub kicker: String,
    /// The main finding, in a sentence or two.
    pub headline: Option<String>,
    /// Names and values at a glance, below the headline of a page.
    pub facts: Vec<(String, String)>,
    /// Names of series in the order of their colours; [`crate::plot::Series::index`] and
    /// [`Mark::Series`] point here.
    pub series: Vec<String>,
    /// The content.
    pub blocks: Vec<Block>,
}

/// One part of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Paragraphs.
    Text(Vec<String>),
    /// A table.
    Table(Table),
    /// A long table: folded in a page, left out of the plain forms.
    Details {
        /// Words to click on.
        summary: String,
        /// What is folded.
        table: Table,
    },
    /// Plots; a page alone has them.
    Figure(Figure),
    /// Values beside a baseline, over two axes.
    HeatMap(HeatMap),
    /// Shaded values over two axes; a page alone has them.
    Grid(Grid),
    /// A picture; a page alone has it.
    Image(Image),
    /// Text with a weight for each piece, such as tokens with their scores.
    ColouredText(ColouredText),
    /// What a reader should know: fallbacks taken, overlaps of data.
    Notes(Vec<String>),
    /// Where the results come from; too long for a terminal.
    Provenance(Table),
}

/// Panels under one heading.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What is shown.
    pub title: String,
    /// How to read it, in a sentence or two.
    pub note: String,
    /// Title of the y axes.
    pub y_title: String,
    /// The plots.
    pub panels: Vec<Plot>,
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Image {
    /// What is shown.
    pub title: String,
    /// The picture as an SVG element that was made here: it is written into the page as it is.
    pub svg: String,
}

/// Text in pieces, each with a weight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColouredText {
    /// What is shown.
    pub title: String,
    /// How to read the colours.
    pub note: String,
    /// Pieces with their weights; shades are shares of the largest weight, blue above zero and red
    /// below.
    pub pieces: Vec<(String, f64)>,
}

impl ColouredText {
    /// The weight of a piece over the largest one, from -1 to 1.
    pub(crate) fn share(&self, weight: f64) -> f64 {
        let weights = self.pieces.iter().map(|(_, weight)| weight.abs());
        let largest = weights.filter(|weight| weight.is_finite()).fold(0.0, f64::max);
        if largest > 0.0 && weight.is_finite() { weight / largest } else { 0.0 }
    }
}

/// What a line of a table is marked with in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Nothing.
    #[default]
    Plain,
    /// The dashed line of the baseline.
    Baseline,
    /// Colour and marker of a series.
    Series(usize),
}
