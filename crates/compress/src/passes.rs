//! Times of the passes of captures, measured on a small input.

use crate::CompressError;
use crate::methods::SampleRows;
use crate::plan::InputEdits;
use crate::rates::fastest;
use linwright_measure::capture::Bounds;
use linwright_ops::{Examples, LinearSlot, Network, NoProbe, Probe, Seen, SiteId};
use std::collections::BTreeMap;
use std::error::Error;

/// Stages of a network: how long they take, and how many rows their slots have.
pub(crate) struct Passes {
    /// Seconds per row of the examples, by stage.
    seconds: Vec<f64>,
    /// Rows of each slot per row of the examples.
    rows: BTreeMap<SiteId, f64>,
    /// Rows of the examples, for training and in all.
    examples: [usize; 2],
    /// Whether states are kept from one capture to the next.
    keeps_states: bool,
}

/// What tells stages apart: role, shape and operator of their slots.
type Kind = Vec<(&'static str, usize, usize, &'static str)>;

/// Seconds per row of a stage, and rows of its slots in order.
#[derive(Clone)]
struct Measured {
    seconds: f64,
    rows: Vec<f64>,
}

/// Counts rows of slots.
#[derive(Default)]
struct Counting(BTreeMap<SiteId, usize>);

impl Probe for Counting {
    fn wants(&self, _site: &SiteId) -> bool {
        true
    }

    fn on_forward(&mut self, site: &SiteId, seen: Seen<'_>) {
        *self.0.entry(site.clone()).or_default() += seen.x.rows();
    }
}

impl Passes {
    /// Measures the stages up to the last one that is edited, of equal ones only the first.
    pub(crate) fn measure<N: Network>(
        network: &N,
        examples: &dyn Examples<N::Input>,
        edits: &[InputEdits<'_>],
    ) -> Result<Self, CompressError> {
        let (input, input_rows) = examples.small();
        let per_row = |value: f64| value / input_rows.max(1) as f64;
        let mut state = network.begin(&input).map_err(failed)?;
        let bytes = per_row(N::state_bytes(&state) as f64) * examples.all_rows() as f64;
        let keeps_states = Bounds::default().keep_states(bytes as usize)
            || !N::state_matrices(&mut state).is_empty();
        let slots = network.slots();
        let last = edits.iter().flat_map(|group| &group.slots).map(|slot| slot.stage).max();
        let mut known: BTreeMap<Kind, Measured> = BTreeMap::new();
        let (mut seconds, mut rows, mut at) = (Vec::new(), BTreeMap::new(), 0);
        for stage in 0..last.map_or(0, |last| last + 1) {
            let here: Vec<&LinearSlot> =
                slots.iter().copied().filter(|slot| slot.stage() == Some(stage)).collect();
            let kind: Kind = here.iter().map(|slot| kind_of(slot)).collect();
            let measured = match known.get(&kind).filter(|_| !kind.is_empty()) {
                Some(measured) => measured.clone(),
                None => {
                    let passed = at..stage;
                    network.run_stages(&mut state, &input, passed, &mut NoProbe).map_err(failed)?;
                    at = stage;
                    let mut counted = Counting::default();
                    let taken = fastest(|| {
                        counted = Counting::default();
                        let (state, stages) = (&mut state.clone(), stage..stage + 1);
                        network.run_stages(state, &input, stages, &mut counted).map_err(failed)
                    })?;
                    let count = |slot: &&LinearSlot| {
                        per_row(counted.0.get(slot.id()).copied().unwrap_or_default() as f64)
                    };
                    Measured { seconds: per_row(taken), rows: here.iter().map(count).collect() }
                }
            };
            seconds.push(measured.seconds);
            let sites = here.iter().map(|slot| slot.id().clone());
            rows.extend(sites.zip(measured.rows.iter().copied()));
            known.insert(kind, measured);
        }
        let examples = [examples.training_rows(), examples.all_rows()];
        Ok(Self { seconds, rows, examples, keeps_states })
    }

    /// Rows of a slot in all examples.
    pub(crate) fn rows_of(&self, slot: &LinearSlot) -> SampleRows {
        let share = self.rows.get(slot.id()).copied().unwrap_or(1.0);
        let [train, all] = self.examples.map(|rows| (share * rows as f64).round() as usize);
        SampleRows { train, validation: all - train }
    }

    /// Seconds of the passes of all captures, as [`linwright_measure::capture::Lockstep`] does
    /// them: each continues from the stage of the one before if its states were kept, and edited
    /// stages run in both networks if some capture needs targets.
    pub(crate) fn seconds_of(&self, edits: &[InputEdits<'_>], has_targets: bool) -> f64 {
        let (mut seconds, mut at, mut first_edit) = (0.0, 0, usize::MAX);
        for group in edits {
            let stages = || group.slots.iter().map(|slot| slot.stage);
            let (start, end) = (stages().min().unwrap_or(0), stages().max().unwrap_or(0) + 1);
            let from = if self.keeps_states && at <= start { at } else { 0 };
            let networks =
                |stage: usize| if stage < first_edit || !has_targets { 1.0 } else { 2.0 };
            seconds += (from..end).map(|stage| networks(stage) * self.seconds[stage]).sum::<f64>();
            (at, first_edit) = (start, first_edit.min(start));
        }
        seconds * self.examples[1] as f64
    }
}

fn kind_of(slot: &LinearSlot) -> (&'static str, usize, usize, &'static str) {
    let shape = slot.shape();
    (slot.role().name(), shape.out, shape.inp, slot.op().map().spec().kind())
}

fn failed(error: impl Error + Send + Sync + 'static) -> CompressError {
    CompressError::Network(Box::new(error))
}
