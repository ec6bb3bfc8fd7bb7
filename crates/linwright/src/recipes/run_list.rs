//! Runs a recipe of jobs: each job once, in order, and a report of all.

use super::list::{Entry, JobList, Places, Resolved, is_reference};
use crate::jobs::kit::inputs::{InputHash, check_unchanged, is_local};
use crate::jobs::kit::outcome::{text, write_pages};
use crate::jobs::kit::{
    Failure, FailureKind, Outcome, Session, Written, command, measured, outputs, recipe_of, shards,
    to_yaml,
};
use crate::jobs::work::reproduce::is_of_result;
use linwright_evaluate::file_of_task;
use linwright_files::MEASURED;
use linwright_report::{Block, Document, Table};
use linwright_run::{
    DataSource, Fingerprint, Monitor, PieceKey, RunDirectory, RunError, input, sha256_hex,
    sha256_of_open, state,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The outcome of a finished job, as stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Finished {
    result: Value,
    report: Document,
    /// Its outputs, so that a later change is noticed.
    written: Vec<InputHash>,
}

/// Runs the jobs of a recipe. Finished jobs are read from the directory.
pub(crate) fn run(
    name: &str,
    list: &JobList,
    output: Option<&Path>,
    dry_run: bool,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let recipe = list.to_value();
    let data = data_of(list, session)?;
    let fingerprint = Fingerprint::of(&[
        ("version", &env!("CARGO_PKG_VERSION")),
        ("recipe", &recipe),
        ("data", &data),
    ]);
    let own = || Path::new("runs").join(format!("{name}-{}", &fingerprint.0[..8]));
    let folder = output.map_or_else(own, Path::to_owned);
    let resolved = list.resolve(&folder)?;
    if dry_run {
        return costs(list, &resolved, session);
    }
    shards::output_of(session, output)?;
    let inputs: Vec<PathBuf> = data.iter().map(|read| read.path.clone()).collect();
    outputs::check_place(&folder, &inputs, session)?;
    let content: Map<String, Value> = data
        .iter()
        .map(|read| (read.path.display().to_string(), read.sha256.clone().into()))
        .collect();
    let basis = json!({"recipe": recipe, "content": content});
    let directory = open(&folder, &fingerprint, &basis)?;
    session.record_data([session.data(), &data].concat());
    shards::mark(session, &folder)?;
    let directory = directory.reading_also(shards::sources(session, Path::new(""))?);
    let shard = session.take_shard();
    session.want_report();
    let shares = list.shares();
    state::write(&folder.join("recipe.yaml"), to_yaml(&recipe)?.as_bytes())?;
    let (mut finished, mut measured) = (Vec::new(), measured_before(&folder, session)?);
    let total = list.entries.len();
    for (index, ((entry, resolved), share)) in
        list.entries.iter().zip(&resolved).zip(&shares).enumerate()
    {
        if !shard.owns(*share) {
            continue;
        }
        session.step(&format!("{} of {} ({} of {total})", entry.name, list.title, index + 1));
        session.record(recorded(entry, resolved), Some(&folder));
        let done = one(entry, resolved, &directory, &mut measured, session);
        finished.push(done.map_err(|failure| refused(&directory, failure))?);
        write_measured(&measured, &folder, session)?;
    }
    if finished.len() < list.entries.len() {
        session.finish();
        let divided = session.dividing(shard);
        return shards::part(divided, &folder, finished.len(), list.entries.len());
    }
    let seeds: Map<String, Value> = list
        .entries
        .iter()
        .zip(&resolved)
        .filter_map(|(entry, one)| {
            Some((entry.name.clone(), one.job.all_options().get("seed")?.clone()))
        })
        .collect();
    let reproduce = json!({
        "schema": 1, "linwright": session.build().version, "recipe": recipe,
        "recipe_sha256": sha256_hex(to_yaml(&recipe)?.as_bytes()),
        "seeds": seeds, "data": data,
    });
    write_results(list, &reproduce, &finished, &folder, session)
}

/// The command of each job, and its cost unless it depends on another job.
fn costs(
    list: &JobList,
    resolved: &[Resolved],
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let commands: Vec<String> = resolved.iter().map(|one| command(one.job.as_ref())).collect();
    let (mut blocks, mut costs) = (Vec::new(), Map::new());
    for (entry, line) in list.entries.iter().zip(&commands) {
        blocks.push(text([format!("{}: {line}", entry.name)]));
        let has_estimate = (entry.verb.fields)().iter().any(|field| field.key == "dry_run");
        let waits = entry.options.values().any(is_reference);
        if waits || !has_estimate {
            continue;
        }
        let mut options = entry.options.clone();
        options.insert("dry_run".into(), true.into());
        // A command requires an output even if it writes none.
        entry.place(&mut options, Path::new(""))?;
        let job = (entry.verb.read)(&options)?;
        let cost = job.run(session)?;
        costs.insert(entry.name.clone(), cost.value()?);
        blocks.extend(cost.report.blocks.into_iter().chain(cost.measured));
    }
    let result = json!({ "recipe": list.to_value(), "commands": commands, "costs": costs });
    Ok(Outcome::new(result, blocks))
}

/// Inputs of the jobs, without outputs of other jobs of the recipe: files, and models by path. A
/// model of the hub is identified by its name.
fn data_of(list: &JobList, session: &mut Session<'_>) -> Result<Vec<InputHash>, Failure> {
    // Any path will do: it is removed again.
    let folder = Path::new("runs").join(".data");
    let resolved = list.resolve(&folder)?;
    let written = resolved.iter().flat_map(|one| &one.places.below);
    let written: Vec<PathBuf> = written.map(|(_, below)| folder.join(below)).collect();
    let inputs = resolved.iter().flat_map(|one| one.job.inputs());
    let outside = inputs.filter(|path| !written.iter().any(|place| path.starts_with(place)));
    let known: Vec<PathBuf> = outside.filter(|path| is_local(path)).collect();
    session.hashes(&known)
}

/// Opens the directory of a recipe.
fn open(folder: &Path, fingerprint: &Fingerprint, basis: &Value) -> Result<RunDirectory, Failure> {
    RunDirectory::open_of(folder, fingerprint, basis).map_err(|error| match error {
        RunError::Fingerprint { .. } => Failure::from(error).hint(
            "a directory belongs to one recipe, its data and one version of the program; what \
             changed is run in a directory of its own",
        ),
        other => other.into(),
    })
}

/// A job as the recipe in its directory: as the command would record it, but with references.
fn recorded(entry: &Entry, resolved: &Resolved) -> Map<String, Value> {
    let mut recipe = recipe_of(resolved.job.as_ref());
    for options in recipe.values_mut().filter_map(Value::as_object_mut) {
        for (key, value) in options.iter_mut() {
            let given = entry.options.iter().find(|(name, _)| name.replace('-', "_") == *key);
            if let Some((_, reference)) = given.filter(|(_, given)| is_reference(given)) {
                value.clone_from(reference);
            }
        }
    }
    recipe
}

/// Removes the directory if its first job was refused before any work, so that a corrected recipe
/// may have it.
fn refused(directory: &RunDirectory, failure: Failure) -> Failure {
    let is_stopped = failure.is_resumable() || failure.kind() == FailureKind::Interrupted;
    if !is_stopped && directory.is_empty() {
        directory.discard();
    }
    failure
}

/// Runs a job, or reads its outcome.
fn one(
    entry: &Entry,
    resolved: &Resolved,
    directory: &RunDirectory,
    measurements: &mut Map<String, Value>,
    session: &mut Session<'_>,
) -> Result<Finished, Failure> {
    let print = Fingerprint::of(&[
        ("job", &entry.name),
        ("verb", &entry.verb.name),
        ("options", &entry.options),
    ]);
    let stored: Option<Finished> = directory.stored("job", &print)?;
    let key = PieceKey::new("job", print.clone());
    if let Some(stored) = stored
        && brought(&stored, &resolved.places, directory, session)?
    {
        // Files that options do not name, such as those of a task file, are known by the result.
        check_unchanged(&files_read(&stored.result))?;
        return Ok(stored);
    }
    prepare(entry, &resolved.places, directory.path())?;
    // A job whose results were removed runs again, even if a shard finished it.
    directory.pieces().forget(&key).map_err(RunError::from)?;
    // Results of earlier jobs are kept.
    let outcome = resolved.job.run(session).map_err(Failure::resumable)?;
    if let Some(failure) = outcome.failure {
        return Err(failure);
    }
    let (mut result, mut times) = outcome.apart()?;
    if times.is_null() {
        times = measured::split(&mut result, entry.verb.measured);
    }
    measurements.insert(entry.name.clone(), times);
    if let (false, Some(path)) = (entry.verb.output_ending.is_empty(), &resolved.places.output) {
        // Without times, so that it has the same bytes again.
        state::write(path, format!("{result:#}\n").as_bytes())?;
    }
    let mut files = Vec::new();
    for place in results(&resolved.places) {
        files.extend(written(directory.path(), place)?);
    }
    let finished = Finished { result, report: outcome.report, written: files };
    let json = serde_json::to_vec(&finished)
        .map_err(|error| Failure::general(format!("cannot write the result as JSON: {error}")))?;
    directory.pieces().put(&key, &[&json]).map_err(RunError::from)?;
    Ok(finished)
}

/// The files of tasks that a result names as its data, with the hashes that they had.
fn files_read(result: &Value) -> Vec<InputHash> {
    let below: Vec<&Value> = match result {
        Value::Object(map) => map.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => return Vec::new(),
    };
    let file = |one: &Value| {
        let source: DataSource = serde_json::from_value(one.clone()).ok()?;
        let path = PathBuf::from(file_of_task(&source)?);
        path.is_file().then_some(InputHash { path, sha256: source.sha256 })
    };
    let own = ["provenance", "linwright"].map(|place| result[place]["data"].as_array());
    let own = own.into_iter().flatten().flatten().filter_map(file);
    own.chain(below.into_iter().flat_map(files_read)).collect()
}

/// Output paths of a job, below the directory of the recipe.
fn results(places: &Places) -> impl Iterator<Item = &Path> {
    let results = places.below.iter().filter(|(written, _)| *written == Written::Result);
    results.map(|(_, below)| below.as_path())
}

/// Creates the folders of the outputs of a job; no link leads out of the directory of the run.
fn prepare(entry: &Entry, places: &Places, directory: &Path) -> Result<(), Failure> {
    places.check_links(&entry.name, directory)?;
    places.below.iter().try_for_each(|(_, below)| make_parent(directory, below))
}

fn make_parent(directory: &Path, below: &Path) -> Result<(), Failure> {
    let parent = below.parent().unwrap_or(Path::new(""));
    let made = state::make_folder(directory, parent);
    made.map(drop)
        .map_err(|error| Failure::io(&directory.join(below).display().to_string(), &error))
}

/// Whether the results of a finished job exist, or could be copied from the directory of a shard. A
/// changed result is an error, since it may be wanted.
fn brought(
    stored: &Finished,
    places: &Places,
    directory: &RunDirectory,
    session: &Session<'_>,
) -> Result<bool, Failure> {
    for place in results(places) {
        let path = directory.path().join(place);
        if state::exists(&path) {
            check_written(&stored.written, place, &path)?;
            continue;
        }
        let sources = shards::sources(session, place)?;
        let Some(source) = sources.first() else { return Ok(false) };
        check_written(&stored.written, place, source)?;
        make_parent(directory.path(), place)?;
        state::copy(source, &path)?;
    }
    Ok(true)
}

/// Rejects an output that differs from what the job wrote. Files that appeared in it belong to
/// other jobs.
fn check_written(written: &[InputHash], place: &Path, found: &Path) -> Result<(), Failure> {
    for known in written {
        let Ok(rest) = known.path.strip_prefix(place) else { continue };
        let path = joined(found, rest);
        let sha256 = state::inside(found, rest)
            .and_then(|_| state::open(&path))
            .and_then(sha256_of_open)
            .map_err(|error| Failure::io(&path.display().to_string(), &error).hint(again(found)))?;
        if sha256 != known.sha256 {
            let message = format!(
                "{} has another content than when its job wrote it: SHA-256 {}, then {sha256}",
                path.display(),
                known.sha256
            );
            return Err(Failure::new(FailureKind::Fingerprint, message).hint(again(found)));
        }
    }
    Ok(())
}

fn again(output: &Path) -> String {
    let output = output.display();
    format!("restore the original, or remove {output}: its job then runs again")
}

/// Hashes of all files of a result at a place below a directory, with their paths below the latter.
fn written(directory: &Path, place: &Path) -> Result<Vec<InputHash>, Failure> {
    let failed = |path: &Path| {
        let shown = path.display().to_string();
        move |error: std::io::Error| Failure::io(&shown, &error)
    };
    let (mut found, mut paths) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = paths.pop() {
        let path = joined(&directory.join(place), &below);
        let Ok(data) = path.symlink_metadata() else { continue };
        if data.is_dir() {
            for entry in std::fs::read_dir(&path).map_err(failed(&path))? {
                paths.push(below.join(entry.map_err(failed(&path))?.file_name()));
            }
        } else if data.is_file() && is_of_result(&below) {
            let sha256 = state::open(&path).and_then(sha256_of_open).map_err(failed(&path))?;
            found.push(InputHash { path: joined(place, &below), sha256 });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// A path below another one, without a slash at the end if it is the same.
fn joined(path: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { path.to_owned() } else { path.join(below) }
}

/// Times of jobs that were finished before, if known.
fn measured_before(folder: &Path, session: &Session<'_>) -> Result<Map<String, Value>, Failure> {
    let own = folder.join(MEASURED);
    let mut known = Map::new();
    for file in shards::sources(session, Path::new(MEASURED))?.into_iter().chain([own]) {
        let text = state::read_text(&file, input::MAX_SETTINGS_BYTES).ok();
        let read = text.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let jobs = read.as_ref().and_then(|times| times.pointer("/measured/jobs"));
        known.extend(jobs.and_then(Value::as_object).cloned().unwrap_or_default());
    }
    Ok(known)
}

/// Writes the times of the jobs so far.
fn write_measured(
    measured: &Map<String, Value>,
    folder: &Path,
    session: &Session<'_>,
) -> Result<(), Failure> {
    let files = session.files_beside(&json!({ "jobs": measured }))?;
    for (name, bytes) in files.into_iter().filter(|(name, _)| name == MEASURED) {
        state::write(&folder.join(name), &bytes)?;
    }
    Ok(())
}

/// Writes `results.json`, `measured.json`, `reproduce.json` and the report.
fn write_results(
    list: &JobList,
    reproduce: &Value,
    finished: &[Finished],
    folder: &Path,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let names = list.entries.iter().map(|entry| entry.name.clone());
    let all: Map<String, Value> =
        names.zip(finished.iter().map(|one| one.result.clone())).collect();
    let results = json!({ "title": list.title, "jobs": all });
    let mut document = Document { title: list.title.clone(), ..Document::default() };
    for (entry, one) in list.entries.iter().zip(finished) {
        let heading = format!("{}: {}", entry.name, entry.verb.name);
        document.blocks.push(text(std::iter::once(heading).chain(entry.note.clone())));
        document.blocks.extend(one.report.blocks.iter().cloned());
    }
    document.blocks.push(Block::Provenance(provenance(reproduce)));
    session.finish();
    state::write(&folder.join("reproduce.json"), format!("{reproduce:#}\n").as_bytes())?;
    let page = write_pages(&document, folder)?;
    // Written last, so that it exists only when everything is complete.
    state::write(&folder.join("results.json"), format!("{results:#}\n").as_bytes())?;
    document.blocks.push(text([format!("report: {}", page.display())]));
    Ok(Outcome { report: document, ..Outcome::new(results, Vec::new()) })
}

/// Version, recipe and data of a run.
fn provenance(reproduce: &Value) -> Table {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let own = [("Linwright", "linwright"), ("Recipe, SHA-256", "recipe_sha256")]
        .map(|(name, key)| (name.to_owned(), text(&reproduce[key])));
    let seeds = reproduce["seeds"].as_object().into_iter().flatten();
    let seeds = seeds.map(|(name, seed)| (format!("Seed of {name}"), seed.to_string()));
    let data = reproduce["data"].as_array().into_iter().flatten();
    let data = data.map(|file| (text(&file["path"]), text(&file["sha256"])));
    Table::of_pairs("Provenance", own.into_iter().chain(seeds).chain(data))
}
