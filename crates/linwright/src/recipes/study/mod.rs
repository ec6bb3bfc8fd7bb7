//! Studies: tables of methods on sets of layers. Code specific to language models is in `text`, to
//! small networks for images in `images`, to molecular potentials in `molecules`; the rest is
//! shared.

mod images;
mod molecules;
mod saved;
mod text;

use crate::jobs::kit::inputs::InputHash;
use crate::jobs::kit::outcome::{table, text as lines_of};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, shards, to_yaml};
use crate::jobs::language::sweep::left_nothing;
use linwright_compress::Rates;
use linwright_evaluate::Outcome as Part;
use linwright_evaluate::TaskResult;
use linwright_files::MEASURED as MEASURED_FILE;
use linwright_report::number::grouped;
use linwright_run::{DataSource, Monitor, Provenance, RunDirectory, sha256_hex, state};
use linwright_study as study;
use linwright_study::recipe::Recipe;
use linwright_study::report::{LayerError, ModelSummary, Report, SCHEMA};
use linwright_study::{Findings, Trial};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

pub(super) use images::run as run_images;
pub(super) use molecules::run as run_molecules;
pub use saved::{read_report, write_report};
pub(super) use text::run as run_text;

/// A study with its opened model and data.
trait Study {
    /// Calibration of its recipe.
    type Calibration: Serialize;
    /// Evaluation of its recipe.
    type Evaluation: Serialize;
    /// What it runs.
    type Trial: Trial;

    fn recipe(&self) -> &Recipe<Self::Calibration, Self::Evaluation>;

    fn trial(&self) -> &Self::Trial;

    fn model(&self) -> ModelSummary;

    /// Notes on the model, which were reported when it was loaded.
    fn model_notes(&self) -> Vec<String>;

    /// Notes on the data.
    fn notes(&self) -> Vec<String>;

    /// Inputs by path.
    fn reads(&self) -> Vec<PathBuf>;

    /// Digests of other inputs of its results.
    fn digests(&self) -> Vec<String>;

    /// Provenance of model, data and results, without the recipe.
    fn provenance(
        &self,
        name: &str,
        results: &[TaskResult],
        read: &[InputHash],
        session: &Session<'_>,
    ) -> Provenance;
}

/// Runs a study and writes its report. By default the name of the output directory contains the
/// start of the fingerprint: the same run resumes in it, another recipe or model gets a different
/// one.
fn run(
    name: &str,
    opened: &impl Study,
    output: Option<&Path>,
    dry_run: bool,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let (recipe, trial) = (opened.recipe(), opened.trial());
    if dry_run {
        session.finish();
        return costs(recipe, trial);
    }
    // Before the directory is claimed for this recipe, so that errors in the recipe can still be
    // corrected.
    for &seed in &recipe.seeds {
        trial.examples(seed)?;
    }
    let notes = opened.notes();
    notes.iter().for_each(|note| session.note(&format!("note: {note}")));
    let read = session.hashes(&opened.reads())?;
    let hashes = read.iter().map(|read| read.sha256.clone());
    let data: Vec<String> = hashes.chain(opened.digests()).collect();
    let fingerprint = study::fingerprint(recipe, trial, &data);
    let own = || Path::new("runs").join(format!("{name}-{}", &fingerprint.0[..8]));
    let output = output.map_or_else(own, Path::to_owned);
    let model = std::iter::once(PathBuf::from(&recipe.model));
    let inputs: Vec<PathBuf> = opened.reads().into_iter().chain(model).collect();
    outputs::check_place(&output, &inputs, session)?;
    let content: Map<String, Value> = read
        .iter()
        .map(|read| (read.path.display().to_string(), read.sha256.clone().into()))
        .collect();
    let basis = json!({"recipe": recipe, "content": {"model": trial.hash(), "data": content}});
    let directory = RunDirectory::open_of(&output, &fingerprint, &basis)?;
    session.record_data([session.data(), &read].concat());
    shards::mark(session, &output)?;
    let directory = directory.reading_also(shards::sources(session, Path::new(""))?);
    state::write(&output.join("recipe.yaml"), recipe_yaml(recipe)?.as_bytes())?;
    let shard = session.shard();
    let findings = study::run(recipe, trial, &directory, shard, session);
    session.tell_damage(directory.pieces());
    let findings = match findings.map_err(|error| left_nothing(&directory, error.into()))? {
        Part::Complete(findings) => findings,
        Part::Part { known, total } => {
            session.finish();
            return shards::part(session, &output, known, total);
        }
    };
    for LayerError { site, method, seed, relative_error: error, .. } in &findings.layer_errors {
        session.trace(|| format!("{site}: {method}, seed {seed}, relative error {error:.3e}"));
    }
    session.finish();
    let mut provenance = opened.provenance(name, &findings.baseline, &read, session);
    provenance.recipe_sha256 = sha256_hex(recipe_yaml(recipe)?.as_bytes());
    provenance.seeds.clone_from(&recipe.seeds);
    let report = report(opened, notes, findings, provenance);
    finish(name, recipe, &report, (&output, &read), session)
}

