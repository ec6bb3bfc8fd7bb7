//! `linwright run`: a recipe from capture to report.

use super::sweep::left_nothing;
use super::tasks::check_tasks;
use super::{grouped, print, print_json, table};
use crate::args::Shared;
use crate::build::provenance_of;
use crate::console::Console;
use crate::failure::Failure;
use crate::source::{OpenModel, data_file, open_model};
use clap::Args;
use linwright::compress::Rates;
use linwright::compress::recipe::{self, Recipe, RecipeError};
use linwright::compress::report::{LayerError, ModelSummary, Report};
use linwright::compress::study::{self, Findings, Inputs};
use linwright::compress::sweep_recipe::{is_sweep, parse_sweeps};
use linwright::data::Corpus;
use linwright::evaluate::{Task, TaskOptions, TaskResult, open_task};
use linwright::report::{Document, html, markdown, terminal};
use linwright::run::atomic::write_atomic;
use linwright::run::spelling::distance;
use linwright::run::{DataSource, Provenance, RunDirectory, input};
use std::path::{Path, PathBuf};

/// A built-in recipe.
#[derive(Debug)]
pub(crate) struct Preset {
    /// The name that `-r` takes.
    pub(crate) name: &'static str,
    /// One sentence.
    pub(crate) summary: &'static str,
    /// The recipe.
    pub(crate) text: &'static str,
}

/// The built-in recipes.
pub(crate) const PRESETS: &[Preset] = &[
    Preset {
        name: "main-job",
        summary: "rotor, low-rank and block-Hadamard maps on one layer of the built-in model",
        text: include_str!("../../../../recipes/main-job.yaml"),
    },
    Preset {
        name: "rotor-paper-pocket",
        summary: "the rotor paper's comparison on one, two and three layers of the built-in model",
        text: include_str!("../../../../recipes/rotor-paper-pocket.yaml"),
    },
    Preset {
        name: "equal-parameters-pocket",
        summary: "rotor networks and other operators of equal size, on the same layers",
        text: include_str!("../../../../recipes/equal-parameters-pocket.yaml"),
    },
    Preset {
        name: "rotor-paper-stories260k",
        summary: "the rotor paper's comparison on stories260K, whose files you provide",
        text: include_str!("../../../../recipes/rotor-paper-stories260k.yaml"),
    },
    Preset {
        name: "laser-pocket",
        summary: "LASER on the built-in model: rank reduction in each layer, scored on questions; seconds",
        text: include_str!("../../../../recipes/laser-pocket.yaml"),
    },
    Preset {
        name: "laser-pocket-finding",
        summary: "whether LASER and Vendi-LASER help the built-in model, by frequency of the facts",
        text: include_str!("../../../../recipes/laser-pocket-finding.yaml"),
    },
];

/// Run a recipe: capture, fit, evaluate, report. Run the same command again to resume.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A recipe file, or the name of a built-in one (`linwright ls presets`).
    #[arg(short, long)]
    recipe: PathBuf,
    /// Directory of the run [default: runs/ and the recipe's name and fingerprint].
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Use this model instead of the recipe's: a directory, `pocket` or `owner/name[@revision]`.
    #[arg(short, long)]
    model: Option<String>,
    /// Check the recipe against the model, estimate the cost of each row, and stop.
    #[arg(long, alias = "dry_run")]
    dry_run: bool,
}

pub(crate) fn run(args: &RunArgs, shared: &Shared) -> Result<(), Failure> {
    let (name, text) = open_recipe(&args.recipe)?;
    if is_sweep(&text) {
        let mut recipe = parse_sweeps(&args.recipe, &text)?;
        if let Some(model) = &args.model {
            recipe.model.clone_from(model);
        }
        return super::sweep::run_recipe(
            &name,
            &recipe,
            args.output.as_deref(),
            args.dry_run,
            shared,
        );
    }
    let mut recipe = recipe::parse(&args.recipe, &text)?;
    if let Some(model) = &args.model {
        recipe.model.clone_from(model);
    }
    study(&name, &recipe, args.output.as_deref(), args.dry_run, shared)
}

