//! `--overlap-with`: whether what is asked was in the text that a model was fitted to.

use super::EvalArgs;
use super::tasks::Measured;
use crate::console::Console;
use crate::failure::Failure;
use linwright::compress::Monitor;
use linwright::measure::data::{CalibrationText, Corpus, Overlap};
use linwright::measure::evaluate::{TaskResult, overlap};
use linwright::measure::report::DataSource;

/// What the tasks have in common with the text that the model was fitted to, and the files of it.
pub(super) fn find(
    args: &EvalArgs,
    tasks: &[Measured],
    console: &mut Console,
) -> Result<(Vec<Overlap>, Vec<DataSource>), Failure> {
    if args.overlap_with.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    console.stage("looking for overlap");
    let corpora: Result<Vec<Corpus>, _> =
        args.overlap_with.iter().map(|path| Corpus::open(path)).collect();
    let calibration = CalibrationText::new(&corpora?);
    let asked = tasks.iter().filter_map(|task| match task {
        Measured::Asked(task) => Some(overlap(task.as_ref(), &calibration)),
        Measured::Pairs(_) => None,
    });
    let found: Vec<Overlap> = asked.collect();
    for overlap in found.iter().filter(|overlap| overlap.overlapping > 0) {
        let Overlap { task, words, documents, overlapping, first } = overlap;
        let example = first.first().map_or_else(String::new, |one| {
            format!("; the first is {}, in {}: {:?}", one.document, one.calibration, one.text)
        });
        console.note(&format!(
            "warning: {task}: {overlapping} of {documents} documents have {words} words in a row, or all \
             of theirs, in common with --overlap-with, so that its figures may be too good{example}"
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

/// What a reader must know of the data.
pub(super) fn tell_notes(results: &[TaskResult], console: &Console) {
    for result in results {
        for note in &result.notes {
            console.note(&format!("note: {}: {note}", result.task));
        }
    }
}
