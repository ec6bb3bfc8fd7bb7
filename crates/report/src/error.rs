//! What can be wrong with a saved report or its rendering.

/// A report that cannot be read, written or drawn.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not the JSON of a report.
    #[error("not a saved report: {0}")]
    NotAReport(#[from] serde_json::Error),
    /// JSON without a part that such results have.
    #[error("not {what}: it has no {part}")]
    Missing {
        /// What was expected: `the result of an evaluation`.
        what: &'static str,
        /// The part that is missing.
        part: &'static str,
    },
    /// Written by another version.
    #[error(
        "the report has layout {found}, this program reads layout {expected}; run the recipe again"
    )]
    Schema {
        /// Layout in the file.
        found: u32,
        /// Layout understood.
        expected: u32,
    },
    /// A plot could not be drawn.
    #[error("plot {plot}: {reason}")]
    Plot {
        /// Title of the plot.
        plot: String,
        /// What the drawing library said.
        reason: String,
    },
}
