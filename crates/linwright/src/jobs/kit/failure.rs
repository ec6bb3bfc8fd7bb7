//! Failures of jobs: message, hint and exit code.

use super::JobError;
use crate::pocket::PocketError;
use linwright_attribute::AttributeError;
use linwright_bench::BenchError;
use linwright_bench::convergence::ConvergenceError;
use linwright_compress::form::RecipeError;
use linwright_compress::{CompressError, FitError};
use linwright_data::DataError;
use linwright_data::images::ImageError;
use linwright_data::sets::SetError;
use linwright_evaluate::{EvaluationError, LogitsFileError};
use linwright_files::FileError;
use linwright_files::hub::HubError;
use linwright_flow::FlowError;
use linwright_lm::LmError;
use linwright_measure::capture::CaptureError;
use linwright_measure::inspect::InspectError;
use linwright_measure::vendi::{StoredError, VendiError};
use linwright_model::Role;
use linwright_model::WindowsError;
use linwright_model::checkpoint::CheckpointError;
use linwright_model::checkpoint::export::ExportError;
use linwright_model::generate::GenerateError;
use linwright_model::tokenizer::TokenizerError;
use linwright_molecule::MoleculeError;
use linwright_nets::{LabelledImagesError, NetError};
use linwright_ops::SlotSetError;
use linwright_report::ReportError;
use linwright_run::atomic::OutputError;
use linwright_run::team::TeamError;
use linwright_run::{JournalError, RunError, StoreError};
use linwright_train::TrainError;
use linwright_trial::{ImageTrialError, MoleculeTrialError, TrialError};
use std::error::Error;
use std::io;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Any other failure.
    General = 1,
    /// Wrong usage: options that contradict each other or the model.
    Usage = 2,
    /// An invalid recipe or configuration.
    Recipe = 3,
    /// A missed quality gate.
    Gate = 4,
    /// Out of memory or disk.
    Resources = 5,
    /// The folder holds another run.
    Fingerprint = 6,
    /// Interrupted by the user; the same command resumes.
    Resumable = 75,
    /// Interrupted by the user; nothing to resume.
    Interrupted = 130,
}

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    kind: FailureKind,
    message: String,
    hint: Option<String>,
    /// Whether the same command would fail again.
    for_good: bool,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, for_good: false }
    }

    /// A failure of no other kind.
    pub fn general(message: impl Into<String>) -> Self {
        Self::new(FailureKind::General, message)
    }

    /// Options that contradict each other or the model.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// Whether the same command can resume.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.kind == FailureKind::Resumable
    }

    /// Whether the same command would fail again, so that resuming is useless.
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        self.for_good
    }

    /// Its kind, which determines the exit code.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The hint, if there is one.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The failure with a hint: what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks an interruption without anything to resume.
    #[must_use]
    pub fn not_resumable(mut self) -> Self {
        if self.kind == FailureKind::Resumable {
            self.kind = FailureKind::Interrupted;
            self.hint = None;
        }
        self
    }

    /// Marks an interruption as one that the same command continues.
    #[must_use]
    pub fn resumable(self) -> Self {
        match self.kind {
            FailureKind::Interrupted => Self::interrupted(self.message),
            _ => self,
        }
    }

    /// An error of the system on a file.
    pub fn io(what: &str, error: &io::Error) -> Self {
        let kind = if is_full(error) { FailureKind::Resources } else { FailureKind::General };
        Self::new(kind, format!("{what}: {}", message_of(error)))
    }

    /// An interruption that the same command continues.
    pub fn interrupted(message: String) -> Self {
        Self::new(FailureKind::Resumable, message).hint("run the same command again to resume")
    }
}

/// The message of an error with all its causes. Most messages contain those of their causes;
/// otherwise the cause is appended after a colon.
pub fn message_of(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// Whether the system ran out of disk or memory.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, OutOfMemory, QuotaExceeded, StorageFull};
    matches!(error.kind(), FileTooLarge | OutOfMemory | QuotaExceeded | StorageFull)
}

/// What can be done with a model of any architecture.
const OTHER_FAMILIES: &str = "models of any architecture: `linwright inspect MODEL --spectra` \
    reports on every tensor and its ranks, `linwright fit FILE --tensor NAME` approximates one \
    matrix by any operator and needs no text, and linwright.torch (Python) captures and replaces \
    layers of any network of PyTorch";
