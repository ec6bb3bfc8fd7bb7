//! An import, as it is saved and reported.

use crate::jobs::kit::outcome::{page, text};
use linwright_report::number::grouped;
use linwright_report::{Block, Document, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A checkpoint of another program, converted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ImportResult {
    /// The directory.
    pub(crate) output: String,
    /// Number of parameters.
    pub(crate) parameters: u64,
    /// Shapes of tensors without a configuration of a model, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tensors: Option<BTreeMap<String, Vec<usize>>>,
    /// Notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

impl Report for ImportResult {
    const KIND: &'static str = "import";

    fn document(&self) -> Document {
        let (output, parameters) = (&self.output, grouped(self.parameters));
        let tensors = self.tensors.as_ref().map(|tensors| format!("{} tensors, ", tensors.len()));
        let tensors = tensors.unwrap_or_default();
        let notes = (!self.notes.is_empty()).then(|| Block::Notes(self.notes.clone()));
        let line = text([format!("wrote {output} ({tensors}{parameters} parameters)")]);
        page(notes.into_iter().chain([line]).collect())
    }
}
