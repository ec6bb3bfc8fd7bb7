//! A directory that was made again, as it is saved and reported.

use super::compare::Compared;
use crate::jobs::kit::outcome::{page, table, text};
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A directory compared with the same made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reproduced {
    /// The directory.
    pub directory: PathBuf,
    /// The one that was made.
    pub output: PathBuf,
    /// Files with the same bytes.
    pub same: usize,
    /// Finished pieces that were found in the user's store.
    pub reused: u64,
    /// Every file.
    pub files: BTreeMap<String, Compared>,
}

impl Reproduced {
    /// How many files are the same.
    pub(super) fn line(&self) -> String {
        let (same, count, directory) = (self.same, self.files.len(), self.directory.display());
        format!("{same} of {count} files have the same bytes as in {directory}")
    }
}

impl Report for Reproduced {
    const KIND: &'static str = "reproduce";

    fn document(&self) -> Document {
        let pieces = match self.reused {
            0 => "everything was computed again".to_owned(),
            count => format!("{count} finished pieces are of the store, not computed again"),
        };
        let mut blocks = vec![text([self.line(), pieces])];
        let others = self.files.iter().filter(|(_, how)| **how != Compared::Same);
        let rows: Vec<_> =
            others.map(|(path, how)| vec![path.clone(), how.name().to_owned()]).collect();
        if !rows.is_empty() {
            blocks.push(table(&["file", "compared"], rows));
        }
        page(blocks)
    }
}
