//! Jobs of any verb.

use super::{
    Division, Failure, Field, Job, JobError, Outcome, Session, Written, fields, outputs,
    read::read_of, schema, together,
};
use linwright_report::ReportKind;
use schemars::Schema;
use serde_json::{Map, Value};
use std::fmt::Debug;
use std::path::PathBuf;

/// Options of the run of a job beside its places.
const OF_THE_RUN: [&str; 2] = ["force", "dry_run"];

/// Reads a job from its options.
pub type Reader = fn(&Map<String, Value>) -> Result<Box<dyn AnyJob>, JobError>;

/// Commands that stand under a word of their own, such as `linwright molecule eval`, whose verb is
/// `molecule-eval`.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The word.
    pub name: &'static str,
    /// What its commands are about, in one sentence.
    pub about: &'static str,
}

/// A kind of job.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// Name of the command.
    pub name: &'static str,
    /// What it does: a sentence, and paragraphs for its long help.
    pub about: &'static str,
    /// Whether it writes a model that other jobs can read.
    pub writes_model: bool,
    /// How several processes can divide its work.
    pub division: Division,
    /// Ending of the name of its output in a recipe's directory: empty for a directory.
    pub output_ending: &'static str,
    /// Where times, memory and machine stand in its result.
    pub measured: &'static [&'static str],
    /// Kinds of its results.
    pub results: &'static [ReportKind],
    /// Its options, in order.
    pub fields: fn() -> Vec<Field>,
    /// Its JSON schema.
    pub schema: fn() -> Schema,
    /// Reads a job from its options.
    pub read: Reader,
}

impl Verb {
    /// The verb of a kind of job.
    pub(crate) const fn of<J: Job>() -> Self {
        Self {
            name: J::VERB,
            about: J::ABOUT,
            writes_model: J::WRITES_MODEL,
            division: J::DIVISION,
            output_ending: J::OUTPUT_ENDING,
            measured: J::MEASURED,
            results: J::RESULTS,
            fields: fields::<J>,
            schema: schema::<J>,
            read: |options| Ok(Box::new(read_of::<J>(&words_of(J::VERB), options)?)),
        }
    }

    /// The group of the verb, and its name in there.
    #[must_use]
    pub fn grouped(&self) -> Option<(&'static Group, &'static str)> {
        grouped(self.name)
    }

    /// The words of its command: `molecule eval` of the verb `molecule-eval`.
    #[must_use]
    pub fn words(&self) -> String {
        words_of(self.name)
    }

    /// The verb with this name; hyphens and underscores are equal.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = name.replace('_', "-");
        crate::jobs::VERBS.iter().find(|verb| verb.name == name)
    }

    /// Takes from options those that say where the job works, and whether it replaces what is there
    /// or does anything at all. Gives the places, by the key of their option.
    pub(crate) fn take_places(&self, options: &mut Map<String, Value>) -> Map<String, Value> {
        let fields = (self.fields)();
        let mut places = Map::new();
        options.retain(|key, value| {
            let field = fields.iter().find(|field| field.is_called(key));
            let Some(field) = field.filter(|f| f.is_place() || OF_THE_RUN.contains(&&*f.key))
            else {
                return true;
            };
            if field.is_place() {
                places.insert(field.key.clone(), value.take());
            }
            false
        });
        places
    }
}

/// The group of a name, and its name in there.
fn grouped(name: &'static str) -> Option<(&'static Group, &'static str)> {
    let in_group = |group: &'static Group| {
        let rest = name.strip_prefix(group.name)?.strip_prefix('-')?;
        Some((group, rest))
    };
    crate::jobs::GROUPS.iter().find_map(in_group)
}

/// The words of the command with a name.
fn words_of(name: &'static str) -> String {
    grouped(name).map_or_else(|| name.to_owned(), |(group, rest)| format!("{} {rest}", group.name))
}

/// A job of any verb.
pub trait AnyJob: Debug {
    /// Name of its command.
    fn verb(&self) -> &'static str;

    /// Its options, without those that have their default.
    fn options(&self) -> Map<String, Value>;

    /// All of its options.
    fn all_options(&self) -> Map<String, Value>;

    /// See [`Job::inputs`].
    fn inputs(&self) -> Vec<PathBuf>;

    /// Runs the job; the session records it for provenance.
    ///
    /// # Errors
    /// [`Failure`] with the exit code of the command.
    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure>;
}

impl<J: Job> AnyJob for J {
    fn verb(&self) -> &'static str {
        J::VERB
    }

    fn options(&self) -> Map<String, Value> {
        let defaults = values(&J::default());
        let is_given = |(key, value): &(String, Value)| defaults.get(key) != Some(value);
        values(self).into_iter().filter(is_given).collect()
    }

    fn all_options(&self) -> Map<String, Value> {
        values(self)
    }

    fn inputs(&self) -> Vec<PathBuf> {
        Job::inputs(self)
    }

    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure> {
        if !session.shard().is_whole() && !J::DIVISION.has_shards() {
            let able = crate::jobs::VERBS.iter().filter(|verb| verb.division.has_shards());
            let able = able.map(|verb| verb.name).collect::<Vec<_>>().join(", ");
            return Err(Failure::usage(format!("--shard: {} is not divided", J::VERB))
                .hint(format!("these commands are: {able}; a recipe divides its jobs")));
        }
        if session.team().size() > 1 && !J::DIVISION.waits() {
            return Err(Failure::usage(format!("{} exchanges nothing with others", J::VERB))
                .hint("run it in one process, with --threads"));
        }
        if !J::RUNS_JOBS {
            outputs::check_job(self, session)?;
        }
        if !session.has_record() {
            session.record(recipe_of(self), None);
            session.record_places(places_of(self));
        }
        session.record_inputs(&Job::inputs(self))?;
        match J::DIVISION.waits() && !session.shard().is_whole() {
            true => together::run(self, session),
            false => Job::run(self, session),
        }
    }
}

/// Supported version of the format of recipes.
pub const RECIPE_VERSION: u32 = 1;

/// A job as a recipe, without where it works: the same wherever it is run.
#[must_use]
pub fn recipe_of(job: &dyn AnyJob) -> Map<String, Value> {
    let mut options = job.options();
    if let Some(verb) = Verb::named(job.verb()) {
        verb.take_places(&mut options);
    }
    Map::from_iter([(job.verb().replace('-', "_"), options.into())])
}

/// Where a job puts results beside its output.
fn places_of(job: &dyn AnyJob) -> Map<String, Value> {
    let (fields, mut options) =
        (Verb::named(job.verb()).map(|verb| (verb.fields)()), job.options());
    let is_beside = |key: &str| {
        let mut fields = fields.iter().flatten();
        key != "output"
            && fields.any(|field| field.key == key && field.written == Some(Written::Result))
    };
    options.retain(|key, _| is_beside(key));
    options
}

fn values<J: Job>(job: &J) -> Map<String, Value> {
    match serde_json::to_value(job) {
        Ok(Value::Object(values)) => values,
        other => unreachable!("options are a map of plain data: {other:?}"),
    }
}
