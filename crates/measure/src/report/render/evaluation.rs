//! Evaluations as text, as Markdown and as one HTML file.

use super::html::{CLOSING, opening, plain_table, section, wrapping};
use super::markdown;
use super::terminal::{printable, write_table};
use crate::report::EvaluationView;
use std::fmt::Write;

fn title(view: &EvaluationView) -> String {
    format!("Evaluation of {}", view.model)
}

/// Tables with aligned columns; control characters are left out.
#[must_use]
pub fn evaluation_terminal(view: &EvaluationView) -> String {
    let mut text = format!("{}\n", printable(&title(view)));
    for table in &view.tables {
        let _ = write!(text, "\n{}\n", printable(&table.caption));
        write_table(&mut text, table);
    }
    for note in &view.notes {
        let _ = writeln!(text, "\nnote: {}", printable(note));
    }
    text
}

/// The same as GitHub-flavoured Markdown.
#[must_use]
pub fn evaluation_markdown(view: &EvaluationView) -> String {
    let mut text = format!("# {}\n", markdown::escape(&title(view)));
    for table in &view.tables {
        markdown::write_table(&mut text, table);
    }
    if !view.notes.is_empty() {
        text.push_str("\n## Notes\n\n");
    }
    for note in &view.notes {
        let _ = writeln!(text, "- {}", markdown::escape(note));
    }
    text
}

/// The same as one HTML file that loads nothing from elsewhere.
#[must_use]
pub fn evaluation_html(view: &EvaluationView) -> String {
    let mut page = opening(&title(view));
    let _ = write!(
        page,
        "<header>\n<p class=\"kicker\">Linwright evaluation</p>\n<h1>{}</h1>\n</header>\n",
        wrapping(&view.model)
    );
    for table in &view.tables {
        section(&mut page, &table.caption, |page| plain_table(page, table));
    }
    if !view.notes.is_empty() {
        section(&mut page, "Notes", |page| {
            page.push_str("<ul>\n");
            for note in &view.notes {
                let _ = writeln!(page, "<li>{}</li>", wrapping(note));
            }
            page.push_str("</ul>\n");
        });
    }
    page.push_str(CLOSING);
    page
}
