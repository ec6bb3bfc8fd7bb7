//! Recipes of jobs: one job, a list of jobs that may refer to one another, or the stages of a
//! pipeline.
//!
//! ```yaml
//! version: 1
//! title: Two methods                     # heading of the report
//! model: pocket                          # of every job that names none; so for any option
//! jobs:
//!   - compress: {keep: 0.8}              # named compress-1
//!   - compress: {method: laser, keep: 0.8}
//!     name: truncated
//!   - eval: {model: {from: truncated}, baseline: pocket, text: pocket}
//!   - export: {model: {from: compress-1}, form: dense}
//! ```
//!
//! `stages` instead of `jobs` is a pipeline: a stage without `model` uses the model written by the
//! preceding stages, the first stage that of the recipe, which is also selected by `baseline:
//! true`.

use crate::jobs::kit::{AnyJob, Failure, FailureKind, Field, RECIPE_VERSION, Verb, Written};
use crate::jobs::{VERBS, renamed};
use linwright_run::spelling::nearest_names;
use linwright_run::{place, shown};
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Keys of a recipe that are not options of jobs.
const OWN_KEYS: [&str; 4] = ["version", "title", "jobs", "stages"];

/// Names in the directory of a recipe that belong to the run, in addition to those that begin with
/// a dot.
const OF_THE_RUN: [&str; 12] = [
    "basis.json",
    "fingerprint",
    "job",
    APART,
    "measured.json",
    "recipe.yaml",
    "report.html",
    "report.md",
    "reproduce.json",
    "results.json",
    "shard.json",
    "unfinished",
];

/// Folder of outputs whose names would be among these.
const APART: &str = "jobs";

/// Options that name what a job works on: a language model, a small network, a potential.
const MODELS: [&str; 3] = ["model", "net", "potential"];

/// Option by which a job replaces existing outputs.
const FORCE: &str = "force";

/// Verbs that read recipes or their directories, which are not allowed in recipes.
const OUTSIDE: [&str; 3] = ["run", "merge", "reproduce"];

/// A recipe of jobs.
#[derive(Clone, Debug)]
pub struct JobList {
    /// Heading of the report.
    pub title: String,
    /// The jobs, in order.
    pub entries: Vec<Entry>,
}

/// A job of a recipe.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its unique name: the given one, or the verb and its number among those of the verb.
    pub name: String,
    /// What it does.
    pub verb: &'static Verb,
    /// A line above its results in the report, such as what a paper published.
    pub note: Option<String>,
    /// Its options, in which `{from: NAME}` refers to an earlier job.
    pub options: Map<String, Value>,
}

/// A job with the paths of the jobs that it refers to.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The job.
    pub(super) job: Box<dyn AnyJob>,
    /// Where it writes.
    pub(super) places: Places,
}

/// Outputs of a job of a recipe.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Its output, if it has one.
    pub(super) output: Option<PathBuf>,
    /// All of its output paths, relative to the directory of the recipe.
    pub(super) below: Vec<(Written, PathBuf)>,
}

impl Places {
    /// Checks that none of them is a link or goes through one, which could lead out of `folder`.
    ///
    /// # Errors
    /// [`Failure`] naming the link, in the job called `name`.
    pub(super) fn check_links(&self, name: &str, folder: &Path) -> Result<(), Failure> {
        self.below.iter().try_for_each(|(_, below)| {
            place::check_links(folder, below).map_err(|error| {
                wrong(format!("{}: {error}", shown(name)))
                    .hint("remove it, or run the recipe in another directory")
            })
        })
    }
}

/// Verbs that a recipe can hold.
pub(super) fn verbs() -> impl Iterator<Item = &'static Verb> {
    VERBS.iter().filter(|verb| !OUTSIDE.contains(&verb.name))
}

/// The verb of this name, if a recipe can hold it.
pub(crate) fn verb_named(name: &str) -> Option<&'static Verb> {
    Verb::named(name).filter(|verb| !OUTSIDE.contains(&verb.name))
}