/// Name and text of a built-in recipe or of a file.
fn open_recipe(path: &Path) -> Result<(String, String), Failure> {
    let preset = PRESETS.iter().find(|preset| Path::new(preset.name) == path);
    if let Some(preset) = preset
        && !path.exists()
    {
        return Ok((preset.name.to_owned(), preset.text.to_owned()));
    }
    let name =
        path.file_stem().map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned());
    let text = input::read_text(path, recipe::MAX_BYTES).map_err(|source| {
        let missing = source.kind() == std::io::ErrorKind::NotFound;
        let failure = Failure::from(RecipeError::Io { path: path.to_owned(), source });
        if missing { failure.hint(presets_near(&path.to_string_lossy())) } else { failure }
    })?;
    Ok((name, text))
}

/// The hint for an unknown recipe name.
fn presets_near(name: &str) -> String {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    let near = |known: &&str| distance(name, known) <= 1 + name.chars().count() / 3;
    let asked = names.iter().copied().filter(near).min_by_key(|known| distance(name, known));
    let asked = asked.map_or_else(String::new, |known| format!("did you mean {known}? "));
    format!("{asked}the built-in recipes are {}", names.join(", "))
}

/// Runs a recipe and prints its table. By default the output directory contains the start of the
/// fingerprint: the same run resumes in it, another recipe or model gets its own.
pub(crate) fn study(
    name: &str,
    recipe: &Recipe,
    output: Option<&Path>,
    dry_run: bool,
    shared: &Shared,
) -> Result<(), Failure> {
    let mut console = Console::new(shared);
    let model = open_model(&recipe.model, &mut console)?;
    let OpenModel { loaded, place } = &model;
    // Records name the commit of a hub model.
    let recipe = &Recipe { model: place.name.clone(), ..recipe.clone() };
    study::check(recipe, &loaded.decoder)?;
    let mut tasks = open_tasks(recipe)?;
    check_tasks(tasks.iter().map(AsRef::as_ref), &model)?;
    let (dataset, field) = (&recipe.calibration.dataset, &recipe.calibration.text_field);
    let path = data_file(dataset, "calibration.jsonl")?;
    let calibration = Corpus::open(&path, field.as_deref())?;
    let left_out = study::leave_out_overlap(recipe, &calibration, &mut tasks)?;
    let tokenizer = loaded
        .tokenizer
        .as_ref()
        .ok_or_else(|| Failure::general(format!("{} has no tokenizer.json", recipe.model)))?;
    let inputs = Inputs { model: loaded, tokenizer, calibration: &calibration, tasks: &tasks };
    if dry_run {
        console.finish();
        return show_costs(recipe, &inputs, shared);
    }
    // Before the directory belongs to this recipe: errors in it can still be corrected.
    for &seed in &recipe.seeds {
        study::calibrate(recipe, &inputs, seed)?;
    }
    let notes = [left_out, study::notes(recipe, &inputs)].concat();
    notes.iter().for_each(|note| console.note(&format!("note: {note}")));
    let data = data_hashes(recipe)?;
    let fingerprint = study::fingerprint(recipe, &inputs, &data);
    let own = || Path::new("runs").join(format!("{name}-{}", &fingerprint.0[..8]));
    let output = output.map_or_else(own, Path::to_owned);
    let directory = RunDirectory::open(&output, &fingerprint)?;
    write_atomic(&output.join("recipe.json"), &recipe_json(recipe)?)?;
    let findings = study::run(recipe, &inputs, &directory, &mut console);
    let findings = findings.map_err(|error| left_nothing(&directory, error.into()))?;
    for LayerError { site, method, seed, relative_error: error, .. } in &findings.layer_errors {
        console.trace(|| format!("{site}: {method}, seed {seed}, relative error {error:.3e}"));
    }
    console.finish();
    let report = report(name, recipe, &inputs, notes, findings)?;
    let html = write_report(&report, &output)?;
    if shared.json {
        let json = report.to_json()?;
        return print(&json);
    }
    print(&format!("{}\nreport: {}", terminal::render(&report.document()), html.display()))
}

