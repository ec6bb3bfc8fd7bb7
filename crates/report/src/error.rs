//! Errors of saved reports and of rendering.

/// A report that cannot be read, written or rendered.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not the JSON of a report.
    #[error("not a saved report: {0}")]
    NotAReport(#[from] serde_json::Error),
    /// JSON without a required part.
    #[error("not {what}: it has no {part}")]
    Missing {
        /// The expected document: `the result of an evaluation`.
        what: &'static str,
        /// The missing part.
        part: &'static str,
    },
    /// A report of another schema version.
    #[error(
        "the report has layout {found}, this program reads layout {expected}; run the recipe again"
    )]
    Schema {
        /// Version in the file.
        found: u32,
        /// Supported version.
        expected: u32,
    },
    /// A result of a kind that no command has.
    #[error("no result has the kind {found}; {nearest}")]
    Kind {
        /// Kind in the file.
        found: String,
        /// The nearest kinds.
        nearest: String,
    },
    /// A result whose fields have another version.
    #[error(
        "the result of kind {kind} has version {found}, this program reads version {expected}; run \
         the command again"
    )]
    Version {
        /// Kind of the result.
        kind: &'static str,
        /// Version in the file.
        found: String,
        /// Supported version.
        expected: u32,
    },
    /// A plot could not be drawn.
    #[error("plot {plot}: {reason}")]
    Plot {
        /// Title of the plot.
        plot: String,
        /// The error of the drawing library.
        reason: String,
    },
}
