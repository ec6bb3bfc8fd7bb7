//! Jobs: what a command does, as plain data that runs.
//!
//! A job is read from the flags of a command, from a recipe or from Python, always through its JSON
//! schema: [`fields`] lists its options with their types, defaults and one sentence each, and
//! [`read`] turns a map of options into the job. The command line builds its flags from the same
//! list, so a flag, a key of a recipe and a keyword cannot differ.
//!
//! An option has one name everywhere: `no_share` is the key, `--no-share` the flag. [`VERBS`] lists
//! all jobs; [`AnyJob::run`] runs one in a [`Session`], and its [`Outcome`] is data and a report.

mod attribution;
mod batch;
pub mod bounds;
mod byte_size;
pub(crate) mod calibration;
mod chat_template;
mod collapse;
mod cuts;
mod division;
mod error;
mod evaluation;
mod failure;
mod fields;
mod form;
mod generate;
mod images;
pub mod inputs;
mod layers;
pub(crate) mod measured;
mod named;
pub(crate) mod offload;
pub(crate) mod outcome;
pub mod outputs;
mod plan_file;
mod potential;
mod precision;
mod read;
mod room;
mod sampling;
mod saving;
mod session;
pub(crate) mod shards;
mod shell;
mod slots;
pub mod source;
pub(crate) mod store;
pub(crate) mod tasks;
mod together;
mod training;
pub(crate) mod verb;
mod written;

pub use batch::BatchSize;
pub use byte_size::ByteSize;
pub use chat_template::ChatTemplateOptions;
pub use collapse::CollapseOptions;
pub use compare::Compares;
pub use compress::{Heal, MethodName, StoredDType};
pub use cuts::CutOptions;
pub use division::Division;
pub use error::JobError;
pub use evaluation::EvaluationOptions;
pub use failure::{Failure, FailureKind, is_full, message_of};
pub(crate) use fields::bound_text;
pub use fields::{Field, Kind, Name, fields, flag_of, schema};
pub use form::SavedForm;
pub use generate::{Generate, Prompted};
pub use images::ImageOptions;
pub use layers::parse_layers;
pub use molecule_md::MdEnsemble;
pub use outcome::{Outcome, ResultData, write_pages};
pub use precision::PrecisionOptions;
pub use read::read;
pub use sampling::{SamplingOptions, Writer, end_tokens};
pub use session::{Host, Session, to_yaml};
pub use shell::{arguments, command, quoted};
pub use slots::SlotOptions;
pub use verb::{AnyJob, Group, Reader, Verb, recipe_of};
pub use written::{ChangedPath, OutputPath, StatePath, Written};

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
    /// How several processes can divide its work.
    const DIVISION: Division = Division::Whole;
    /// Ending of the name of its output in a recipe's directory: empty for a directory.
    const OUTPUT_ENDING: &'static str = "";
    /// Where times, memory and machine stand in its result: keys joined by `/`, in which `*` is any
    /// key or any item of a list. A path that a result lacks has no effect.
    const MEASURED: &'static [&'static str] = &[];

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

macro_rules! jobs {
    ($($module:ident => $name:ident;)*) => {
        $(pub(crate) mod $module; pub use $module::$name;)*

        /// All jobs, in the order of the help.
        pub static VERBS: &[Verb] = &[$(Verb::of::<$name>()),*];
    };
}

/// Jobs that no recipe holds, since they write no file: their command streams what they find.
pub static STREAMED: &[Verb] = &[Verb::of::<Generate>()];

/// Groups of commands.
pub static GROUPS: &[Group] = &[
    Group { name: "molecule", about: "Energies, forces and motion of molecules" },
    Group { name: "attribute", about: "Training examples that made a model answer as it does" },
    Group { name: "collapse", about: "Neural collapse of features, and where training leads" },
    Group { name: "flow", about: "Densities and samples of images and points" },
];

jobs! {
    inspect => Inspect;
    compress => Compress;
    compare => Compare;
    prune => Prune;
    plan => PlanSizes;
    laser => Laser;
    sweep => Sweep;
    compose => Compose;
    search => Search;
    eval => Eval;
    run => Run;
    fit => Fit;
    export => Export;
    import => Import;
    train_lm => TrainLm;
    train_net => TrainNet;
    eval_net => EvalNet;
    attribute_best => AttributeBest;
    attribute_cache => AttributeCache;
    attribute_fisher => AttributeFisher;
    attribute_lds => AttributeLds;
    attribute_recall => AttributeRecall;
    attribute_score => AttributeScore;
    attribute_self => AttributeSelf;
    attribute_show => AttributeShow;
    attribute_world => AttributeWorld;
    molecule_eval => MoleculeEval;
    molecule_md => MoleculeMd;
    molecule_relax => MoleculeRelax;
    molecule_info => MoleculeInfo;
    molecule_convert => MoleculeConvert;
    molecule_compress => MoleculeCompress;
    molecule_bench => MoleculeBench;
    molecule_train => MoleculeTrain;
    collapse_measure => CollapseMeasure;
    collapse_merge => CollapseMerge;
    collapse_ufm => CollapseUfm;
    collapse_gufm => CollapseGufm;
    collapse_depth => CollapseDepth;
    collapse_lm => CollapseLm;
    collapse_watch => CollapseWatch;
    collapse_relate => CollapseRelate;
    flow_train => FlowTrain;
    flow_eval => FlowEval;
    flow_sample => FlowSample;
    flow_match => FlowMatch;
    select => Select;
    merge => Merge;
    reproduce => Reproduce;
}
