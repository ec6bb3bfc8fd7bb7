//! Jobs: what a command does, as plain data that runs.
//!
//! A job is read from the flags of a command, from a recipe or from Python, always through its JSON
//! schema: [`fields`] lists its options with their types, defaults and one sentence each, and
//! [`read`] turns a map of options into the job. The command line builds its flags from the same
//! list, so a flag, a key of a recipe and a keyword cannot differ.
//!
//! An option has one name everywhere: `no_share` is the key, `--no-share` the flag. [`VERBS`] lists
//! all jobs; [`AnyJob::run`] runs one in a [`Session`], and its [`Outcome`] is data and a report.
//!
//! Verbs are in folders by domain; what all of them share is in `kit`.

pub(crate) mod attribute;
pub(crate) mod collapse;
pub(crate) mod comparison;
pub(crate) mod flow;
pub(crate) mod kit;
pub(crate) mod language;
pub(crate) mod molecule;
pub(crate) mod nets;
mod saved;
pub(crate) mod work;

pub use collapse::options::CollapseOptions;
pub use comparison::{ComparisonOptions, heal::Healings, names::SlotCandidates, places::Seeds};
pub use kit::{
    AnyJob, BatchSize, ByteSize, Catalogue, ChangedPath, Division, Entry, Failure, FailureKind,
    Field, Folded, Folding, Group, Host, Job, JobError, Key, Kind, Name, Options, Outcome,
    OutputPath, Pairs, RECIPE_VERSION, Reader, Recover, Session, SizeText, StatePath, Term, TermOf,
    Terms, ValueKind, Verb, WithOptions, Written, arguments, beginning, bounds, command,
    commands_elsewhere, fields, flag_of, inputs, is_full, message_of, option_elsewhere, outputs,
    parse_layer_sets, parse_layers, plain_value, quoted, read, recipe_of, renamed, schema, source,
    to_yaml, write_pages,
};
pub use language::allocating::{Allocate, AllocateWeights};
pub use language::calibration::CalibrationText;
pub use language::chat_template::ChatTemplateOptions;
pub use language::compare::{CandidateTerm, Candidates};
pub use language::compress::{Heal, MethodTerm, Methods, StoredDType};
pub use language::cuts::{Cut, CutOptions};
pub use language::evaluation::EvaluationOptions;
pub use language::form::SavedForm;
pub use language::generate::{Continuation, Continuations, Finish, Generate, Prompted};
pub use language::judging::{ChoiceOptions, SearchEvaluation};
pub use language::precision::PrecisionOptions;
pub use language::sampling::{SamplingOptions, Writer, end_tokens};
pub use language::serving::{ServeLimits, ServeOptions};
pub use language::slots::{RoleName, SlotOptions};
pub use molecule::md::MdEnsemble;
pub use nets::images::ImageOptions;
pub use saved::{has_kind, result_kinds, saved_result};

macro_rules! jobs {
    ($($domain:ident::$module:ident => $name:ident;)*) => {
        $(pub use $domain::$module::$name;)*

        /// All jobs, in the order of the help.
        pub static VERBS: &[Verb] = &[$(Verb::of::<$name>()),*];
    };
}

/// Jobs that no recipe holds, since they write no file: their command streams what they find.
pub static STREAMED: &[Verb] = &[Verb::of::<Generate>()];

