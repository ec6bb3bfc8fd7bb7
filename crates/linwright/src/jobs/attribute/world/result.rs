//! A world of documents and questions, as it is saved and reported.

use crate::jobs::kit::outcome::{page, table, text};
use linwright_report::number::grouped;
use linwright_report::{Document, Report};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Documents and questions that were written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorldWritten {
    /// Their directory.
    pub output: String,
    /// Documents.
    pub documents: usize,
    /// Questions.
    pub questions: usize,
    /// Questions by band of frequency.
    pub questions_of_a_band: BTreeMap<String, usize>,
    /// Documents that state the answer of a question, on average, by band.
    pub documents_of_a_question: BTreeMap<String, f64>,
}

impl Report for WorldWritten {
    const KIND: &'static str = "attribute-world";

    fn document(&self) -> Document {
        let (documents, questions) = (grouped(self.documents as u64), self.questions);
        let line = format!("{documents} documents, {questions} questions");
        let row = |(band, stating): (&String, &f64)| {
            let questions = self.questions_of_a_band.get(band).copied().unwrap_or(0);
            vec![band.clone(), questions.to_string(), format!("{stating:.1}")]
        };
        let rows = self.documents_of_a_question.iter().map(row).collect();
        let heads = ["band", "questions", "documents that state the answer"];
        page(vec![text([line]), table(&heads, rows)])
    }
}
