//! Sweep recipes: several sweeps of one model, and a table of their best cells.

use super::list::{Entry, Places};
use crate::jobs::kit::outcome::{table, text};
use crate::jobs::kit::{AnyJob, Failure, FailureKind, Job, Outcome, Session, Verb, command, read};
use crate::jobs::language::sweep::Sweep;
use crate::jobs::language::sweep::run::{Finished, Swept, swept};
use linwright_evaluate::TaskResult;
use linwright_lm::cuts::report::cell_name;
use linwright_lm::cuts::sweep::Swept as SweepResult;
use linwright_report::{Document, number, terminal};
use linwright_run::atomic::{self, Replace, check_file};
use linwright_run::{Monitor, input, shown, state};
use linwright_study::sweep_recipe::{SweepRecipe, SweepRun};
use serde_json::json;
use std::path::Path;

/// Columns of the table.
const HEADER: [&str; 7] =
    ["run", "best cell", "metric", "dense", "edited", "difference, 95 %", "published"];

/// The sweeps of a recipe, each with its outputs below a folder.
pub(super) fn jobs(
    name: &str,
    recipe: &SweepRecipe,
    folder: &Path,
) -> Result<Vec<(Sweep, Places)>, Failure> {
    let verb = Verb::named(Sweep::VERB).expect("sweep is a verb");
    let job = |(run, own): (&SweepRun, String)| {
        let entry = Entry { name: own, verb, options: recipe.job(run) };
        let mut options = entry.options.clone();
        let places = entry.place(&mut options, folder)?;
        let sweep = read(&options).map_err(|error| {
            let failure = Failure::new(
                FailureKind::Recipe,
                format!("{name}, \"{}\": {error}", shown(&run.title)),
            );
            error.hint.into_iter().fold(failure, Failure::hint)
        })?;
        Ok((sweep, places))
    };
    let titles = recipe.runs.iter().map(|run| run.title.as_str());
    recipe.runs.iter().zip(folders(titles)).map(job).collect()
}

/// Runs every sweep of a recipe in a separate folder.
pub(super) fn run(
    name: &str,
    recipe: &SweepRecipe,
    output: Option<&Path>,
    dry_run: bool,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let folder = output.map_or_else(|| Path::new("runs").join(name), Path::to_owned);
    let all = jobs(name, recipe, &folder)?;
    if !session.shard().is_whole() {
        return Err(Failure::usage("a recipe with `runs` cannot be sharded")
            .hint("write its sweeps as `jobs`, or give --shard to `linwright sweep`"));
    }
    if dry_run {
        let alone = |job: &Sweep| Sweep { output: None, ..job.clone() };
        let lines: Vec<String> =
            all.iter().map(|(job, _)| command(&alone(job) as &dyn AnyJob)).collect();
        return Ok(Outcome::new(json!({ "commands": lines.clone() }), vec![text(lines)]));
    }
    let (written, is_ours) = (folder.join("table.txt"), is_table as fn(&Path) -> bool);
    if state::exists(&written) {
        check_file(&written, true, is_ours)?;
    }
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for (run, (job, places)) in recipe.runs.iter().zip(&all) {
        places.check_links(&run.title, &folder)?;
        session.step(&format!("{}: {}", recipe.title, run.title));
        let Finished { result, .. } = match swept(job, session)? {
            Swept::Whole(finished) => *finished,
            Swept::Part(outcome) => return Ok(*outcome),
        };
        rows.push(row(run, &result.sweep));
        results.push(json!({"title": run.title, "published": run.published, "result": result}));
    }
    let table = table(&HEADER, rows);
    let lines = terminal::blocks(std::slice::from_ref(&table));
    let lines = format!("{}\n", lines.trim());
    atomic::write(&written, lines.as_bytes(), Replace::Ours(is_ours))?;
    let result = json!({"title": recipe.title, "model": recipe.model, "runs": results});
    let blocks = vec![table, text([format!("reports: {}", folder.display())])];
    Ok(Outcome {
        report: Document { title: recipe.title.clone(), blocks, ..Document::default() },
        ..Outcome::new(result, Vec::new())
    })
}

/// Whether a file is a table of this recipe, which may be overwritten.
fn is_table(path: &Path) -> bool {
    let text = state::read_text(path, input::MAX_SETTINGS_BYTES).unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    HEADER.iter().all(|column| first.contains(column))
}

/// The folders of runs, by their titles. Titles may differ in characters that folder names cannot
/// have.
fn folders<'a>(titles: impl Iterator<Item = &'a str>) -> Vec<String> {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mut folders: Vec<String> = Vec::new();
    for title in titles {
        let slug: String = title.chars().map(letter).collect();
        let slug = if slug.is_empty() { "run".to_owned() } else { slug };
        let numbered = (2..).map(|number| format!("{slug}-{number}"));
        let mut names = std::iter::once(slug.clone()).chain(numbered);
        folders.extend(names.find(|name| !folders.contains(name)));
    }
    folders
}

/// A table row with the best cell of a run, its evaluation, and the published result.
fn row(run: &SweepRun, swept: &SweepResult) -> Vec<String> {
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
        number::metric(dense),
        number::metric(edited),
        interval,
        published,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_a_folder_of_its_own() {
        let titles = ["MLP, layer 1", "mlp  layer 1", "mlp--layer-1", "", "-", ""];
        let expected = ["mlp--layer-1", "mlp--layer-1-2", "mlp--layer-1-3", "run", "-", "run-2"];
        assert_eq!(folders(titles.into_iter()), expected);
    }
}