fn wrong(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Recipe, message)
}

impl JobList {
    /// Reads a recipe; `name` is that of its file, for messages and the title.
    ///
    /// # Errors
    /// [`Failure`] naming the invalid key or job.
    pub fn read(name: &str, recipe: &Map<String, Value>) -> Result<Self, Failure> {
        if recipe.get("version") != Some(&json!(RECIPE_VERSION)) {
            let found = recipe.get("version").map_or("missing".into(), Value::to_string);
            let message =
                format!("{name}: version is {found}, this program supports {RECIPE_VERSION}");
            return Err(wrong(message).hint(format!("write `version: {RECIPE_VERSION}`")));
        }
        let (entries, is_pipeline) = entries(name, recipe)?;
        let title = match recipe.get("title") {
            None => name.to_owned(),
            Some(Value::String(title)) => title.clone(),
            Some(other) => return Err(wrong(format!("{name}: title is {other}, expected text"))),
        };
        let mut list = Self { title, entries };
        list.add_defaults(name, recipe, is_pipeline)?;
        if is_pipeline {
            list.chain(recipe.get("model"));
        }
        Ok(list)
    }

    /// Adds top-level keys to every job that has such an option and does not set it.
    fn add_defaults(
        &mut self,
        name: &str,
        recipe: &Map<String, Value>,
        is_pipeline: bool,
    ) -> Result<(), Failure> {
        for (key, value) in recipe {
            let is_own = OWN_KEYS.contains(&key.as_str()) || verb_named(key).is_some();
            if is_own || (is_pipeline && key == "model") {
                continue;
            }
            let mut known = false;
            for entry in &mut self.entries {
                let fields = (entry.verb.fields)();
                let Some(field) = field_named(&fields, key) else {
                    if let Some(told) = renamed(&entry.verb.words(), key, &fields) {
                        let words = entry.verb.words();
                        return Err(wrong(format!("{name}: {} of {words} {told}", shown(key))));
                    }
                    continue;
                };
                known = true;
                if !fields.iter().any(|f| f.key == field.key && given(&entry.options, f).is_some())
                {
                    entry.options.insert(field.key.clone(), value.clone());
                }
            }
            if !known {
                let options: Vec<Field> =
                    self.entries.iter().flat_map(|entry| (entry.verb.fields)()).collect();
                let names = options.iter().map(|field| field.key.as_str()).chain(OWN_KEYS);
                let nearest = nearest_names(key, &names.collect::<Vec<_>>());
                let message = format!("{name}: {} is an option of none of its jobs", shown(key));
                return Err(wrong(message).hint(nearest));
            }
        }
        Ok(())
    }

    /// Gives each stage the model of the stages before it.
    fn chain(&mut self, model: Option<&Value>) {
        let mut current = model.cloned();
        for entry in &mut self.entries {
            let fields = (entry.verb.fields)();
            if let (Some(field), Some(current)) = (field_named(&fields, "model"), &current)
                && given(&entry.options, field).is_none()
            {
                entry.options.insert("model".into(), current.clone());
            }
            if let (Some(true), Some(model)) =
                (entry.options.get("baseline").and_then(Value::as_bool), model)
            {
                entry.options.insert("baseline".into(), model.clone());
            }
            if entry.verb.writes_model {
                current = Some(json!({ "from": entry.name }));
            }
        }
    }

    /// Uses another model in every job that works on the first one.
    ///
    /// # Errors
    /// [`Failure`] if no job names a model.
    pub fn use_model(&mut self, model: &str) -> Result<(), Failure> {
        let of = |entry: &Entry| MODELS.iter().find_map(|key| entry.options.get(*key)).cloned();
        let first = self.entries.iter().find_map(of);
        let first = first.filter(Value::is_string).ok_or_else(|| {
            Failure::usage("no job of the recipe names a model that --model could replace")
        })?;
        for entry in &mut self.entries {
            for key in MODELS.into_iter().chain(["baseline", "base"]) {
                if entry.options.get(key) == Some(&first) {
                    entry.options.insert(key.to_owned(), model.into());
                }
            }
        }
        Ok(())
    }