/// Roles of weights that hold several projections, as their names in errors.
const FUSED: [&str; 2] = [Role::QueryKeyValue.name(), Role::GateUp.name()];

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        CompressError::from(error).into()
    }
}

impl From<CompressError> for Failure {
    fn from(error: CompressError) -> Self {
        if error.is_interruption() {
            return Self::interrupted("interrupted".into());
        }
        let (message, for_good) = (message_of(&error), error.is_final());
        let failure = match error {
            CompressError::Fit { source: FitError::Train(error), .. } => {
                Self { message, ..Self::from(error) }
            }
            CompressError::Fit { source: FitError::Memory(error), .. } => {
                Self { message, ..Self::from(error) }
            }
            CompressError::Recovery(error) => Self { message, ..Self::from(error) },
            CompressError::Fit {
                source: FitError::Size { .. } | FitError::Operator(_), ..
            }
            | CompressError::NoPart { .. }
            | CompressError::TwoParts { .. }
            | CompressError::Size { .. }
            | CompressError::SameSites { .. }
            | CompressError::Healed { .. }
            | CompressError::NoText { .. }
            | CompressError::Options { .. }
            | CompressError::NoRecovery { .. } => Self::usage(message),
            CompressError::Slots(error) => error.into(),
            CompressError::Output(error) => error.into(),
            CompressError::Store(error) => error.into(),
            CompressError::Capture(CaptureError::Io { source, .. })
            | CompressError::Shelf { source, .. }
                if is_full(&source) =>
            {
                Self::new(FailureKind::Resources, message)
            }
            CompressError::Fit {
                source:
                    FitError::Numerics { .. }
                    | FitError::Evidence { .. }
                    | FitError::Side { .. }
                    | FitError::NonFinite { .. }
                    | FitError::TooFewSamples { .. },
                ..
            }
            | CompressError::Network(_)
            | CompressError::Shelf { .. }
            | CompressError::Capture(_)
            | CompressError::Team(_)
            | CompressError::Unstorable { .. }
            | CompressError::Interrupted => Self::general(message),
        };
        Self { for_good, ..failure }
    }
}

impl From<LmError> for Failure {
    fn from(error: LmError) -> Self {
        if error.is_interruption() {
            return Self::interrupted("interrupted".into());
        }
        let (message, for_good) = (message_of(&error), error.is_final());
        let failure = match error {
            LmError::Compress(error) => return error.into(),
            LmError::Prune(_)
            | LmError::CutTwice { .. }
            | LmError::Sweep { .. }
            | LmError::Search { .. } => Self::usage(message),
            LmError::Evaluation(error) => error.into(),
            LmError::Run(error) => return error.into(),
        };
        Self { for_good, ..failure }
    }
}

impl From<SlotSetError> for Failure {
    fn from(error: SlotSetError) -> Self {
        let message = message_of(&error);
        let failure = match error {
            SlotSetError::NoRole { role, .. } if FUSED.contains(&role.as_str()) => {
                Self::usage(message)
                    .hint("where its projections are weights of their own, select them by --roles")
            }
            SlotSetError::Layer { .. }
            | SlotSetError::Role { .. }
            | SlotSetError::Empty { .. }
            | SlotSetError::NoRole { .. }
            | SlotSetError::Unused { .. }
            | SlotSetError::Pattern(_) => Self::usage(message),
        };
        Self { for_good: true, ..failure }
    }
}

impl From<TeamError> for Failure {
    fn from(error: TeamError) -> Self {
        Self::general(message_of(&error))
    }
}

impl From<WindowsError> for Failure {
    fn from(error: WindowsError) -> Self {
        let message = message_of(&error);
        match error {
            WindowsError::TooLong { .. } => Self::usage(message),
            WindowsError::TooShort { .. }
            | WindowsError::Text { .. }
            | WindowsError::First { .. } => Self::general(message),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        let message = message_of(&error);
        match error {
            TrainError::Interrupted { .. } => Self::interrupted(message),
            TrainError::Fingerprint { .. } => Self::new(FailureKind::Fingerprint, message),
            TrainError::Output(error) => error.into(),
            // The same steps follow from the same checkpoint.
            TrainError::NonFinite { .. } | TrainError::Diverged { .. } => {
                Self { for_good: true, ..Self::general(message) }
            }
            TrainError::Checkpoint { .. } | TrainError::Io { .. } | TrainError::Step { .. } => {
                Self::general(message)
            }
        }
    }
}

impl From<TrialError> for Failure {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Compress(error) => error.into(),
            TrialError::Images(error) => (*error).into(),
            TrialError::Molecules(error) => (*error).into(),
            TrialError::Store(error) => error.into(),
        }
    }
}