fn report(
    opened: &impl Study,
    notes: Vec<String>,
    findings: Findings,
    provenance: Provenance,
) -> Report {
    let Findings { baseline, rows, curves, layer_errors, pairs } = findings;
    Report {
        schema: SCHEMA,
        title: opened.recipe().title.clone(),
        model: opened.model(),
        provenance,
        baseline,
        rows,
        curves,
        layer_errors,
        pairs,
        notes: [opened.model_notes(), notes].concat(),
    }
}

/// Writes the report, and the data needed to reproduce the study.
fn finish(
    name: &str,
    recipe: &impl Serialize,
    report: &Report,
    (output, read): (&Path, &[InputHash]),
    session: &Session<'_>,
) -> Result<Outcome, Failure> {
    let (html, measured) = write_report(report, output)?;
    let files = session.files_beside(&measured)?.into_iter();
    for (name, bytes) in files.filter(|(name, _)| name == MEASURED_FILE) {
        state::write(&output.join(name), &bytes)?;
    }
    let Provenance { recipe_sha256, seeds, .. } = &report.provenance;
    let record = json!({
        "schema": 1, "linwright": session.build().version, "name": name, "recipe": recipe,
        "recipe_sha256": recipe_sha256, "seeds": seeds, "data": read,
    });
    state::write(&output.join("reproduce.json"), format!("{record:#}\n").as_bytes())?;
    let result = saved::plain(report)?;
    let mut document = report.document();
    document.blocks.push(lines_of([format!("report: {}", html.display())]));
    Ok(Outcome { report: document, ..Outcome::new(result, Vec::new()) })
}

/// Files by their purpose with their hashes, as provenance lists them.
fn data_of(all: &[(&str, Vec<PathBuf>)], read: &[InputHash]) -> Vec<DataSource> {
    let sources = all.iter().flat_map(|(purpose, paths)| {
        let own = read.iter().filter(|known| paths.contains(&known.path));
        own.map(|known| DataSource {
            purpose: (*purpose).to_owned(),
            path: known.path.display().to_string(),
            sha256: known.sha256.clone(),
        })
    });
    sources.collect()
}

/// The recipe with all defaults written out.
fn recipe_yaml(recipe: &impl Serialize) -> Result<String, Failure> {
    let value = serde_json::to_value(recipe)
        .map_err(|error| Failure::general(format!("cannot write the recipe as JSON: {error}")))?;
    to_yaml(&value)
}

/// Cost of the cells of a study.
fn costs<C: Serialize, E: Serialize>(
    recipe: &Recipe<C, E>,
    trial: &impl Trial,
) -> Result<Outcome, Failure> {
    let examples = trial.examples(recipe.seeds[0])?;
    let (mut lines, mut costs) = (Vec::new(), Vec::new());
    let (mut rates, mut seconds) = (Rates::default(), 0.0);
    for table in &recipe.tables {
        for layers in &table.layers {
            for row in &table.methods {
                let plan = table.plan(row, layers, recipe.seeds[0]);
                let examples = Some(examples.as_ref());
                let cost = study::estimate(&plan, trial.network(), examples, &mut rates)?;
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
                costs.push(json!({"table": table.title, "method": row.label(), "layers": layers, "estimate": cost}));
            }
        }
    }
    let header = ["table", "method", "layers", "parameters", "dense", "MB", "seconds"];
    let all = lines_of([format!("fits of all seeds: about {seconds:.0} s, evaluation apart")]);
    let result = json!({"recipe": recipe, "cells": costs, "seconds": seconds});
    Ok(Outcome::new(result, vec![table(&header, lines), all]))
}