    /// The jobs, with references replaced by paths, all outputs below `folder`, and an output with
    /// their name by default.
    ///
    /// # Errors
    /// [`Failure`] naming the job and the invalid option.
    pub(super) fn resolve(&self, folder: &Path) -> Result<Vec<Resolved>, Failure> {
        let mut resolved: Vec<Resolved> = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let before = &self.entries[..index];
            let fields = (entry.verb.fields)();
            let mut options = Map::new();
            for (key, value) in &entry.options {
                entry.check_reference(&fields, key, value)?;
                let path =
                    |reference: &Reference<'_>| reference.path(entry, key, before, &resolved);
                let value = replaced(value, &path)?;
                options.insert(key.clone(), value);
            }
            let places = entry.place(&mut options, folder)?;
            entry.check_apart(&places, before, &resolved)?;
            let job = (entry.verb.read)(&options).map_err(|error| {
                let failure = wrong(format!("{}: {error}", entry.name));
                error.hint.into_iter().fold(failure, Failure::hint)
            })?;
            resolved.push(Resolved { job, places });
        }
        Ok(resolved)
    }

    /// Checks the options of all jobs.
    ///
    /// # Errors
    /// [`Failure`] naming the job and the invalid option.
    pub fn check(&self) -> Result<(), Failure> {
        self.resolve(Path::new("")).map(drop)
    }

    /// The share of each job when several processes divide the recipe: jobs that refer to one
    /// another stay together.
    pub(super) fn shares(&self) -> Vec<usize> {
        let mut shares: Vec<usize> = Vec::new();
        let mut next = 0;
        for entry in &self.entries {
            let earlier = entry.options.values().flat_map(references).filter_map(|reference| {
                self.entries.iter().position(|other| other.name == reference.from)
            });
            let mut earlier: Vec<usize> =
                earlier.filter_map(|index| shares.get(index).copied()).collect();
            earlier.sort_unstable();
            match earlier.first().copied() {
                None => {
                    shares.push(next);
                    next += 1;
                }
                // A job joins the shares of all jobs that it refers to.
                Some(first) => {
                    for share in &mut shares {
                        *share = if earlier.contains(share) { first } else { *share };
                    }
                    shares.push(first);
                }
            }
        }
        // Shares that were joined leave no gap.
        let mut used = shares.clone();
        used.sort_unstable();
        used.dedup();
        let place = |share: &usize| used.iter().position(|other| other == share).unwrap_or(0);
        shares.iter().map(place).collect()
    }

    /// The complete recipe, without output paths: the same list gives the same text wherever it
    /// runs.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let jobs = self.entries.iter().map(|entry| {
            let (verb, options) = (entry.verb.name.replace('-', "_"), entry.portable_options());
            let mut job = Map::from_iter([(verb, options.into())]);
            job.insert("name".to_owned(), entry.name.clone().into());
            job.extend(entry.note.iter().map(|note| ("note".to_owned(), note.clone().into())));
            Value::Object(job)
        });
        json!({ "version": RECIPE_VERSION, "title": self.title, "jobs": jobs.collect::<Vec<_>>() })
    }
}