impl From<MoleculeTrialError> for Failure {
    fn from(error: MoleculeTrialError) -> Self {
        let message = message_of(&error);
        match error {
            MoleculeTrialError::Molecule { source, .. } => {
                Self::new(Self::from(*source).kind(), message)
            }
            MoleculeTrialError::Range { .. }
            | MoleculeTrialError::TooFew { .. }
            | MoleculeTrialError::Common { .. } => Self::usage(message),
            MoleculeTrialError::NoForces { .. } | MoleculeTrialError::Untrained { .. } => {
                Self::general(message)
            }
        }
    }
}

impl From<ImageTrialError> for Failure {
    fn from(error: ImageTrialError) -> Self {
        let message = message_of(&error);
        match error {
            ImageTrialError::Images(error) => error.into(),
            ImageTrialError::Net(error) => error.into(),
            ImageTrialError::TooFew { .. }
            | ImageTrialError::Common { .. }
            | ImageTrialError::Shape { .. }
            | ImageTrialError::Output { .. } => Self::usage(message),
            ImageTrialError::Label { .. } => Self::general(message),
        }
    }
}

impl From<LabelledImagesError> for Failure {
    fn from(error: LabelledImagesError) -> Self {
        let message = message_of(&error);
        match error {
            LabelledImagesError::Net(error) => error.into(),
            LabelledImagesError::Memory { .. } => Self::new(FailureKind::Resources, message),
            LabelledImagesError::NoLabels { .. } | LabelledImagesError::Range { .. } => {
                Self::usage(message)
            }
            LabelledImagesError::Images(_) => Self::general(message),
        }
    }
}

impl From<NetError> for Failure {
    fn from(error: NetError) -> Self {
        let message = message_of(&error);
        match error {
            NetError::Layer { .. } | NetError::Description { .. } | NetError::Operator { .. } => {
                Self::new(FailureKind::Recipe, message)
            }
            NetError::Memory(error) => error.into(),
            NetError::File(error) => error.into(),
            NetError::Interrupted => Self::interrupted(message),
            NetError::Examples { .. } => Self::usage(message),
            NetError::UnknownTensor { .. }
            | NetError::NotSame { .. }
            | NetError::Input { .. }
            | NetError::InputNotFinite
            | NetError::NotFinite { .. }
            | NetError::LossNotFinite => Self::general(message),
        }
    }
}

impl From<FitError> for Failure {
    fn from(error: FitError) -> Self {
        let message = message_of(&error);
        match error {
            FitError::Train(error) => error.into(),
            FitError::Memory(error) => error.into(),
            FitError::Size { .. } | FitError::Operator(_) | FitError::Side { .. } => {
                Self::usage(message)
            }
            FitError::Numerics { .. }
            | FitError::Evidence { .. }
            | FitError::NonFinite { .. }
            | FitError::TooFewSamples { .. } => Self::general(message),
        }
    }
}

impl From<FlowError> for Failure {
    fn from(error: FlowError) -> Self {
        let message = message_of(&error);
        match error {
            FlowError::Memory(error) => error.into(),
            FlowError::File(error) => Self { message, ..Self::from(error) },
            FlowError::Image(error) => Self { message, ..Self::from(error) },
            FlowError::Net { source, .. } => Self { message, ..Self::from(*source) },
            FlowError::Option { .. } | FlowError::Extent { .. } => Self::usage(message),
            FlowError::Interrupted => Self::interrupted(message),
            FlowError::Operator { .. }
            | FlowError::IllConditioned { .. }
            | FlowError::NotFinite { .. }
            | FlowError::Sample { .. }
            | FlowError::Examples { .. }
            | FlowError::Description { .. }
            | FlowError::UnknownTensor { .. }
            | FlowError::NotSame { .. }
            | FlowError::Picture { .. } => Self::general(message),
        }
    }
}

