//! The memory that `linwright compress` takes at its peak, estimated before the work.

use super::Compress;
use super::edits::Edits;
use crate::jobs::kit::room::held_bytes;
use crate::jobs::kit::source::OpenModel;
use crate::jobs::kit::{ByteSize, Failure, FailureKind};
use crate::jobs::language::offload::Offload;
use linwright_compress::recover::BYTES_PER_PARAMETER;
use linwright_compress::{FitMemory, memory};
use linwright_lm::LmError;
use linwright_measure::capture::Bounds;
use linwright_model::checkpoint::Precision;
use linwright_model::{Batch, Windows};
use linwright_ops::{Examples, Network, Sites};
use linwright_report::number::bytes;
use linwright_run::memory::resident_bytes;
use linwright_tensor::dtype::DType;
use serde::{Deserialize, Serialize};

/// The program, its threads, and blocks of logits.
const FIXED: u64 = 64 << 20;
/// Bytes of a number of a weight in memory.
const NUMBER: u64 = size_of::<f32>() as u64;
/// Matrices of doubles, as large as those of the widest inputs, that a pruning method holds.
const OF_PRUNING: u64 = 6;

/// Memory in bytes at the heights of a compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peak {
    /// While the last layers are fitted.
    fits: u64,
    /// While the replaced layers are trained; zero without a recovery.
    recovery: u64,
    /// While both models are scored; zero without tasks.
    evaluation: u64,
    /// While the saved model is loaded back.
    saving: u64,
}

/// What a compression works with.
pub(super) struct Means<'a> {
    pub(super) model: &'a OpenModel,
    pub(super) windows: Option<&'a Windows>,
    pub(super) offload: Option<&'a Offload>,
    /// Whether both models are scored.
    pub(super) has_tasks: bool,
}

impl Peak {
    /// That of these edits of a loaded model.
    pub(super) fn of(job: &Compress, edits: &Edits, means: &Means<'_>) -> Result<Self, Failure> {
        let Means { model, windows, offload, has_tasks } = *means;
        let decoder = &model.loaded.decoder;
        // What is mapped from files is not resident before it is read.
        let held = held_bytes(&model.place.path, Precision::Auto);
        let resident = resident_bytes().unwrap_or_default().max(held + FIXED);
        let mut fits = of_edits(edits, means)?;
        let beside = (NUMBER * decoder.dense_parameters()).saturating_sub(fits.replaced);
        let mut back = beside + fits.operators;
        if offload.is_some() {
            // Weights and finished layers are in files, one layer at a time in memory.
            (fits.operators, back) = (0, 0);
        }
        let states = windows.map_or(0, |windows| {
            let both = 2 * NUMBER * (windows.all_rows() * decoder.config().hidden) as u64;
            both.min(offload.map_or_else(Bounds::default, Offload::bounds).state_bytes as u64)
        });
        let batch = (job.evaluation.batch_size.tokens() * decoder.bytes_per_token()) as u64;
        let dtype = job.dtype.map_or(model.loaded.source.dtype, |dtype| dtype.dtype());
        // Numbers of a 16-bit file stand beside those that were fitted.
        let rounded = match dtype {
            DType::Bf16 | DType::F16 => fits.operators + beside / 2,
            _ => 0,
        };
        let base = resident + fits.operators;
        Ok(Self {
            fits: base + fits.largest_fit + states,
            recovery: match job.recover {
                Some(_) => base + fits.operators / NUMBER * BYTES_PER_PARAMETER,
                None => 0,
            },
            evaluation: if has_tasks { base + rounded + batch + FIXED } else { 0 },
            saving: base + back,
        })
    }

    /// The highest of them.
    pub(super) fn bytes(self) -> u64 {
        self.fits.max(self.recovery).max(self.evaluation).max(self.saving)
    }

    /// Refuses work that would take more than is allowed.
    pub(super) fn check(self, allowed: Option<ByteSize>) -> Result<(), Failure> {
        match allowed {
            Some(ByteSize(allowed)) if self.bytes() > allowed => {
                let reason = format!(
                    "this compression takes about {} of memory (fits {}, recovery {}, \
                     evaluation {}, saving {}): more than --max-memory {allowed} allows",
                    bytes(self.bytes()),
                    bytes(self.fits),
                    bytes(self.recovery),
                    bytes(self.evaluation),
                    bytes(self.saving)
                );
                Err(Failure::new(FailureKind::Resources, reason).hint(
                    "give --offload, which keeps one layer in memory, or fewer tokens by \
                     batch_size of --evaluation and num_tokens of --calibration",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// What the fits take beside the original model.
fn of_edits(edits: &Edits, means: &Means<'_>) -> Result<FitMemory, Failure> {
    let decoder = &means.model.loaded.decoder;
    match edits {
        Edits::Plan(plan) => {
            let examples = means.windows.map(|windows| windows as &dyn Examples<Batch>);
            Ok(memory(plan, decoder, examples)?)
        }
        Edits::Pruning(spec, cut) => {
            let sizes = spec.sizes(decoder, cut).map_err(LmError::from)?;
            let sum = |of: fn(&_) -> usize| NUMBER * sizes.iter().map(of).sum::<usize>() as u64;
            let widest = decoder.slots().iter().map(|slot| slot.shape().inp).max().unwrap_or(0);
            let largest_fit = OF_PRUNING * size_of::<f64>() as u64 * (widest * widest) as u64;
            let operators = sum(|size: &linwright_lm::prune::SiteSize| size.kept);
            let replaced = sum(|size: &linwright_lm::prune::SiteSize| size.dense);
            Ok(FitMemory { operators, replaced, largest_fit })
        }
    }
}
