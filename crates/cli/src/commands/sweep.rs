//! `linwright sweep`: evaluates every cut of a grid on a task.

use super::cuts::component_store;
use super::run::write_pages;
use super::tasks::{Division, Parts, check_tasks};
use super::{plain, print, print_json, table};
use crate::args::Shared;
use crate::build::provenance_of;
use crate::console::Console;
use crate::face::{Verb, command};
use crate::failure::{Failure, Kind};
use crate::source::{OpenModel, open_model};
use linwright::compress::intervention::ComponentStore;
use linwright::compress::intervention::report::{
    cell_name, ranking, sweep_document, test_table, verdict,
};
use linwright::compress::intervention::sweep::{Grid, Swept, Work, places, sweep};
use linwright::compress::sweep_recipe::{SweepRecipe, SweepRun};
use linwright::evaluate::{RunOptions, TaskResult};
use linwright::jobs::{self, CutOptions, EvaluationOptions, SlotOptions, Sweep};
use linwright::report::Document;
use linwright::run::atomic::write_atomic;
use linwright::run::{Monitor, RunDirectory, shown};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The opened model and task of a sweep or composition.
pub(super) struct Opened {
    pub(super) model: OpenModel,
    pub(super) parts: Parts,
}

impl Opened {
    pub(super) fn new(
        model: &str,
        asked: &EvaluationOptions,
        shuffle: Option<u64>,
        console: &mut Console,
    ) -> Result<Self, Failure> {
        asked.check_text_field(&[])?;
        // Errors in tasks are reported before a model is loaded.
        let parts = Parts::open(asked, Division { shuffle }, console)?;
        let model = open_model(model, console)?;
        check_tasks([parts.validation.as_ref()], &model)?;
        Ok(Self { model, parts })
    }

    /// The inputs of a sweep or composition.
    pub(super) fn work<'a>(
        &'a self,
        asked: &EvaluationOptions,
        metric: Option<&'a str>,
        store: &'a ComponentStore,
    ) -> Result<Work<'a>, Failure> {
        Ok(Work {
            model: &self.model.loaded.decoder,
            tokenizer: self.model.tokenizer()?,
            model_hash: &self.model.loaded.hash,
            validation: self.parts.validation.as_ref(),
            test: self.parts.test.as_deref(),
            metric,
            store,
            run: RunOptions { max_batch_tokens: asked.batch_size.tokens(), longest: None },
            max_length: asked.max_length,
            sentence: self.model.sentence(),
            shares: true,
        })
    }
}

/// The grid that options describe.
pub(super) fn grid(slots: &SlotOptions, cut: &CutOptions) -> Result<Grid, Failure> {
    if slots.lname.is_empty() {
        return Err(Failure::usage("no weights are selected")
            .hint("give --lname NAME,..., such as fc_in,fc_out"));
    }
    let sizes = cut.sizes()?;
    Ok(Grid {
        lnames: slots.lname.clone(),
        layers: slots.layers()?,
        together: slots.all_at_once(),
        method: cut.method(),
        seed: cut.seed,
        sizes,
    })
}

pub(crate) type SweepArgs = Verb<Sweep>;

pub(crate) fn run(job: &Sweep, shared: &Shared) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let done = swept(job, &mut console)?;
    if shared.json {
        return print_json(&done.json);
    }
    let report = done.output.join("report.html");
    print(&format!("{}\n\nreport: {}", done.terminal, report.display()))
}

/// A finished sweep with its files.
struct Done {
    json: Value,
    terminal: String,
    output: PathBuf,
    swept: Swept,
}

fn swept(job: &Sweep, console: &mut Console) -> Result<Done, Failure> {
    let grid = grid(&job.slots, &job.cut)?;
    let opened = Opened::new(&job.model, &job.evaluation, job.shuffle, console)?;
    let store = component_store(&job.cut, console)?;
    places(&grid, &opened.model.loaded.decoder)?;
    let work = Work {
        shares: !job.no_share,
        ..opened.work(&job.evaluation, job.metric.as_deref(), &store)?
    };
    let fingerprint = work.fingerprint(&grid);
    let own = || Path::new("runs").join(format!("sweep-{}", &fingerprint.0[..8]));
    let output = job.output.clone().unwrap_or_else(own);
    let directory = RunDirectory::open(&output, &fingerprint)?;
    let swept = sweep(&work, &grid, &directory, console);
    let swept = swept.map_err(|error| left_nothing(&directory, error.into()))?;
    let times = console.finish();
    let json = result(&opened, &swept, &times)?;
    let document = sweep_document(&job.title, &opened.model.place.name, &swept);
    write(&output, &swept, &document, &json)?;
    let terminal = shown_in_terminal(&swept);
    Ok(Done { json, terminal, output, swept })
}