impl Entry {
    /// The options without `force`, which every job of a recipe has.
    fn portable_options(&self) -> Map<String, Value> {
        let fields = (self.verb.fields)();
        let force = field_named(&fields, FORCE);
        let is_kept = |key: &str| !force.is_some_and(|force| force.is_called(key));
        let kept = self.options.iter().filter(|(key, _)| is_kept(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Outputs of this job are its own, and files that it changes in place belong to an earlier
    /// job.
    fn check_reference(&self, fields: &[Field], key: &str, value: &Value) -> Result<(), Failure> {
        let refers = is_reference(value);
        match field_named(fields, key).and_then(|field| field.written) {
            Some(Written::Result | Written::State) if refers => {
                let message = format!("{}: {key} refers to another job", self.name);
                Err(wrong(message).hint("it is an output of this job: give it a separate name"))
            }
            Some(Written::InPlace) if !refers => {
                let message = format!(
                    "{}: {key} is {}, which the job would change in place",
                    self.name,
                    shown(&value.to_string())
                );
                Err(wrong(message).hint("a recipe changes only its own outputs: `{from: NAME}`"))
            }
            _ => Ok(()),
        }
    }

    /// Moves the outputs of the job below a folder: its output, named after the job by default, and
    /// its other output paths.
    pub(super) fn place(
        &self,
        options: &mut Map<String, Value>,
        folder: &Path,
    ) -> Result<Places, Failure> {
        let fields = (self.verb.fields)();
        let own = format!("{}{}", self.name, self.verb.output_ending);
        let is_taken = OF_THE_RUN.iter().any(|name| name.eq_ignore_ascii_case(&own));
        let own = if is_taken { format!("{APART}/{own}") } else { own };
        let mut places = Places::default();
        for field in fields.iter().filter(|field| field.is_place()) {
            let is_output = field.key == "output";
            let (key, text) =
                match (options.iter().find(|(key, _)| field.is_called(key)), is_output) {
                    (Some((key, Value::String(text))), _) => (key.clone(), text.clone()),
                    (Some((_, Value::Null)) | None, true) => (field.key.clone(), own.clone()),
                    // Anything but text is rejected when options are read.
                    (Some(_), _) | (None, false) => continue,
                };
            let below = match is_taken && text == own {
                true => PathBuf::from(&text),
                false => self.below(&key, &text)?,
            };
            let path = folder.join(&below);
            options.insert(key, path.display().to_string().into());
            places.output = if is_output { Some(path) } else { places.output };
            places.below.extend(field.written.map(|written| (written, below)));
        }
        // Leftovers of an interrupted run belong to it.
        if let (Some(force), false) = (field_named(&fields, FORCE), places.below.is_empty()) {
            options.retain(|key, _| !force.is_called(key));
            options.insert(force.key.clone(), true.into());
        }
        Ok(places)
    }

    /// A path relative to the directory of the recipe.
    fn below(&self, key: &str, text: &str) -> Result<PathBuf, Failure> {
        let refused = |why: &str| {
            wrong(format!("{}: {key} is {}: {why}", self.name, shown(text))).hint(
                "jobs of a recipe write below its directory: give a name such as pages/a.html",
            )
        };
        let below = place::below(text).map_err(|error| refused(&error.what))?;
        let first = below.iter().next().map(OsStr::to_string_lossy).unwrap_or_default();
        match first.starts_with('.') || OF_THE_RUN.contains(&&*first) {
            true => Err(refused("this name is used by a file of the run")),
            false => Ok(below),
        }
    }

    /// No job writes to an output of an earlier one; both may use the same store.
    fn check_apart(
        &self,
        places: &Places,
        before: &[Self],
        resolved: &[Resolved],
    ) -> Result<(), Failure> {
        for (written, below) in &places.below {
            for (entry, earlier) in before.iter().zip(resolved) {
                let is_same = |(other, path): &&(Written, PathBuf)| {
                    let are_states = (*written, *other) == (Written::State, Written::State);
                    !are_states && (path.starts_with(below) || below.starts_with(path))
                };
                if let Some((_, path)) = earlier.places.below.iter().find(is_same) {
                    let message = format!(
                        "{} writes {}, and {} writes {}",
                        entry.name,
                        path.display(),
                        self.name,
                        below.display()
                    );
                    return Err(wrong(message).hint("give each job separate outputs"));
                }
            }
        }
        Ok(())
    }
}

/// Entries of a recipe, and whether they are stages.
fn entries(name: &str, recipe: &Map<String, Value>) -> Result<(Vec<Entry>, bool), Failure> {
    let verbs: Vec<&String> = recipe.keys().filter(|key| verb_named(key).is_some()).collect();
    let list = match (recipe.get("jobs"), recipe.get("stages"), verbs.as_slice()) {
        (Some(list), None, []) => (list.clone(), false),
        (None, Some(list), []) => (list.clone(), true),
        (None, None, [verb]) => (json!([{ verb.as_str(): recipe[verb.as_str()] }]), false),
        _ => {
            return Err(wrong(format!(
                "{name}: expected one of `jobs`, `stages` and a single job"
            ))
            .hint("put several jobs into a list: `jobs: [{compress: {..}}, {eval: {..}}]`"));
        }
    };
    let (Value::Array(list), is_pipeline) = list else {
        return Err(wrong(format!("{name}: its jobs are not a list")));
    };
    if list.is_empty() {
        return Err(wrong(format!("{name}: its list of jobs is empty")));
    }
    let mut all: Vec<Entry> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let entry = entry(name, index, value, &all)?;
        // On some systems names that differ only in case are equal.
        if all.iter().any(|other| other.name.eq_ignore_ascii_case(&entry.name)) {
            return Err(wrong(format!("{name}: two jobs are named {}", shown(&entry.name))));
        }
        all.push(entry);
    }
    Ok((all, is_pipeline))
}

fn entry(name: &str, index: usize, value: &Value, before: &[Entry]) -> Result<Entry, Failure> {
    let place = || format!("{name}: jobs[{index}]");
    let Value::Object(map) = value else {
        let message = format!("{} is {}, expected a job", place(), shown(&value.to_string()));
        return Err(wrong(message).hint("such as `compress: {model: pocket, keep: 0.8}`"));
    };
    let (mut verb, mut own_name, mut note) = (None, None, None);
    for (key, value) in map {
        match verb_named(key) {
            Some(found) if verb.is_none() => verb = Some((found, value)),
            Some(found) => {
                let message = format!("{} contains a second job, {}", place(), found.name);
                return Err(wrong(message).hint("start each job with a dash"));
            }
            None if key == "name" => own_name = Some(value),
            None if key == "note" => note = Some(value),
            None => {
                let names: Vec<&str> = verbs().map(|verb| verb.name).collect();
                let message = format!("{}: there is no job {}", place(), shown(key));
                return Err(wrong(message).hint(nearest_names(key, &names)));
            }
        }
    }
    let Some((verb, options)) = verb else {
        return Err(wrong(format!("{} names no job", place())));
    };
    let options = match options {
        Value::Object(options) => options.clone(),
        Value::Null => Map::new(),
        other => {
            let message = format!("{}: {} is {other}, expected its options", place(), verb.name);
            return Err(wrong(message));
        }
    };
    let name = match own_name {
        None => {
            let same = before.iter().filter(|other| other.verb.name == verb.name).count();
            format!("{}-{}", verb.name, same + 1)
        }
        Some(Value::String(text)) if is_name(text) => text.clone(),
        Some(other) => {
            let message = format!("{}: name is {}", place(), shown(&other.to_string()));
            return Err(wrong(message).hint("a name has letters, digits, - and _"));
        }
    };
    let note = match note {
        None => None,
        Some(Value::String(note)) if is_line(note) => Some(note.clone()),
        Some(other) => {
            let message = format!("{}: note is {}", place(), shown(&other.to_string()));
            return Err(wrong(message).hint("a note is one line of text"));
        }
    };
    Ok(Entry { name, verb, note, options })
}

/// Whether a text can be the name of a job, and of its folder.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.len() <= 64 && text.chars().all(is_part)
}

/// Whether a text can stand in a report as one line.
fn is_line(text: &str) -> bool {
    text.len() <= 400 && !text.chars().any(char::is_control)
}

fn field_named<'f>(fields: &'f [Field], key: &str) -> Option<&'f Field> {
    fields.iter().find(|field| field.is_called(key))
}

