//! A converted potential, as it is saved and reported.

use crate::jobs::kit::outcome::{page, text};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};

/// A potential that was written in another format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PotentialConverted {
    /// The file or directory.
    pub output: String,
    /// Number of models.
    pub members: usize,
    /// Number of tensors.
    pub tensors: usize,
}

impl Report for PotentialConverted {
    const KIND: &'static str = "molecule-convert";

    fn document(&self) -> Document {
        let Self { output, members, tensors } = self;
        let models = match members {
            1 => String::new(),
            count => format!("{count} models with "),
        };
        page(vec![text([format!("wrote {models}{tensors} tensors to {output}")])])
    }
}
