//! Judges every cut of a grid, layer by layer, and writes a page with a heat map.
//! `cargo run --example 05_sweep -- MODEL_DIR QUESTIONS.jsonl RUN_DIR`
#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use linwright::data::QuestionSet;
use linwright::evaluate::{Bos, MultipleChoice, RunOptions};
use linwright::lm::cuts::grid::Grid;
use linwright::lm::cuts::report::{sweep_document, verdict};
use linwright::lm::cuts::sweep::{Work, sweep};
use linwright::model::checkpoint::load;
use linwright::report::html;
use linwright::run::state;
use linwright::run::{RunDirectory, Silent, Store};
use serde_json::json;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, questions, run] = args.as_slice() else {
        return Err("expected a model directory, a file of questions and a run directory".into());
    };
    println!("{}", judge(Path::new(model), Path::new(questions), Path::new(run))?);
    Ok(())
}

/// The best cell of the grid, in words; `report.html` in the run directory shows all.
pub(crate) fn judge(model: &Path, questions: &Path, run: &Path) -> Result<String, Box<dyn Error>> {
    let loaded = load(model)?;
    let task = MultipleChoice::new(QuestionSet::open(questions)?, Bos::Auto);
    let work = Work {
        model: &loaded.decoder,
        tokenizer: loaded.tokenizer.as_ref().ok_or("the model has no tokenizer")?,
        model_hash: &loaded.hash,
        validation: &task,
        test: None,
        metric: None,
        store: &Store::none(),
        run: RunOptions::default(),
        max_length: None,
        sentence: None,
        shares: true,
    };
    let grid: Grid = serde_json::from_value(json!({
        "lnames": ["fc_in", "fc_out"],
        "sizes": [{"rho": 0.5}, {"rho": 0.1}],
        "method": {"intervention": "rank-reduction"},
    }))?;
    // Finished cells are kept here: the same call continues a sweep that was stopped.
    let directory = RunDirectory::open(run, &work.fingerprint(&grid))?;
    let swept = sweep(&work, &grid, &directory, &mut Silent)?.complete()?;
    let page = html::render(&sweep_document("Which layers need their rank?", "model", &swept))?;
    state::write(&run.join("report.html"), page.as_bytes())?;
    Ok(verdict(&swept))
}
