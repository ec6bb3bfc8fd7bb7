//! What all verbs share: options and their schema, verbs as data, the session in which a job runs,
//! its outcome and failure, files of results, shards. It knows no verb.

pub(crate) mod batch;
pub mod bounds;
pub(crate) mod byte_size;
pub(crate) mod division;
pub(crate) mod elsewhere;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod fields;
pub(crate) mod folded;
pub(crate) mod help;
pub mod inputs;
pub(crate) mod layers;
pub(crate) mod measured;
pub(crate) mod named;
pub(crate) mod outcome;
pub mod outputs;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod renamed;
pub(crate) mod room;
pub(crate) mod saving;
pub(crate) mod session;
pub(crate) mod shards;
pub(crate) mod shell;
pub(crate) mod sizes;
pub mod source;
pub(crate) mod store;
pub(crate) mod terms;
pub(crate) mod together;
pub(crate) mod training;
pub(crate) mod verb;
pub(crate) mod written;

pub use batch::BatchSize;
pub use byte_size::ByteSize;
pub use division::Division;
pub use elsewhere::{commands_elsewhere, option_elsewhere};
pub use error::JobError;
pub use failure::{Failure, FailureKind, is_full, message_of};
pub(crate) use fields::bound_text;
pub use fields::{Field, Kind, Name, Pairs, fields, flag_of, schema};
pub(crate) use folded::catalogue;
pub use folded::{Folded, Folding};
pub use help::beginning;
pub use layers::{parse_layer_sets, parse_layers};
pub use outcome::{Outcome, write_pages};
pub(crate) use read::check_together;
pub use read::read;
pub use recover::Recover;
pub use renamed::renamed;
pub use session::{Host, Session, to_yaml};
pub use shell::{arguments, command, quoted};
pub use sizes::SizeText;
pub use terms::{Catalogue, Entry, Key, Term, TermOf, Terms, ValueKind, WithOptions, plain_value};
pub use verb::{AnyJob, Group, RECIPE_VERSION, Reader, Verb, recipe_of};
pub use written::{ChangedPath, OutputPath, StatePath, Written};

use linwright_report::ReportKind;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::PathBuf;

/// Options of a job, or a group of them.
pub trait Options: Clone + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema {}

impl<T: Clone + Default + PartialEq + Serialize + DeserializeOwned + JsonSchema> Options for T {}

/// What a command does.
pub trait Job: Options + Debug + 'static {
    /// Name of the command.
    const VERB: &'static str;
    /// What it does: a sentence, and paragraphs for its long help.
    const ABOUT: &'static str;
    /// Whether it writes a model that other jobs can read.
    const WRITES_MODEL: bool = false;
    /// Whether it runs the jobs of a recipe, which check their own outputs; it may read the recipe
    /// that it wrote itself, and checks the rest of its inputs.
    const RUNS_JOBS: bool = false;
    /// How several processes can divide its work.
    const DIVISION: Division = Division::Whole;
    /// Ending of the name of its output in a recipe's directory: empty for a directory.
    const OUTPUT_ENDING: &'static str = "";
    /// Where times, memory and machine stand in a result of a foreign format: keys joined by `/`,
    /// in which `*` is any key or any item of a list. A path that is not in a result is skipped.
    /// Other results mark them by type.
    const MEASURED: &'static [&'static str] = &[];
    /// Kinds of its results, which `linwright report` reads.
    const RESULTS: &'static [ReportKind] = &[];

    /// Models, texts and data that it reads, as it names them.
    fn inputs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Runs the job.
    ///
    /// # Errors
    /// [`Failure`] with the exit code of the command.
    fn run(&self, session: &mut Session<'_>) -> Result<Outcome, Failure>;
}
