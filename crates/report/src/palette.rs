//! Colours and markers of series, the same in all plots, legends and tables of a report.
//!
//! Eight hues that are distinguishable with the common kinds of colour blindness; each has its own
//! marker, so that colour is never the only distinction. Plots have the colours for light pages as
//! attributes, which the style sheet overrides on dark ones.

use plotters::style::RGBColor;
use std::fmt::Write;

/// Light-page and dark-page variants.
const HUES: [(RGBColor, RGBColor); 8] = [
    (RGBColor(0x1F, 0x6F, 0xB4), RGBColor(0x6C, 0xB2, 0xF0)),
    (RGBColor(0xC2, 0x57, 0x0C), RGBColor(0xF2, 0x9B, 0x5E)),
    (RGBColor(0x0F, 0x81, 0x5E), RGBColor(0x4F, 0xC9, 0xA2)),
    (RGBColor(0x8A, 0x45, 0xA8), RGBColor(0xC9, 0x93, 0xE3)),
    (RGBColor(0xB8, 0x2E, 0x4E), RGBColor(0xF0, 0x83, 0x9B)),
    (RGBColor(0x6B, 0x71, 0x0D), RGBColor(0xC2, 0xC8, 0x5A)),
    (RGBColor(0x0B, 0x7C, 0x8C), RGBColor(0x57, 0xC4, 0xD3)),
    (RGBColor(0x7A, 0x55, 0x3A), RGBColor(0xC9, 0xA0, 0x82)),
];

/// Text and axes: light-page and dark-page variants.
pub(crate) const INK: (RGBColor, RGBColor) =
    (RGBColor(0x55, 0x5B, 0x66), RGBColor(0xAE, 0xB4, 0xBF));

/// Grid lines.
pub(crate) const GRID: (RGBColor, RGBColor) =
    (RGBColor(0xE4, 0xE6, 0xEB), RGBColor(0x2F, 0x33, 0x3B));

/// The line of a baseline.
pub(crate) const BASELINE: (RGBColor, RGBColor) =
    (RGBColor(0x1A, 0x1D, 0x24), RGBColor(0xE8, 0xEA, 0xEE));

/// Marker shape of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Disc,
    Square,
    Triangle,
    Diamond,
}

/// Colour of the series with this index, for light pages.
pub(crate) fn colour(series: usize) -> RGBColor {
    HUES[series % HUES.len()].0
}

/// Marker of the series with this index; shifted in every further round through the hues.
pub(crate) fn marker(series: usize) -> Marker {
    match (series + series / HUES.len()) % 4 {
        0 => Marker::Disc,
        1 => Marker::Square,
        2 => Marker::Triangle,
        _ => Marker::Diamond,
    }
}

/// CSS class of the swatch of a series.
pub(crate) fn class(series: usize) -> String {
    format!("m{}", series % HUES.len())
}

/// Colour rules of the style sheet.
pub(crate) fn style_sheet() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for (index, (day, night)) in HUES.iter().enumerate() {
        let _ = write!(light, ".m{index}{{--hue:{}}}", hex(*day));
        let _ = write!(dark, ".m{index}{{--hue:{}}}", hex(*night));
    }
    for (day, night) in HUES.iter().chain([&INK, &GRID, &BASELINE]) {
        let (day, night) = (hex(*day), hex(*night));
        let _ = write!(dark, "svg [fill=\"{day}\"]{{fill:{night}}}");
        let _ = write!(dark, "svg [stroke=\"{day}\"]{{stroke:{night}}}");
    }
    format!("{light}\n@media (prefers-color-scheme:dark){{{dark}}}\n")
}

/// Hexadecimal in upper case, as in the drawing library.
pub(crate) fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
