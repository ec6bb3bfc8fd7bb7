//! Reports as text: for the terminal, as Markdown, and as one HTML file; figures of benches as SVG.

mod convergence;
mod evaluation;
mod figures;
mod growth;
mod html;
mod inspection;
mod inspection_page;
mod markdown;
pub(super) mod number;
mod palette;
mod plot;
mod scale;
mod sheet;
mod terminal;

pub use convergence::rotor_convergence;
pub use evaluation::{evaluation_html, evaluation_markdown, evaluation_terminal};
pub use growth::operator_growth;
pub use html::html;
pub use inspection::{By, inspection};
pub use inspection_page::inspection_page;
pub use markdown::markdown;
pub use number::bytes;
pub use terminal::terminal;

pub(super) use html::{CLOSE_TABLE, escape as escape_html, open_table, wrapping};
pub(super) use markdown::escape as escape_markdown;

/// A page around some content, in HTML that needs no escapes.
pub(super) fn page(title: &str, content: &str) -> String {
    format!("{}{content}{}", html::opening(title), html::CLOSING)
}