impl From<AttributeError> for Failure {
    fn from(error: AttributeError) -> Self {
        let message = message_of(&error);
        match error {
            AttributeError::Memory(error) => error.into(),
            AttributeError::File(error) => error.into(),
            AttributeError::Output(error) => error.into(),
            AttributeError::Read { path, source } => {
                Self::io(&format!("cannot read {}", path.display()), &source)
            }
            AttributeError::InFile { source, .. } | AttributeError::OfLayer { source, .. } => {
                Self::new(Self::from(*source).kind, message)
            }
            AttributeError::OtherStore { .. } => Self::new(FailureKind::Fingerprint, message),
            AttributeError::Interrupted => Self::interrupted("interrupted".to_owned()),
            AttributeError::Map { .. }
            | AttributeError::MapTooLarge { .. }
            | AttributeError::Compressor { .. }
            | AttributeError::Setting { .. }
            | AttributeError::Layers { .. } => Self::usage(message),
            AttributeError::Json { .. }
            | AttributeError::NoTarget { .. }
            | AttributeError::ZeroGradient { .. }
            | AttributeError::Missed { .. }
            | AttributeError::Score { .. }
            | AttributeError::NotFinite { .. }
            | AttributeError::Curvature { .. }
            | AttributeError::Network(_)
            | AttributeError::NoStore { .. }
            | AttributeError::Damaged { .. }
            | AttributeError::DamagedFisher { .. }
            | AttributeError::Incomplete { .. } => Self::general(message),
        }
    }
}

