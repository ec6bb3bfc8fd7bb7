//! Reports as text: for the terminal, as Markdown, and as one HTML file.

mod figures;
mod html;
mod markdown;
pub(super) mod number;
mod palette;
mod plot;
mod scale;
mod terminal;

pub use html::html;
pub use markdown::markdown;
pub use terminal::terminal;
