//! Reports as blocks, and their renderers, independent of content.
//!
//! A [`Document`] is a heading and a list of [`Block`]s: facts, tables, plots, heat maps, pictures,
//! coloured text, notes, provenance. [`terminal`], [`markdown`] and [`html`] render it; `serde`
//! serialises it to JSON. Each domain builds documents from its results in a module `report`.
//! Stand-alone SVG files are [`Sheet`]s.

pub mod conformance;
mod date;
mod document;
mod error;
mod grid;
mod heat_map;
pub mod html;
mod kind;
pub mod markdown;
pub mod number;
mod palette;
pub mod plot;
mod scale;
mod sheet;
mod spread;
mod table;
pub mod terminal;

pub use date::iso_date;
pub use document::{Block, ColouredText, Document, Figure, Image};
pub use error::ReportError;
pub use grid::{Grid, GridCell};
pub use heat_map::HeatMap;
pub use kind::{AnyReport, Report, ReportKind, read_saved};
pub use scale::Scale;
pub use sheet::{Panel, Sheet};
pub use spread::Spread;
pub use table::{Column, Mark, Row, Table};
