//! One plot as SVG, drawn at four times its displayed size, since the drawing library rounds
//! positions to whole pixels.

use crate::ReportError;
use crate::number::compact;
use crate::palette::{self, Marker};
use crate::scale::Scale;
use plotters::coord::Shift;
use plotters::prelude::{
    Circle, DrawingArea, IntoDrawingArea, PathElement, Polygon, SVGBackend, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBAColor, RGBColor, ShapeStyle, TextStyle};
use serde::{Deserialize, Serialize};

/// Drawn pixels per displayed pixel.
pub(crate) const FINE: i32 = 4;

/// Points of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Index into [`crate::Document::series`], which determines name, colour and marker.
    pub index: usize,
    /// (x, y, deviation of y), in drawing order.
    pub points: Vec<(f64, f64, Option<f64>)>,
    /// Style of the points.
    pub style: Style,
}

/// Style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Markers joined by a thin line.
    Marked,
    /// A line.
    Line,
    /// A faint line, one of many.
    Faint,
    /// Rings, not joined.
    Ring,
}

/// Description of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Title of the axis.
    pub title: String,
    /// Range of the axis.
    pub scale: Scale,
    /// Explicit ticks; round numbers by default.
    pub ticks: Option<Vec<(f64, String)>>,
}

/// Description of a plot. The title of the y axis is horizontal, above the plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Title; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
    /// Baseline, a dashed line.
    pub baseline: Option<Baseline>,
}

/// A reference value for all series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The value.
    pub value: f64,
    /// Its name: `dense`.
    pub name: String,
}

/// Width, height and text size in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) width: i32,
    pub(crate) height: i32,
    pub(crate) text: i32,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Point = (i32, i32);

/// Position of the axes in the picture.
struct Frame<'a> {
    plot: &'a Plot,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    text: i32,
}

/// The SVG element.
pub(crate) fn svg(plot: &Plot, size: Size) -> Result<String, ReportError> {
    let mut buffer = String::new();
    draw(plot, size, &mut buffer)
        .map_err(|reason| ReportError::Plot { plot: plot.title.clone(), reason })?;
    Ok(buffer)
}

fn draw(plot: &Plot, size: Size, buffer: &mut String) -> Result<(), String> {
    let (width, height, text) = (size.width * FINE, size.height * FINE, size.text * FINE);
    let extent = (width.unsigned_abs(), height.unsigned_abs());
    let area = SVGBackend::with_string(buffer, extent).into_drawing_area();
    let label = y_ticks(plot, size)
        .iter()
        .map(|(_, label)| i32::try_from(label.chars().count()).unwrap_or(8))
        .max()
        .unwrap_or(3);
    let frame = Frame {
        plot,
        // Digits are at most 0.62 of the text size wide.
        left: text * 62 * label / 100 + text,
        // Space for half of a label at the end of the axis.
        right: width - text * 17 / 10,
        top: text * 7 / 10,
        bottom: height - text * 33 / 10,
        text,
    };
    frame.axes(&area, size)?;
    frame.baseline(&area)?;
    for series in &plot.series {
        frame.series(&area, series)?;
    }
    area.present().map_err(|error| error.to_string())
}

fn y_ticks(plot: &Plot, size: Size) -> Vec<(f64, String)> {
    let wanted = usize::try_from(size.height / 60).unwrap_or(4);
    plot.y.ticks.clone().unwrap_or_else(|| plot.y.scale.ticks(wanted))
}

fn x_ticks(plot: &Plot, size: Size) -> Vec<(f64, String)> {
    let wanted = usize::try_from(size.width / 70).unwrap_or(4);
    plot.x.ticks.clone().unwrap_or_else(|| plot.x.scale.ticks(wanted))
}