/// The words of a command, and its options.
type OptionsOfCommand = (&'static str, fn() -> Vec<Field>);

/// Commands without a job whose options are those of a type, by their words.
pub static OTHERS: &[OptionsOfCommand] = &[("serve", kit::fields::<ServeOptions>)];

/// A name that schemas have for a catalogue of terms, and the catalogue.
type NamedCatalogue = (&'static str, fn() -> &'static Catalogue);

/// Catalogues of terms.
pub(crate) static CATALOGUES: &[NamedCatalogue] = &[
    (Methods::NAME, Methods::catalogue),
    (Candidates::NAME, Candidates::catalogue),
    (molecule::compress::SlotMethods::NAME, molecule::compress::SlotMethods::catalogue),
    (SlotCandidates::NAME, SlotCandidates::catalogue),
    (Healings::NAME, Healings::catalogue),
    folded::<EvaluationOptions>(),
    folded::<ChoiceOptions>(),
    folded::<SearchEvaluation>(),
    (Cut::NAME, Cut::catalogue),
    (Recover::NAME, Recover::catalogue),
    (CalibrationText::NAME, CalibrationText::catalogue),
    (Allocate::NAME, Allocate::catalogue),
    (AllocateWeights::NAME, AllocateWeights::catalogue),
    folded::<language::train_lm::ModelOptions>(),
    folded::<language::train_lm::TrainingOptions>(),
    (ImageOptions::NAME, ImageOptions::catalogue),
    (nets::images::FittedImages::NAME, nets::images::FittedImages::catalogue),
    folded::<attribute::ExampleOptions>(),
    folded::<attribute::cache::CacheReading>(),
    folded::<ServeLimits>(),
    folded::<nets::train::NetTrainingOptions>(),
    folded::<flow::train::FlowNetworkOptions>(),
    folded::<flow::train::FlowTrainingOptions>(),
    folded::<flow::matching::VelocityOptions>(),
    folded::<flow::matching::MatchTrainingOptions>(),
    folded::<collapse::depth::DepthNetworkOptions>(),
    (collapse::depth::DepthStrength::NAME, collapse::depth::DepthStrength::catalogue),
    folded::<collapse::ufm::UfmStrength>(),
    folded::<molecule::labels::LabelOptions>(),
    (
        molecule::structures::FittedStructures::NAME,
        molecule::structures::FittedStructures::catalogue,
    ),
    (
        molecule::structures::ScoredStructures::NAME,
        molecule::structures::ScoredStructures::catalogue,
    ),
    folded::<molecule::train::NetworkOptions>(),
    folded::<molecule::train::LossOptions>(),
    folded::<molecule::train::StepOptions>(),
];

/// The catalogue of the keys of a group of options.
const fn folded<T: Folded>() -> NamedCatalogue {
    (T::NAME, T::catalogue)
}

/// Groups of commands.
pub static GROUPS: &[Group] = &[
    Group { name: "molecule", about: "Energies, forces and motion of molecules" },
    Group { name: "attribute", about: "Training examples that made a model answer as it does" },
    Group { name: "collapse", about: "Neural collapse of features, and where training leads" },
    Group { name: "flow", about: "Densities and samples of images and points" },
];

jobs! {
    language::inspect => Inspect;
    language::compress => Compress;
    language::compare => Compare;
    language::prune => Prune;
    language::plan => PlanSizes;
    language::laser => Laser;
    language::sweep => Sweep;
    language::compose => Compose;
    language::search => Search;
    language::eval => Eval;
    work::run => Run;
    language::fit => Fit;
    language::export => Export;
    language::import => Import;
    language::train_lm => TrainLm;
    nets::train => TrainNet;
    nets::eval => EvalNet;
    nets::compare => CompareNet;
    attribute::best => AttributeBest;
    attribute::cache => AttributeCache;
    attribute::fisher => AttributeFisher;
    attribute::lds => AttributeLds;
    attribute::recall => AttributeRecall;
    attribute::score => AttributeScore;
    attribute::self_influence => AttributeSelf;
    attribute::show => AttributeShow;
    attribute::world => AttributeWorld;
    molecule::eval => MoleculeEval;
    molecule::md => MoleculeMd;
    molecule::relax => MoleculeRelax;
    molecule::info => MoleculeInfo;
    molecule::convert => MoleculeConvert;
    molecule::compress => MoleculeCompress;
    molecule::compare => MoleculeCompare;
    molecule::bench => MoleculeBench;
    molecule::train => MoleculeTrain;
    collapse::measure => CollapseMeasure;
    collapse::merge => CollapseMerge;
    collapse::ufm => CollapseUfm;
    collapse::gufm => CollapseGufm;
    collapse::depth => CollapseDepth;
    collapse::lm => CollapseLm;
    collapse::watch => CollapseWatch;
    collapse::relate => CollapseRelate;
    flow::train => FlowTrain;
    flow::eval => FlowEval;
    flow::sample => FlowSample;
    flow::matching => FlowMatch;
    work::select => Select;
    work::merge => Merge;
    work::reproduce => Reproduce;
}