fn open_tasks(recipe: &Recipe) -> Result<Vec<Box<dyn Task>>, Failure> {
    let eval = &recipe.eval;
    let options = TaskOptions {
        window: eval.window,
        stride: eval.stride.unwrap_or(eval.window),
        bos: eval.bos,
        join: eval.join,
        limit: eval.limit,
        text_field: eval.text_field.clone(),
    };
    let mut tasks =
        vec![open_task("text", &data_file(&eval.text, "stories-test.jsonl")?, &options)?];
    if let Some(questions) = &eval.questions {
        tasks.push(open_task("multiple_choice", &data_file(questions, "facts.jsonl")?, &options)?);
    }
    Ok(tasks)
}

fn data_hashes(recipe: &Recipe) -> Result<Vec<String>, Failure> {
    let mut files = vec![data_file(&recipe.eval.text, "stories-test.jsonl")?];
    if let Some(questions) = &recipe.eval.questions {
        files.push(data_file(questions, "facts.jsonl")?);
    }
    files
        .iter()
        .map(|path| {
            let bytes = input::read(path, linwright::data::MAX_FILE_BYTES)
                .map_err(|error| Failure::io(&path.display().to_string(), &error))?;
            Ok(linwright::run::sha256_hex(&bytes))
        })
        .collect()
}

fn report(
    name: &str,
    recipe: &Recipe,
    inputs: &Inputs<'_>,
    notes: Vec<String>,
    findings: Findings,
) -> Result<Report, Failure> {
    let Findings { baseline, rows, curves, layer_errors } = findings;
    let config = inputs.model.decoder.config();
    Ok(Report {
        schema: linwright::compress::report::SCHEMA,
        title: recipe.title.clone(),
        model: ModelSummary {
            name: recipe.model.clone(),
            family: config.family.model_type.to_owned(),
            parameters: config.parameters(),
            layers: config.layers.len(),
            hidden: config.hidden,
        },
        provenance: provenance(name, recipe, inputs, &baseline)?,
        baseline,
        rows,
        curves,
        layer_errors,
        notes: [inputs.model.notes.clone(), notes].concat(),
    })
}

fn provenance(
    name: &str,
    recipe: &Recipe,
    inputs: &Inputs<'_>,
    baseline: &[TaskResult],
) -> Result<Provenance, Failure> {
    let text = recipe_json(recipe)?;
    let mut provenance = provenance_of(name, inputs.model, baseline);
    provenance.recipe_sha256 = linwright::run::sha256_hex(&text);
    provenance.seeds.clone_from(&recipe.seeds);
    provenance.data.push(DataSource {
        purpose: "calibration".into(),
        path: recipe.calibration.dataset.clone(),
        sha256: inputs.calibration.sha256.clone(),
    });
    Ok(provenance)
}

/// The recipe with all defaults written out; since JSON is YAML, `run -r` accepts it.
fn recipe_json(recipe: &Recipe) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec_pretty(recipe)
        .map_err(|error| Failure::general(format!("cannot write the recipe as JSON: {error}")))
}

/// Writes `report.json`, `report.md` and `report.html`; gives the path of the last.
pub(crate) fn write_report(report: &Report, directory: &Path) -> Result<PathBuf, Failure> {
    write_atomic(&directory.join("report.json"), report.to_json()?.as_bytes())?;
    write_pages(&report.document(), directory)
}

/// Writes `report.md` and `report.html`; gives the path of the latter.
pub(crate) fn write_pages(document: &Document, directory: &Path) -> Result<PathBuf, Failure> {
    write_atomic(&directory.join("report.md"), markdown::render(document).as_bytes())?;
    let page = directory.join("report.html");
    write_atomic(&page, html::render(document)?.as_bytes())?;
    Ok(page)
}