/// The value of an option by any of its names.
fn given<'v>(options: &'v Map<String, Value>, field: &Field) -> Option<&'v Value> {
    options.iter().find(|(key, _)| field.is_called(key)).map(|(_, value)| value)
}

/// `{from: NAME, file: FILE}`.
struct Reference<'v> {
    from: &'v str,
    file: Option<&'v str>,
}

fn reference(value: &Value) -> Option<Reference<'_>> {
    let map = value.as_object()?;
    let from = map.get("from")?.as_str()?;
    let is_reference = map.keys().all(|key| key == "from" || key == "file");
    is_reference.then(|| Reference { from, file: map.get("file").and_then(Value::as_str) })
}

/// The references of an option: itself, or those in its list or map.
fn references(value: &Value) -> Vec<Reference<'_>> {
    match (reference(value), value) {
        (Some(reference), _) => vec![reference],
        (None, Value::Array(items)) => items.iter().flat_map(references).collect(),
        (None, Value::Object(keys)) => keys.values().flat_map(references).collect(),
        (None, _) => Vec::new(),
    }
}

/// A value with `path` in place of each reference.
fn replaced(
    value: &Value,
    path: &dyn Fn(&Reference<'_>) -> Result<PathBuf, Failure>,
) -> Result<Value, Failure> {
    match (reference(value), value) {
        (Some(reference), _) => Ok(path(&reference)?.display().to_string().into()),
        (None, Value::Array(items)) => items.iter().map(|item| replaced(item, path)).collect(),
        (None, Value::Object(keys)) => {
            let replaced =
                |(key, value): (&String, &Value)| Ok((key.clone(), replaced(value, path)?));
            Ok(keys.iter().map(replaced).collect::<Result<Map<_, _>, Failure>>()?.into())
        }
        (None, value) => Ok(value.clone()),
    }
}

/// Whether the value of an option refers to other jobs.
pub(crate) fn is_reference(value: &Value) -> bool {
    !references(value).is_empty()
}

impl Reference<'_> {
    /// The path that replaces it as the value of an option.
    fn path(
        &self,
        entry: &Entry,
        key: &str,
        before: &[Entry],
        resolved: &[Resolved],
    ) -> Result<PathBuf, Failure> {
        let Self { from, file } = *self;
        let Some(index) = before.iter().position(|other| other.name == from) else {
            let names: Vec<&str> = before.iter().map(|other| other.name.as_str()).collect();
            let message = format!(
                "{}: {key} refers to {}, which is not an earlier job",
                entry.name,
                shown(from)
            );
            return Err(wrong(message).hint(nearest_names(from, &names)));
        };
        let refused =
            |reason: String| wrong(format!("{}: {key} refers to {from}, {reason}", entry.name));
        let output = resolved[index].places.output.clone();
        let output = output.ok_or_else(|| refused("which writes nothing".into()))?;
        let of_a_model = matches!(key, "model" | "baseline" | "base");
        if of_a_model && file.is_none() && !before[index].verb.writes_model {
            return Err(refused("which writes no model".into()));
        }
        // The file that an option reads in a job's directory.
        let file = file.or(match key {
            "sweep" => Some("result.json"),
            "plan" => Some("edits.json"),
            _ => None,
        });
        match file {
            None => Ok(output),
            Some(file) if Path::new(file).components().all(is_below) => Ok(output.join(file)),
            Some(file) => Err(refused(format!("with the file {}", shown(file)))
                .hint("name a file below the directory of that job")),
        }
    }
}

fn is_below(part: std::path::Component<'_>) -> bool {
    matches!(part, std::path::Component::Normal(_))
}
