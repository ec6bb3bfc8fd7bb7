//! Times of the passes of captures, measured on a small input.

use crate::CompressError;
use crate::methods::SampleRows;
use crate::plan::InputEdits;
use crate::rates::fastest;
use linwright_measure::capture::{Bounds, Needs, targets_from_inputs};
use linwright_ops::{Examples, LinearSlot, Network, NoProbe, Probe, Seen, SiteId};
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;

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

/// What the time of a capture depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CaptureForm {
    /// Whether its targets come from inputs.
    pub(crate) from_inputs: bool,
    /// The share of its stage, by weights, that is left to run once its input is known.
    pub(crate) left: Option<f64>,
}

impl CaptureForm {
    /// Of slots that read one input.
    pub(crate) fn of<N: Network>(network: &N, slots: &[&LinearSlot], needs: &[Needs]) -> Self {
        let size = |slot: &LinearSlot| slot.shape().dense_parameters() as f64;
        let left = match slots {
            [last] if network.ends_stage(last.id()) => {
                let stage = network.slots().into_iter().filter(|s| s.stage() == last.stage());
                Some(size(last) / stage.map(size).sum::<f64>().max(1.0))
            }
            _ => None,
        };
        Self { from_inputs: targets_from_inputs(slots, needs, true), left }
    }
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
    /// them: each continues from the stage of the one before if its states were kept. The first
    /// capture at a stage needs little more than its norm of the edited network, others run it to
    /// their input, where the last one resumes; the original network runs through a stage
    /// where its outputs are targets, and otherwise once on the way.
    pub(crate) fn seconds_of(
        &self,
        edits: &[InputEdits<'_>],
        forms: &[CaptureForm],
        has_targets: bool,
    ) -> f64 {
        let of = |stages: Range<usize>| self.seconds[stages].iter().sum::<f64>();
        let (mut seconds, mut at, mut ahead, mut first_edit) = (0.0, None, 0, usize::MAX);
        // The part of the stage of the last capture that need not run again.
        let mut known = 0.0;
        for (group, form) in edits.iter().zip(forms) {
            let stages = || group.slots.iter().map(|slot| slot.stage);
            let (start, end) = (stages().min().unwrap_or(0), stages().max().unwrap_or(0) + 1);
            let from = at.filter(|at| self.keeps_states && *at <= start).unwrap_or(0);
            let is_later = at == Some(start);
            ahead = if self.keeps_states { ahead.max(from) } else { 0 };
            if from < start && self.keeps_states {
                seconds -= known;
            }
            if has_targets {
                seconds += of(ahead.min(start)..start);
                seconds += of(from.max(first_edit).min(start)..start);
                ahead = ahead.max(start);
                if !form.from_inputs && ahead < end {
                    seconds += of(start..end);
                    ahead = end;
                }
            } else {
                seconds += of(from..start);
            }
            seconds += if is_later { of(start..end) } else { 0.0 };
            known = form.left.map_or(0.0, |left| (1.0 - left) * of(start..end));
            (at, first_edit) = (Some(start), first_edit.min(start));
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
