//! `--overlap-with`: what the tasks have in common with the text that a model was fitted to.

use super::EvalArgs;
use crate::commands::tasks::Measured;
use crate::console::Console;
use crate::failure::Failure;
use linwright::compress::Monitor;
use linwright::measure::data::{CalibrationText, Corpus, Overlap};
use linwright::measure::evaluate::overlap;
use linwright::measure::report::DataSource;

/// The overlap of each task that asks, and the files of the text.
pub(super) fn look(
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
    let mut found = Vec::new();
    for task in tasks {
        match task {
            Measured::Asked(task) => found.push(overlap(task.as_ref(), &calibration)),
            Measured::Pairs(pairs) => {
                return Err(Failure::usage(format!(
                    "--overlap-with looks at what is asked, and {} compares sentences",
                    pairs.id()
                )));
            }
        }
    }
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
