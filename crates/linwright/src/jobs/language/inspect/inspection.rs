//! `linwright inspect`: statistics of every tensor of a checkpoint, and spectra of its matrices.

use super::{Inspect, slots};
use crate::jobs::kit::source::{Place, find_model};
use crate::jobs::kit::{Failure, Outcome, Session, outputs, parse_layers, shards, store};
use linwright_files::is_stored_type;
use linwright_measure::inspect::report::document;
use linwright_measure::inspect::{
    InspectError, Inspection, NameFilter, Options, run as inspect, run_shard,
};
use linwright_report::{Document, html};
use linwright_run::place::{is_page, is_result};
use linwright_run::{Monitor, Store, shown};
use std::path::Path;

pub(super) fn run(job: &Inspect, session: &mut Session<'_>) -> Result<Outcome, Failure> {
    if job.slots {
        return slots::run(&job.model, session);
    }
    check_outputs(job, session)?;
    let options = Options {
        filter: job
            .filter
            .as_deref()
            .map(NameFilter::parse)
            .transpose()
            .map_err(InspectError::from)?,
        layers: job.layers.as_deref().map(|text| parse_layers("layers", text)).transpose()?,
        dtype: job.dtype.as_deref().map(parse_dtype).transpose()?,
        spectra: job.spectra,
        store: store::open(job.cache.as_deref(), job.no_cache || !job.spectra, session)?
            .reading_also(shards::sources(session, Path::new(""))?),
    };
    let Place { path, name, .. } = find_model(&job.model, session)?;
    if let (false, Some(output)) = (session.shard().is_whole(), &job.output) {
        return shard(&path, options, output, session);
    }
    let mut found = run_inspection(&path, &options, session)?;
    session.finish();
    found.model = name;
    let mut files = Vec::new();
    if let Some(page) = &job.html {
        let text = html::render(&document(&found, job.by))?;
        files.push(outputs::prepared(page, text.as_bytes(), job.force, is_page)?);
    }
    if let Some(output) = &job.output {
        files.push(outputs::prepared_report(output, &found, job.force)?);
    }
    outputs::write_all(files)?;
    for written in job.html.iter().chain(&job.output) {
        session.note(&format!("wrote {}", written.display()));
    }
    let report = match session.wants_report() {
        true => document(&found, job.by),
        false => Document::default(),
    };
    Ok(Outcome { result: Box::new(found), report, measured: Vec::new(), failure: None })
}

/// Checks before anything is read that the outputs can be written.
fn check_outputs(job: &Inspect, session: &mut Session<'_>) -> Result<(), Failure> {
    if job.force && job.html.is_none() && job.output.is_none() {
        return Err(Failure::usage("--force: nothing is written").hint("give --html or --output"));
    }
    let inputs = outputs::of_model(&job.model, session);
    if let Some(page) = &job.html {
        outputs::file(page, job.force, &inputs, session, is_page)?;
    }
    if session.shard().is_whole() {
        let Some(output) = &job.output else { return Ok(()) };
        return outputs::file(output, job.force, &inputs, session, is_result);
    }
    if !job.spectra {
        return Err(Failure::usage("--shard divides singular values, and there are none")
            .hint("give --spectra; the other statistics take one reading of the file"));
    }
    shards::output_of(session, job.output.as_deref())?;
    job.output.iter().try_for_each(|path| shards::check_directory(path, &inputs, session))
}

/// Computes the spectra of a shard, which its directory keeps.
fn shard(
    path: &Path,
    options: Options,
    output: &Path,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    shards::mark(session, output)?;
    // What the user's store has is taken from there.
    let known = options.store.root().map(Path::to_owned);
    let store = Store::at(output).adopting(known.into_iter().collect());
    let options = Options { store: store.clone(), ..options };
    let part = session.shard();
    let found = run_shard(path, &options, part, session);
    session.tell_damage(&store);
    let [own, total] = found?;
    session.finish();
    shards::part(session, output, own, total)
}

fn run_inspection(
    path: &Path,
    options: &Options,
    session: &mut Session<'_>,
) -> Result<Inspection, Failure> {
    Ok(inspect(path, options, session)?)
}

/// Parses the name of a storage type in any case.
fn parse_dtype(name: &str) -> Result<String, Failure> {
    match is_stored_type(name) {
        true => Ok(name.to_uppercase()),
        false => Err(Failure::usage(format!(
            "--dtype \"{}\": expected a storage type such as f32, f16, bf16, i8 or q4_k",
            shown(name)
        ))),
    }
}