/// Writes `cells.jsonl`, `report.md`, `report.html` and `result.json`.
fn write(
    directory: &Path,
    swept: &Swept,
    document: &Document,
    json: &Value,
) -> Result<(), Failure> {
    let text = |path: &str, text: String| write_atomic(&directory.join(path), text.as_bytes());
    let mut lines = String::new();
    for cell in &swept.cells {
        let line = serde_json::to_string(cell)
            .map_err(|error| Failure::general(format!("cannot write a cell as JSON: {error}")))?;
        lines += &(line + "\n");
    }
    text("cells.jsonl", lines)?;
    write_pages(document, directory)?;
    // Last, so that it is there when all is.
    Ok(text("result.json", format!("{json:#}\n"))?)
}

fn shown_in_terminal(swept: &Swept) -> String {
    let test = swept.test.as_ref();
    let test = test.map_or_else(String::new, |test| format!("\n\n{}", plain(&test_table(test))));
    format!("{}\n\n{}{test}", plain(&ranking(swept)), verdict(swept))
}

/// Removes what a run began that can never be finished.
pub(super) fn left_nothing(directory: &RunDirectory, failure: Failure) -> Failure {
    if failure.is_for_good() && directory.is_new() {
        // The original failure matters more than this one.
        drop(std::fs::remove_dir_all(directory.path()));
    }
    failure
}

/// The sweeps of a recipe.
pub(super) fn jobs(name: &str, recipe: &SweepRecipe) -> Result<Vec<Sweep>, Failure> {
    let job = |run: &SweepRun| {
        jobs::read(&recipe.job(run)).map_err(|error| {
            let failure =
                Failure::new(Kind::Recipe, format!("{name}, \"{}\": {error}", shown(&run.title)));
            error.hint.into_iter().fold(failure, Failure::hint)
        })
    };
    recipe.runs.iter().map(job).collect()
}

/// Runs every sweep of a recipe, each in its own folder.
pub(super) fn run_recipe(
    name: &str,
    recipe: &SweepRecipe,
    output: Option<&Path>,
    dry_run: bool,
    shared: &Shared,
) -> Result<(), Failure> {
    let folder = output.map_or_else(|| Path::new("runs").join(name), Path::to_owned);
    let mut all = jobs(name, recipe)?;
    if dry_run {
        let lines: Vec<String> = all.iter().map(command).collect();
        return print(&lines.join("\n"));
    }
    for (run, job) in recipe.runs.iter().zip(&mut all) {
        job.output = Some(folder.join(slug(&run.title)));
    }
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for (run, job) in recipe.runs.iter().zip(&all) {
        let mut console = Console::new(shared);
        console.step(&format!("{}: {}", recipe.title, run.title));
        let done = swept(job, &mut console)?;
        rows.push(row(run, &done.swept));
        results.push(json!({"title": run.title, "published": run.published, "result": done.json}));
    }
    let header = ["run", "best cell", "metric", "dense", "edited", "difference, 95 %", "published"];
    let text = table(&header, &rows);
    write_atomic(&folder.join("table.txt"), format!("{text}\n").as_bytes())?;
    if shared.json {
        return print_json(&json!({"title": recipe.title, "model": recipe.model, "runs": results}));
    }
    print(&format!("{text}\n\nreports: {}", folder.display()))
}

/// The folder of a run.
fn slug(title: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    title.chars().map(letter).collect()
}

/// A table row with the best cell of a run, its evaluation, and the published result.
fn row(run: &SweepRun, swept: &Swept) -> Vec<String> {
    let best = &swept.cells[swept.best];
    let metric = &swept.objective.metric;
    let (dense, edited, interval) = match &swept.test {
        Some(test) => {
            let value = |result: &TaskResult| result.metric(metric).map_or(f64::NAN, |m| m.value);
            let found = test.comparisons.iter().find(|c| c.metric == *metric);
            let interval = found.map_or_else(String::new, |found| found.in_one_cell());
            (value(&test.dense), value(&test.best), interval)
        }
        None => {
            let dense = swept.dense.metric(metric).map_or(f64::NAN, |m| m.value);
            let edited = best.score.metrics.iter().find(|m| m.name == *metric);
            (dense, edited.map_or(f64::NAN, |m| m.value), String::new())
        }
    };
    let published =
        run.published.map_or_else(String::new, |p| format!("{} -> {} %", p.dense, p.edited));
    let name = match swept.is_better {
        true => cell_name(best),
        false => format!("none significant, highest: {}", cell_name(best)),
    };
    vec![
        run.title.clone(),
        name,
        metric.clone(),
        format!("{dense:.4}"),
        format!("{edited:.4}"),
        interval,
        published,
    ]
}

fn result(opened: &Opened, swept: &Swept, times: &[(String, f64)]) -> Result<Value, Failure> {
    let sweep = serde_json::to_value(swept)
        .map_err(|error| Failure::general(format!("cannot write the sweep as JSON: {error}")))?;
    let results: Vec<_> = std::iter::once(&swept.dense)
        .chain(swept.test.iter().map(|test| &test.dense))
        .cloned()
        .collect();
    let mut provenance = provenance_of("linwright sweep", &opened.model.loaded, &results);
    provenance.seeds = vec![swept.grid.seed];
    let seconds: f64 = times.iter().map(|(_, seconds)| seconds).sum();
    Ok(json!({
        "model": opened.model.place.name, "sweep": sweep, "provenance": provenance, "seconds": seconds,
    }))
}