impl Frame<'_> {
    fn x(&self, value: f64) -> Option<i32> {
        let place = self.plot.x.scale.place(value)?;
        Some(self.left + (place * f64::from(self.right - self.left)).round() as i32)
    }

    fn y(&self, value: f64) -> Option<i32> {
        let place = self.plot.y.scale.place(value)?;
        Some(self.bottom - (place * f64::from(self.bottom - self.top)).round() as i32)
    }

    fn axes(&self, area: &Area<'_>, size: Size) -> Result<(), String> {
        let grid = palette::GRID.0.stroke_width(4);
        let ink = palette::INK.0;
        for (value, label) in y_ticks(self.plot, size) {
            let Some(y) = self.y(value) else { continue };
            line(area, vec![(self.left, y), (self.right, y)], grid)?;
            let at = (self.left - self.text / 2, y);
            self.words(area, &label, at, (HPos::Right, VPos::Center), ink)?;
        }
        for (value, label) in x_ticks(self.plot, size) {
            let Some(x) = self.x(value) else { continue };
            line(area, vec![(x, self.bottom), (x, self.bottom + self.text / 3)], grid)?;
            let at = (x, self.bottom + self.text / 2);
            self.words(area, &label, at, (HPos::Center, VPos::Top), ink)?;
        }
        line(area, vec![(self.left, self.bottom), (self.right, self.bottom)], ink.stroke_width(4))?;
        let middle = (self.left + self.right) / 2;
        let at = (middle, self.bottom + self.text * 2);
        self.words(area, &self.plot.x.title, at, (HPos::Center, VPos::Top), ink)
    }

    /// Draws the dashed line of the baseline.
    fn baseline(&self, area: &Area<'_>) -> Result<(), String> {
        let Some(baseline) = &self.plot.baseline else { return Ok(()) };
        let Some(y) = self.y(baseline.value) else { return Ok(()) };
        let style = palette::BASELINE.0.stroke_width(5);
        let (dash, gap) = (self.text * 6 / 10, self.text * 5 / 10);
        let mut x = self.left;
        while x < self.right {
            line(area, vec![(x, y), ((x + dash).min(self.right), y)], style)?;
            x += dash + gap;
        }
        let at = (self.right, y - self.text / 3);
        self.words(area, &baseline.name, at, (HPos::Right, VPos::Bottom), palette::BASELINE.0)
    }

    fn series(&self, area: &Area<'_>, series: &Series) -> Result<(), String> {
        let colour = palette::colour(series.index);
        let (width, opacity) = match series.style {
            Style::Marked => (6, 0.45),
            Style::Line => (9, 1.0),
            Style::Faint => (4, 0.22),
            Style::Ring => (0, 0.0),
        };
        let places: Vec<(Point, Option<(i32, i32)>)> = series
            .points
            .iter()
            .filter_map(|&(x, y, deviation)| {
                let at = (self.x(x)?, self.y(y)?);
                let bar = deviation.and_then(|d| Some((self.y(y - d)?, self.y(y + d)?)));
                Some((at, bar))
            })
            .collect();
        if places.len() > 1 && series.style != Style::Ring {
            let path = places.iter().map(|(at, _)| *at).collect();
            line(area, path, colour.mix(opacity).stroke_width(width))?;
        }
        if series.style == Style::Ring {
            for (at, _) in &places {
                let ring = Circle::new(*at, 36, colour.stroke_width(7));
                area.draw(&ring).map_err(|error| error.to_string())?;
            }
        }
        if series.style == Style::Marked {
            for (at, bar) in places {
                if let Some((low, high)) = bar {
                    line(area, vec![(at.0, low), (at.0, high)], colour.stroke_width(6))?;
                }
                mark(area, palette::marker(series.index), at, colour)?;
            }
        }
        Ok(())
    }

    fn words(
        &self,
        area: &Area<'_>,
        words: &str,
        at: Point,
        (h, v): (HPos, VPos),
        colour: RGBColor,
    ) -> Result<(), String> {
        // The drawing library writes 1 / 1.24 of the requested size.
        let font = ("sans-serif", f64::from(self.text) * 1.24).into_font();
        let style = TextStyle::from(font).color(&colour).pos(Pos::new(h, v));
        // Control characters are invalid in XML, even escaped.
        let words: String = words.chars().filter(|c| !c.is_control()).collect();
        area.draw(&Text::new(words, at, style)).map_err(|error| error.to_string())
    }
}

fn line(area: &Area<'_>, path: Vec<Point>, style: impl Into<ShapeStyle>) -> Result<(), String> {
    area.draw(&PathElement::new(path, style)).map_err(|error| error.to_string())
}

fn mark(area: &Area<'_>, marker: Marker, (x, y): Point, colour: RGBColor) -> Result<(), String> {
    let fill = |corners: Vec<Point>| {
        let style: RGBAColor = colour.to_rgba();
        area.draw(&Polygon::new(corners, style)).map_err(|error| error.to_string())
    };
    // Half widths for approximately equal areas of the four shapes.
    match marker {
        Marker::Disc => {
            area.draw(&Circle::new((x, y), 19, colour.filled())).map_err(|error| error.to_string())
        }
        Marker::Square => {
            fill(vec![(x - 17, y - 17), (x + 17, y - 17), (x + 17, y + 17), (x - 17, y + 17)])
        }
        Marker::Triangle => fill(vec![(x - 22, y + 17), (x + 22, y + 17), (x, y - 23)]),
        Marker::Diamond => fill(vec![(x - 24, y), (x, y - 24), (x + 24, y), (x, y + 24)]),
    }
}

/// Integer ticks, thinned to at most `most`.
#[must_use]
pub fn whole_ticks(values: &[usize], most: usize) -> Vec<(f64, String)> {
    let every = values.len().div_ceil(most.max(1)).max(1);
    let kept = values.iter().step_by(every);
    kept.map(|&value| (value as f64, compact(value as f64))).collect()
}
