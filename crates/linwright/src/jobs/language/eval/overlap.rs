//! `--overlap-with`: documents of tasks that share 13-grams with the calibration text of a model.

use super::Eval;
use crate::jobs::kit::{Failure, Session};
use linwright_data::{CalibrationText, Corpus, Overlap};
use linwright_evaluate::{Task, overlap};
use linwright_run::{DataSource, Monitor};

/// The overlap of each task, and the files of the text.
pub(super) fn find_overlap(
    job: &Eval,
    tasks: &[Box<dyn Task>],
    session: &mut Session<'_>,
) -> Result<(Vec<Overlap>, Vec<DataSource>), Failure> {
    if job.overlap_with.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    session.step("comparing tasks with the calibration text");
    let field = job.evaluation.text_field.as_deref();
    let corpora: Result<Vec<Corpus>, _> =
        job.overlap_with.iter().map(|path| Corpus::open(path, field)).collect();
    let calibration = CalibrationText::new(&corpora?);
    let found: Vec<Overlap> =
        tasks.iter().map(|task| overlap(task.as_ref(), &calibration)).collect();
    for overlap in found.iter().filter(|overlap| overlap.overlapping > 0) {
        let Overlap { task, words, documents, overlapping, first } = overlap;
        let example = first.first().map_or_else(String::new, |one| {
            format!("; the first is {}, in {}: {:?}", one.document, one.calibration, one.text)
        });
        session.note(&format!(
            "warning: {task}: {overlapping} of {documents} documents share {words} consecutive words, or \
            all of theirs, with the text of --overlap-with, so its scores may be too good{example}"
        ));
    }
    let source = |(path, sha256): &(String, String)| DataSource {
        purpose: "calibration, for overlap".into(),
        path: path.clone(),
        sha256: sha256.clone(),
    };
    let sources = calibration.sources().iter().map(source).collect();
    Ok((found, sources))
}