impl From<MoleculeError> for Failure {
    fn from(error: MoleculeError) -> Self {
        let message = message_of(&error);
        match error {
            MoleculeError::File(error) => error.into(),
            MoleculeError::Interrupted { .. } => Self::interrupted(message),
            MoleculeError::Structure { source, .. }
                if matches!(
                    *source,
                    MoleculeError::MixedUnits { .. }
                        | MoleculeError::UnitsDisagree { .. }
                        | MoleculeError::PartialUnits { .. }
                        | MoleculeError::Units { .. }
                        | MoleculeError::Setting { .. }
                ) =>
            {
                Self::usage(message)
            }
            MoleculeError::Units { .. }
            | MoleculeError::Setting { .. }
            | MoleculeError::Architecture { .. } => Self::usage(message),
            _ => Self::general(message),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let message = message_of(&error);
        match error {
            RunError::Output(error) => error.into(),
            RunError::Store(error) => error.into(),
            RunError::Fingerprint { .. } => Self::new(FailureKind::Fingerprint, message),
            RunError::Io { path, source } => Self::io(&path.display().to_string(), &source),
            RunError::Unusable { .. } | RunError::Busy { .. } => Self::general(message),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let message = message_of(&error);
        match error {
            StoreError::Output(error) => error.into(),
            StoreError::Io { source, .. } if is_full(&source) => {
                Self::new(FailureKind::Resources, message)
            }
            StoreError::Bound { .. } => Self::usage(message),
            StoreError::Io { .. } | StoreError::Busy { .. } | StoreError::Value { .. } => {
                Self::general(message)
            }
        }
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let message = message_of(&error);
        match error {
            JournalError::Io { path, source } => Self::io(&path.display().to_string(), &source),
            JournalError::InUse { .. } => Self::general(message),
            JournalError::OtherRun { .. } => Self::new(FailureKind::Fingerprint, message),
        }
    }
}

impl From<EvaluationError> for Failure {
    fn from(error: EvaluationError) -> Self {
        let (message, for_good) = (message_of(&error), error.is_final());
        match error {
            EvaluationError::Interrupted { .. } => Self::interrupted(message),
            EvaluationError::Journal(error) => error.into(),
            EvaluationError::LogitsFile(LogitsFileError::Output(error)) => error.into(),
            EvaluationError::Registry(error) => {
                error.hint().into_iter().fold(Self::usage(message), Self::hint)
            }
            EvaluationError::Set { source, .. }
                if matches!(*source, SetError::Hub(HubError::Interrupted { .. })) =>
            {
                Self::interrupted(message)
            }
            EvaluationError::TooLong { .. } => Self::new(FailureKind::Resources, message),
            EvaluationError::NoAnswers { .. } => Self::usage(message)
                .hint("give --calibration FILE, task:NAME of a task with answers, or samples"),
            EvaluationError::BadProtocol { .. }
            | EvaluationError::WindowTooLong { .. }
            | EvaluationError::NoBos { .. }
            | EvaluationError::ShardWithoutJournal { .. }
            | EvaluationError::UnknownTask { .. } => Self::usage(message),
            EvaluationError::Data(_)
            | EvaluationError::LogitsFile(_)
            | EvaluationError::JournalAnswers { .. }
            | EvaluationError::Contradiction { .. }
            | EvaluationError::Incomplete { .. }
            | EvaluationError::Set { .. }
            | EvaluationError::NoRows { .. }
            | EvaluationError::Tokenizer { .. }
            | EvaluationError::Continuation { .. }
            | EvaluationError::TaskFile { .. }
            | EvaluationError::Document { .. }
            | EvaluationError::NoRoom { .. }
            | EvaluationError::Masked { .. }
            | EvaluationError::NoHead { .. }
            | EvaluationError::NoVectors { .. }
            | EvaluationError::Nothing { .. } => Self::general(message),
            EvaluationError::Model { .. }
            | EvaluationError::NonFinite { .. }
            | EvaluationError::Overflow { .. } => Self { for_good, ..Self::general(message) },
        }
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        let failure = Self::usage(error.to_string());
        error.hint.into_iter().fold(failure, Self::hint)
    }
}

impl From<RecipeError> for Failure {
    fn from(error: RecipeError) -> Self {
        Self::new(FailureKind::Recipe, message_of(&error))
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let message = message_of(&error);
        match error {
            FileError::Output(error) => error.into(),
            FileError::Read { .. }
            | FileError::NoWeights { .. }
            | FileError::Malformed { .. }
            | FileError::Dump { .. }
            | FileError::Json { .. }
            | FileError::MissingShard { .. }
            | FileError::NotInShard { .. }
            | FileError::TwoFiles { .. }
            | FileError::Changed { .. }
            | FileError::ShardPath { .. }
            | FileError::MissingTensor { .. }
            | FileError::TensorShape { .. }
            | FileError::TensorType { .. }
            | FileError::NonFinite { .. }
            | FileError::TooLarge { .. }
            | FileError::Unstorable { .. } => Self::general(message),
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        let (message, unknown) = (message_of(&error), error.is_unknown_architecture());
        match error {
            CheckpointError::Config { .. } if unknown => {
                Self::new(FailureKind::Recipe, message).hint(OTHER_FAMILIES)
            }
            CheckpointError::Gguf { .. } if unknown => Self::general(message).hint(OTHER_FAMILIES),
            CheckpointError::Config { .. } => Self::new(FailureKind::Recipe, message),
            CheckpointError::Adapter { .. } => Self::usage(message),
            CheckpointError::File(error) => error.into(),
            CheckpointError::Shelf { source, .. } if is_full(&source) => {
                Self::new(FailureKind::Resources, message)
            }
            CheckpointError::NotADirectory { .. }
            | CheckpointError::Shelf { .. }
            | CheckpointError::Adapted { .. }
            | CheckpointError::Native { .. }
            | CheckpointError::Operator { .. }
            | CheckpointError::Tokenizer(_)
            | CheckpointError::Differs { .. }
            | CheckpointError::Says { .. }
            | CheckpointError::Tokens { .. }
            | CheckpointError::Check { .. }
            | CheckpointError::Gguf { .. }
            | CheckpointError::Llama2c { .. } => Self::general(message),
            CheckpointError::NoGguf(_) => Self::usage(message),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let message = message_of(&error);
        match error {
            ExportError::Checkpoint(error) => error.into(),
            ExportError::Form { .. } | ExportError::Option { .. } => Self::usage(message),
            ExportError::FullRank { .. } => {
                Self::general(message).hint("give --rank R or --energy SHARE")
            }
            ExportError::Base { .. }
            | ExportError::Decomposition { .. }
            | ExportError::Differs { .. } => Self::general(message),
        }
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let message = message_of(&error);
        match error {
            HubError::Interrupted { .. } => Self::interrupted(message),
            HubError::Output(error) => Self { message, ..Self::from(error) },
            HubError::Cache(error) => Self { message, ..Self::from(error) },
            HubError::Revision { .. } | HubError::Endpoint => Self::usage(message),
            HubError::NoCache
            | HubError::Token { .. }
            | HubError::Offline { .. }
            | HubError::NotBuilt { .. }
            | HubError::Unreachable { .. }
            | HubError::Refused { .. }
            | HubError::NotFound { .. }
            | HubError::Answer { .. }
            | HubError::FileName { .. }
            | HubError::NoWeights { .. }
            | HubError::Size { .. }
            | HubError::TooLarge { .. }
            | HubError::Damaged { .. } => Self::general(message),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        let message = message_of(&error);
        match error {
            OutputError::Exists { .. } => {
                Self::usage(message).hint("choose another output or give --force")
            }
            OutputError::NotOurs { .. } => Self::usage(message),
            OutputError::Full { .. } => Self::new(FailureKind::Resources, message),
            OutputError::NoParent { .. } | OutputError::NoName { .. } | OutputError::Io { .. } => {
                Self::general(message)
            }
        }
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        let message = message_of(&error);
        match error {
            InspectError::File(error) => error.into(),
            InspectError::Store(error) => Self { message, ..Self::from(error) }
                .hint("choose another directory with --cache, or none with --no-cache"),
            InspectError::Pattern(_) | InspectError::NothingMatches { .. } => Self::usage(message),
            InspectError::Interrupted => Self::new(FailureKind::Interrupted, message),
        }
    }
}

impl From<PocketError> for Failure {
    fn from(error: PocketError) -> Self {
        let message = message_of(&error);
        match error {
            PocketError::Train(error) => error.into(),
            PocketError::Checkpoint(error) => error.into(),
            PocketError::Output(error) => error.into(),
            PocketError::Unpack { source, .. } => Self::new(Self::from(source).kind, message),
            PocketError::Tokenizer(_) | PocketError::Config(_) | PocketError::NotCarried => {
                Self::general(message)
            }
        }
    }
}

impl From<StoredError> for Failure {
    fn from(error: StoredError) -> Self {
        let message = message_of(&error);
        match error {
            StoredError::File(error) => error.into(),
            StoredError::Unknown { .. } | StoredError::NotAMatrix { .. } => Self::usage(message)
                .hint("see `linwright inspect MODEL --by tensor` for all names and shapes"),
        }
    }
}

impl From<VendiError> for Failure {
    fn from(error: VendiError) -> Self {
        let message = message_of(&error);
        match error {
            VendiError::Interrupted => Self::new(FailureKind::Interrupted, message),
            VendiError::Rank { .. } | VendiError::Gamma(_) | VendiError::Order(_) => {
                Self::usage(message)
            }
            VendiError::NotSquare { .. }
            | VendiError::Empty { .. }
            | VendiError::NonFinite { .. }
            | VendiError::NotSymmetric { .. }
            | VendiError::Diagonal { .. }
            | VendiError::ZeroRow { .. }
            | VendiError::Count { .. }
            | VendiError::Negative { .. }
            | VendiError::Sum { .. }
            | VendiError::NoScale
            | VendiError::Dependent { .. }
            | VendiError::NoConvergence(_) => Self::general(message),
        }
    }
}

impl From<ConvergenceError> for Failure {
    fn from(error: ConvergenceError) -> Self {
        let message = message_of(&error);
        match error {
            ConvergenceError::Plan { .. } => Self::usage(message),
            ConvergenceError::Numerics { .. } | ConvergenceError::Operator(_) => {
                Self::general(message)
            }
            ConvergenceError::Interrupted => Self::new(FailureKind::Interrupted, message),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        let message = message_of(&error);
        match error {
            BenchError::Plan { .. } | BenchError::Operator(_) | BenchError::Nothing { .. } => {
                Self::usage(message)
            }
            BenchError::WrongAnswer { .. }
            | BenchError::NonFinite { .. }
            | BenchError::Model(_) => Self::general(message),
            BenchError::Interrupted => Self::new(FailureKind::Interrupted, message),
        }
    }
}

macro_rules! general {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::general(message_of(&error))
            }
        })*
    };
}

general!(DataError, GenerateError, ImageError, ReportError, TokenizerError);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    /// An error with its own message and an optional cause.
    #[derive(Debug)]
    struct Link(&'static str, Option<Box<Self>>);

    impl fmt::Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Link {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|link| link as &(dyn Error + 'static))
        }
    }

    #[test]
    fn every_cause_is_told_once() {
        let inner = Link("no such bit", None);
        let shown = Link("site q: no such bit", Some(Box::new(inner)));
        let hidden = Link("the model failed", Some(Box::new(shown)));
        assert_eq!(message_of(&hidden), "the model failed: site q: no such bit");
        assert_eq!(message_of(&Link("alone", None)), "alone");
    }
}
