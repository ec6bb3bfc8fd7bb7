//! Documents of an evaluation that share words with calibration text.

use super::record::SharedWords;
use super::{Calibration, Source};
use crate::jobs::kit::{Failure, Session};
use linwright_data::CalibrationText;
use linwright_evaluate::{Task, leave_out_overlap, overlap};
use linwright_run::Monitor;

impl Source<'_> {
    /// Removes documents of tasks that share words with this text; gives notes for the report.
    ///
    /// # Errors
    /// [`Failure`] if a task has no documents left.
    pub(crate) fn leave_out(&self, tasks: &mut [Box<dyn Task>]) -> Result<Vec<String>, Failure> {
        let mut text = CalibrationText::default();
        for document in &self.documents {
            text.add(document.place.clone(), &document.text);
        }
        let mut notes = Vec::new();
        for task in tasks {
            let found = leave_out_overlap(task.as_mut(), &text)?;
            if found.overlapping > 0 {
                notes.push(format!(
                    "{} of {} documents of task {} are scored; the other {} are left out, since \
                     they have {} words in a row, or all of theirs, in common with the calibration \
                     text",
                    found.documents - found.overlapping,
                    found.documents,
                    found.task,
                    found.overlapping,
                    found.words
                ));
            }
        }
        Ok(notes)
    }
}

impl Calibration {
    /// Compares the documents of tasks with those of this text, and tells and records what they
    /// share; `effect` says what it does to the result. Samples are compared
    /// with nothing: they are no documents.
    pub(crate) fn compare<'t>(
        &mut self,
        tasks: impl IntoIterator<Item = &'t dyn Task>,
        effect: &str,
        session: &mut Session<'_>,
    ) {
        let mut tasks = tasks.into_iter().peekable();
        if self.documents.is_empty() || tasks.peek().is_none() {
            return;
        }
        session.step("comparing the documents with the calibration text");
        let mut text = CalibrationText::default();
        for document in &self.documents {
            text.add(document.place.clone(), &document.text);
        }
        for task in tasks {
            let found = overlap(task, &text);
            if found.overlapping == 0 {
                continue;
            }
            let note = format!(
                "{}: {} of {} documents share {} consecutive words, or all of theirs, with the \
                 calibration text, so {effect}",
                found.task, found.overlapping, found.documents, found.words
            );
            session.note(&format!("warning: {note}"));
            self.notes.push(note);
            self.record.overlap.push(SharedWords {
                task: found.task,
                documents: found.documents,
                overlapping: found.overlapping,
                words: found.words,
            });
        }
    }
}