fn show_costs(recipe: &Recipe, inputs: &Inputs<'_>, shared: &Shared) -> Result<(), Failure> {
    let calibration = study::calibrate(recipe, inputs, recipe.seeds[0])?;
    let mut lines = Vec::new();
    let mut costs = Vec::new();
    let mut rates = Rates::default();
    let mut seconds = 0.0;
    for table in &recipe.tables {
        for layers in &table.layers {
            for row in &table.methods {
                let plan = table.plan(row, layers, recipe.seeds[0]);
                let cost =
                    study::estimate(&plan, &inputs.model.decoder, Some(&calibration), &mut rates)?;
                seconds += cost.seconds * recipe.seeds.len() as f64;
                lines.push(vec![
                    table.title.clone(),
                    row.label(),
                    format!("{layers:?}"),
                    grouped(cost.targeted),
                    grouped(cost.targeted_dense),
                    grouped(cost.memory_bytes >> 20),
                    format!("{:.1}", cost.seconds),
                ]);
                costs.push(serde_json::json!({"table": table.title, "method": row.label(), "layers": layers, "estimate": cost}));
            }
        }
    }
    if shared.json {
        return print_json(
            &serde_json::json!({"recipe": recipe, "cells": costs, "seconds": seconds}),
        );
    }
    let header = ["table", "method", "layers", "parameters", "dense", "MB", "seconds"];
    print(&format!(
        "{}\n\nfits of all seeds: about {seconds:.0} s, evaluation apart",
        table(&header, &lines)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linwright::data::CalibrationText;
    use linwright::evaluate::overlap;

    /// Checks a recipe, including the options of its sweeps.
    fn check(path: &Path, text: &str) -> Result<(), String> {
        if !is_sweep(text) {
            return recipe::parse(path, text).map(drop).map_err(|error| error.to_string());
        }
        let recipe = parse_sweeps(path, text).map_err(|error| error.to_string())?;
        crate::commands::sweep::jobs("a recipe", &recipe).map(drop).map_err(|e| format!("{e:?}"))
    }

    #[test]
    fn built_in_recipes_are_valid_and_told_apart() {
        for (index, preset) in PRESETS.iter().enumerate() {
            let read = check(Path::new(preset.name), preset.text);
            assert!(read.is_ok(), "{}: {read:?}", preset.name);
            assert!(PRESETS[..index].iter().all(|other| other.name != preset.name));
        }
    }

    #[test]
    fn what_runs_first_asks_nothing_that_its_calibration_text_holds() {
        for name in ["main-job", "equal-parameters-pocket"] {
            let preset = PRESETS.iter().find(|preset| preset.name == name).unwrap();
            let recipe = recipe::parse(Path::new(name), preset.text).unwrap();
            let path = data_file(&recipe.calibration.dataset, "calibration.jsonl").unwrap();
            let calibration =
                Corpus::open(&path, recipe.calibration.text_field.as_deref()).unwrap();
            let mut tasks = open_tasks(&recipe).unwrap();
            let counts = |tasks: &[Box<dyn Task>]| -> Vec<usize> {
                tasks.iter().map(|task| task.items().len()).collect()
            };
            assert_eq!(counts(&tasks), [400, 1064]);
            let notes = study::leave_out_overlap(&recipe, &calibration, &mut tasks).unwrap();
            assert_eq!(counts(&tasks), [279, 871]);
            assert!(
                notes[0].starts_with("279 of 400 documents of task text are scored"),
                "{notes:?}"
            );
            let text = CalibrationText::new(&[calibration]);
            for task in &tasks {
                assert_eq!(overlap(task.as_ref(), &text).overlapping, 0, "{name}: {}", task.id());
            }
        }
    }

    #[test]
    fn every_recipe_of_the_repository_is_valid() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
        assert!(files.len() > 5, "{files:?}");
        for path in files {
            let read = check(&path, &std::fs::read_to_string(&path).unwrap());
            assert!(read.is_ok(), "{}: {read:?}", path.display());
        }
    }
}
