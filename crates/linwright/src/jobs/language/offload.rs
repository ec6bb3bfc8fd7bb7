//! Models larger than memory: weights, states and operators in files.

use crate::jobs::kit::source::{OpenModel, Place, find_model, open_offloaded};
use crate::jobs::kit::{Failure, Session};
use linwright_files::Weights;
use linwright_report::number::bytes;
use linwright_run::memory::total_bytes;
use linwright_tensor::Shelf;
use std::path::{Path, PathBuf};

/// Bytes of states, and of samples, in memory: beyond it they go to files too.
const IN_MEMORY: usize = 64 << 20;

/// Where a job puts what does not stay in memory.
pub(in crate::jobs) struct Offload {
    pub(in crate::jobs) shelf: Shelf,
    /// The directory of further files.
    scratch: PathBuf,
}

impl Offload {
    /// The bounds of a capture.
    pub(in crate::jobs) fn bounds(&self) -> linwright_measure::capture::Bounds {
        linwright_measure::capture::Bounds {
            state_bytes: IN_MEMORY,
            sample_bytes: IN_MEMORY,
            scratch: self.scratch.clone(),
        }
    }
}

/// Opens a model; its weights stay in their files if that is asked for, or if in `f32` they would
/// take more than half of the machine's memory. Files without a name are beside `output`, where the
/// disk must have room for the result anyway.
pub(in crate::jobs) fn open(
    model: &str,
    asked: bool,
    output: &Path,
    session: &mut Session<'_>,
) -> Result<(OpenModel, Option<Offload>), Failure> {
    let place = find_model(model, session)?;
    if !asked && !is_large(&place, session) {
        return Ok((crate::jobs::kit::source::open_place(model, place, session)?, None));
    }
    let beside = output.parent().filter(|beside| beside.is_dir());
    let scratch = beside.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let file = tempfile::tempfile_in(&scratch)
        .map_err(|error| Failure::io(&format!("a file in {}", scratch.display()), &error))?;
    let shelf = Shelf::of(file);
    let model = open_offloaded(model, place, &shelf, session)?;
    Ok((model, Some(Offload { shelf, scratch })))
}

/// Opens a model whose weights are read one after another: they stay in their files.
pub(crate) fn open_mapped(model: &str, session: &mut Session<'_>) -> Result<OpenModel, Failure> {
    let place = find_model(model, session)?;
    let file = tempfile::tempfile()
        .map_err(|error| Failure::io("a file in the directory for temporary files", &error))?;
    open_offloaded(model, place, &Shelf::of(file), session)
}

/// Whether the weights in `f32` take more than half of the machine's memory, which is told.
fn is_large(place: &Place, session: &Session<'_>) -> bool {
    let (Ok(weights), Some(memory)) = (Weights::open(&place.path), total_bytes()) else {
        return false;
    };
    let numbers = |name| {
        let shape = weights.info(name).map_or(&[][..], |info| &info.shape);
        shape.iter().map(|&side| side as u64).product::<u64>()
    };
    let needed = weights.names().map(numbers).sum::<u64>().saturating_mul(4);
    let large = needed > memory / 2;
    if large {
        session.note(&format!(
            "note: the weights would take {} of {} of memory, so they stay in their files, as with \
             --offload",
            bytes(needed),
            bytes(memory)
        ));
    }
    large
}
