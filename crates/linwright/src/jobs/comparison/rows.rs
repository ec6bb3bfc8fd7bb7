//! Rows of a comparison: a candidate, and what a row has in addition to it.

use crate::jobs::kit::terms::{Catalogue, Entry, Term};
use crate::jobs::kit::{JobError, SizeText, schema};
use linwright_compare::{Options, Row, Way};
use linwright_compress::Size;
use linwright_run::shown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Keys of every row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct RowKeys {
    /// Name of the row in the report [default: the name of the method, with its own size].
    label: Option<String>,
    /// Size of this row alone, in place of --keep: `keep=0.8`, `rank=4`, `rho=0.5`, `energy=0.9`.
    #[schemars(with = "Option<String>")]
    size: Option<SizeText>,
}

/// Key of the label, and of the size.
const LABEL: &str = "label";
const SIZE: &str = "size";

/// An entry with the keys of every row.
pub(in crate::jobs) fn with_row_keys(entry: Entry) -> Entry {
    entry.with_keys(&schema::<RowKeys>(), &[])
}

/// The words that tell the row of a term from the others.
pub(super) fn identity(term: &Term) -> [String; 3] {
    let given = |key: &str| {
        let own = term.given.iter().find(|(name, _)| name == key);
        own.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
    };
    match given(LABEL) {
        label if label.is_empty() => [term.name.to_owned(), label, given(SIZE)],
        label => [String::new(), label, String::new()],
    }
}

/// The row of a term, with the candidate that `make` makes of its name and of the options that
/// are given.
///
/// # Errors
/// [`JobError`] for what a row cannot be.
pub(in crate::jobs) fn row_of<W: Way>(
    catalogue: &Catalogue,
    term: &Term,
    make: impl FnOnce(&str, Option<Options>) -> Result<W, String>,
) -> Result<Row<W>, JobError> {
    let wrong = |reason: String| JobError::new(format!("--methods {term}: {reason}"));
    let mut options = catalogue.options(term);
    let label = options.shift_remove(LABEL).and_then(|label| label.as_str().map(str::to_owned));
    let size = match options.shift_remove(SIZE) {
        Some(Value::String(text)) => Some(SizeText::read(&text).map_err(wrong)?.0),
        Some(_) | None => None,
    };
    let has_options = term.given.iter().any(|(key, _)| key != LABEL && key != SIZE);
    let candidate = make(term.name, has_options.then_some(options)).map_err(wrong)?;
    Ok(Row { candidate, label, size })
}

/// Checks that rows have names of their own, and sizes that they can have; without shares, each
/// has a size or a standard one.
///
/// # Errors
/// [`JobError`] naming the row.
pub(in crate::jobs) fn check_rows<W: Way>(
    rows: &[Row<W>],
    keeps: &[f64],
    check: impl Fn(&W, Option<Size>) -> Result<(), String>,
) -> Result<(), JobError> {
    let names: Vec<String> = rows.iter().map(Row::name).collect();
    if let Some(at) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        let name = shown(&names[at]);
        return Err(JobError::new(format!("--methods: two rows are called {name}"))
            .hint("give one of them another name: NAME:label=TEXT"));
    }
    for (row, name) in rows.iter().zip(&names) {
        let is_shared = row.size.is_none() && row.candidate.has_sizes() && !keeps.is_empty();
        if !is_shared {
            let wrong = |reason| JobError::new(format!("--methods: {}: {reason}", shown(name)));
            check(&row.candidate, row.size).map_err(wrong)?;
        }
    }
    Ok(())
}

/// Checks names of rows with which others are compared.
///
/// # Errors
/// [`JobError`] for a name without a row, and for one twice.
pub(in crate::jobs) fn check_against(against: &[String], lines: &[String]) -> Result<(), JobError> {
    for (at, name) in against.iter().enumerate() {
        if !lines.contains(name) {
            let message = format!("--against {}: no row has this name", shown(name));
            return Err(JobError::new(message).hint(format!("rows are {}", lines.join(", "))));
        }
        if against[..at].contains(name) {
            return Err(JobError::new(format!("--against names {} twice", shown(name))));
        }
    }
    Ok(())
}
