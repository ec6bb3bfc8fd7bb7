//! Paired capture: inputs of a site in the edited network, and its outputs in the original one.
//!
//! Both networks run in lockstep on the same examples. Below the first edited stage they are equal,
//! and run once. States between stages are kept from one capture to the next, in memory within a
//! bound or else in an unnamed file, so that captures at rising stages cost one pass in all. A
//! capture that runs the original network through whole stages keeps its states after them as well,
//! and where several sites read an input their targets follow from sums over it (the module
//! `originals`). The results do not depend on the bound.
//!
//! Each member of a [`Team`] runs a part of the batches. Sums are exact, and samples are put in the
//! order of batches, so that the results do not depend on the team either.

mod collect;
mod exchange;
mod originals;

use crate::samples::Samples;
use crate::stats::{InputStats, SiteStats};
use collect::{Collector, Targets};
use linwright_ops::{Examples, LinearSlot, Network, NoProbe, Op, Probe, Seen, Shape, SiteId};
use linwright_run::Monitor;
use linwright_run::team::{Alone, Team, TeamError};
use linwright_tensor::{Mat, MatRef, Shelf};
use originals::Originals;
use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Memory bounds of activations, and the directory for larger ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of states kept in memory between captures, of both networks; larger ones go to a file
    /// if the network has [`Network::state_matrices`], and are recomputed otherwise.
    pub state_bytes: usize,
    /// Bytes of samples of one layer kept in memory; larger ones go to files.
    pub sample_bytes: usize,
    /// Directory of files of samples and states.
    pub scratch: PathBuf,
}

impl Bounds {
    /// Whether the states of both networks fit the bound, given `bytes` for one: those before a
    /// stage, and those of the original network after it.
    #[must_use]
    pub fn keep_states(&self, bytes: usize) -> bool {
        bytes.saturating_mul(3) <= self.state_bytes
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self { state_bytes: 400 << 20, sample_bytes: 600 << 20, scratch: std::env::temp_dir() }
    }
}

/// An error while capturing activations.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The network could not run.
    #[error(transparent)]
    Network(Box<dyn Error + Send + Sync>),
    /// A non-finite number.
    #[error("{what} of {site} is not finite while capturing")]
    NonFinite {
        /// Input or target.
        what: &'static str,
        /// The site.
        site: SiteId,
    },
    /// Samples cannot be stored.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Another member of the team is gone.
    #[error(transparent)]
    Team(#[from] TeamError),
    /// Cancelled by the caller.
    #[error("interrupted; the same command resumes")]
    Interrupted,
}

/// Form of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Sums over inputs only: targets are products of these inputs with the weight.
    Inputs,
    /// Sums over products of inputs with the original weight, without the inputs themselves: less
    /// for a weight with fewer outputs than inputs.
    Outputs,
    /// Sums over inputs and targets, which are outputs of the original network.
    Stats,
    /// The samples themselves.
    Samples,
}

impl Needs {
    /// Whether targets, outputs of the original network, are needed.
    #[must_use]
    pub fn has_targets(self) -> bool {
        matches!(self, Self::Stats | Self::Samples)
    }
}

/// Captured data of a site.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one per site, and it contains matrices")]
pub enum Evidence {
    /// Sums over the inputs of training and validation samples, shared by sites with one input.
    Inputs {
        /// Over the training samples.
        train: Arc<InputStats>,
        /// Over the validation samples.
        validation: Arc<InputStats>,
    },
    /// Sums over the products of training and validation inputs with the original weight.
    Outputs {
        /// Over the training samples.
        train: InputStats,
        /// Over the validation samples.
        validation: InputStats,
    },
    /// Sums over training and validation samples.
    Stats {
        /// Over the training samples.
        train: SiteStats,
        /// Over the validation samples.
        validation: SiteStats,
    },
    /// The samples themselves.
    Samples(Samples),
}

/// Captured data of one site, with its shape.
#[derive(Clone, Debug)]
pub struct SiteCapture {
    /// The site.
    pub site: SiteId,
    /// Shape of the weight.
    pub shape: Shape,
    /// Captured data.
    pub evidence: Evidence,
}

/// A site to capture, and in which form.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The site.
    pub site: &'a SiteId,
    /// The form.
    pub needs: Needs,
}

/// States of a batch before a stage.
#[derive(Clone, Debug)]
struct States<S> {
    original: S,
    /// That of the edited network; absent while it equals the original one. Without targets, the
    /// first one is that of the edited network.
    edited: Option<S>,
    /// That of the original network before a later stage, if it is known already.
    ahead: Option<(usize, S)>,
    /// Input in the edited network of the site that ended the stage of the last capture.
    last_input: Option<Mat<f32>>,
}

/// Storage of states until the next capture.
enum Place {
    Memory,
    File(Shelf),
    /// They are recomputed.
    Nowhere,
}

impl Place {
    /// Moves a matrix to a file, if matrices go there; false if the disk is full.
    fn takes(&self, matrix: &mut Mat<f32>) -> bool {
        match self {
            Self::Memory | Self::Nowhere => true,
            Self::File(shelf) => matrix.shelve(shelf).is_ok(),
        }
    }
}

/// A probe that knows the input of one site, and sees none.
struct KnownInput {
    site: SiteId,
    input: Option<Mat<f32>>,
}

impl Probe for KnownInput {
    fn wants(&self, _site: &SiteId) -> bool {
        false
    }

    fn on_forward(&mut self, _site: &SiteId, _seen: Seen<'_>) {}

    fn known_input(&mut self, site: &SiteId) -> Option<Mat<f32>> {
        self.input.take_if(|_| *site == self.site)
    }
}

/// The original and the edited network, with their states.
pub struct Lockstep<'a, N: Network> {
    original: &'a N,
    examples: &'a dyn Examples<N::Input>,
    bounds: Bounds,
    /// Assignment of batches to members.
    team: &'a dyn Team,
    /// Whether some capture needs outputs of the original network.
    has_targets: bool,
    /// Whether validation examples have separate sums.
    holds_out: bool,
    /// Whether the edited network differs before its first stage.
    begins_apart: bool,
    /// Stages of the edited network that differ from the original.
    edited: Vec<usize>,
    /// States of this member's batches before the stage with this index.
    cache: Option<(usize, Vec<States<N::State>>)>,
    /// The site of the last capture whose input is in these states, while no other slot of its
    /// stage was edited.
    last: Option<SiteId>,
}

impl<'a, N: Network> Lockstep<'a, N> {
    /// Starts with an unedited network.
    #[must_use]
    pub fn new(original: &'a N, examples: &'a dyn Examples<N::Input>, bounds: Bounds) -> Self {
        Self {
            original,
            examples,
            bounds,
            team: &Alone,
            has_targets: true,
            holds_out: true,
            begins_apart: false,
            edited: Vec::new(),
            cache: None,
            last: None,
        }
    }

    /// With an edited network that differs before its first stage, so that nothing is shared.
    #[must_use]
    pub fn begins_apart(self) -> Self {
        Self { begins_apart: true, ..self }
    }

    /// Runs the edited network alone: captures then have no targets ([`Needs::has_targets`]).
    #[must_use]
    pub fn without_targets(self) -> Self {
        Self { has_targets: false, ..self }
    }

    /// Adds validation examples to the training sums, for fits that need no validation; sums over
    /// validation samples are then empty. Samples are still divided.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { holds_out: false, ..self }
    }

    /// Divides the batches over the members of a team, which call the same captures.
    #[must_use]
    pub fn divided(self, team: &'a dyn Team) -> Self {
        Self { team, ..self }
    }

    /// Records that a stage of the edited network differs from the original.
    pub fn note_edit(&mut self, stage: usize) {
        self.edited.push(stage);
        if self.cache.as_ref().is_some_and(|(at, _)| *at > stage) {
            self.cache = None;
        }
        if self.cache.as_ref().is_some_and(|(at, _)| *at == stage) {
            self.last = None;
        }
    }

    /// As [`Self::note_edit`], for an edit of a single slot: if it was captured last and ends its
    /// stage, the slots before it need not run again.
    pub fn note_edit_of(&mut self, site: &SiteId, stage: usize) {
        let last = self.last.take_if(|last| last == site);
        self.note_edit(stage);
        self.last = last.filter(|_| self.cache.is_some());
    }

    /// Captures sites that read one input.
    ///
    /// # Errors
    /// [`CaptureError`] if the network fails, a number is not finite, or the capture is cancelled.
    ///
    /// # Panics
    /// If a site is not a slot of a stage, the sites read several inputs, or one needs targets and
    /// the lockstep has none.
    pub fn capture(
        &mut self,
        edited: &N,
        wanted: &[Wanted<'_>],
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<SiteCapture>, CaptureError> {
        let every = self.capture_for(edited, wanted, &|_, _| true, monitor)?;
        Ok(every.into_iter().flatten().collect())
    }

    /// Captures sites that read the same input for the team members that own them: `owns` decides
    /// whether a member gets the data of a site, by their numbers. Others get nothing.
    ///
    /// # Errors
    /// As [`Self::capture`], and if a member is gone.
    ///
    /// # Panics
    /// As [`Self::capture`].
    pub fn capture_for(
        &mut self,
        edited: &N,
        wanted: &[Wanted<'_>],
        owns: &dyn Fn(usize, usize) -> bool,
        monitor: &mut dyn Monitor,
    ) -> Result<Vec<Option<SiteCapture>>, CaptureError> {
        let slots = self.slots_of(wanted);
        let has_targets = wanted.iter().any(|wanted| wanted.needs.has_targets());
        assert!(self.has_targets || !has_targets, "targets of a lockstep without");
        let (stages, slots_inputs) = (stages_of(&slots), slots[0].shape().inp);
        let (from, mut old) = match self.cache.take() {
            Some((at, states)) if at <= stages.start => (at, Some(states.into_iter())),
            _ => (0, None),
        };
        let needs: Vec<Needs> = wanted.iter().map(|wanted| wanted.needs).collect();
        let differ = self.begins_apart || self.edited.iter().any(|stage| *stage < stages.end);
        let from_inputs = targets_from_inputs(&slots, &needs, differ);
        let targets = match (from_inputs, differ) {
            (false, _) => Targets::Outputs,
            (true, false) => Targets::Inputs,
            (true, true) => Targets::Originals(Box::new(Originals::new(slots[0].shape().inp))),
        };
        let mut collector = Collector::new(slots, wanted, targets, &self.bounds);
        collector.expect_rows(self.examples);
        // The states of a later stage follow from the input of the site that ended this one.
        let old_last = self.last.take();
        let last = match wanted {
            [Wanted { site, .. }] if self.original.ends_stage(site) => Some((*site).clone()),
            _ => None,
        };
        let (mut kept, mut place) = (Vec::new(), None);
        let (batches, size) = (self.examples.batches(), self.team.size());
        for round in (0..batches).step_by(size) {
            if monitor.interrupted() {
                return Err(CaptureError::Interrupted);
            }
            let (own, mut rows) = (round + self.team.rank(), None);
            if own < batches {
                let (states, input) =
                    (old.as_mut().and_then(Iterator::next), self.examples.batch(own));
                let before = from..stages.start;
                let mut states =
                    self.states_before(edited, &input, states, (before, old_last.as_ref()))?;
                let inputs = last.as_ref().map_or(0, |_| slots_inputs);
                let known =
                    place.get_or_insert_with(|| self.place_of(&mut states.original, inputs));
                if !Self::keep(&states, known, &mut kept) {
                    (*known, kept) = (Place::Nowhere, Vec::new());
                }
                let keeps = !matches!(known, Place::Nowhere);
                let targets = (wanted, from_inputs);
                let (recording, after) =
                    self.record(edited, &input, states, (&stages, keeps), targets)?;
                if let Some(states) = kept.last_mut() {
                    // What has no room in a file is computed again.
                    let after = after.map(|mut state| {
                        Self::put_away(&mut state, known).then_some((stages.end, state))
                    });
                    if let Some(after) = after {
                        states.ahead = after;
                    }
                    let mut input = last.as_ref().and(recording.input.clone());
                    let is_kept = input.iter_mut().all(|input| known.takes(input));
                    states.last_input = input.filter(|_| is_kept);
                }
                let is_training = !self.holds_out || own < self.examples.training_batches();
                rows = Some(collector.add(recording, is_training)?);
            }
            for index in round..batches.min(round + size) {
                let own = rows.take_if(|_| index == own);
                let is_training = index < self.examples.training_batches();
                collector.keep_samples(own, (self.team, index - round), owns, is_training)?;
            }
            monitor.progress(batches.min(round + size) as u64, batches as u64);
        }
        if !matches!(place, None | Some(Place::Nowhere)) {
            self.last = last.filter(|_| kept.iter().all(|states| states.last_input.is_some()));
            self.cache = Some((stages.start, kept));
        }
        collector.finish(self.team, owns)
    }

    /// The states of a batch before a stage, from those of an earlier one, if they were kept.
    fn states_before(
        &self,
        edited: &N,
        input: &N::Input,
        kept: Option<States<N::State>>,
        (stages, last): (Range<usize>, Option<&SiteId>),
    ) -> Result<States<N::State>, CaptureError> {
        let mut states = match kept {
            Some(states) => states,
            None => {
                let begin = |network: &N| network.begin(input).map_err(network_error);
                let apart = self.begins_apart.then(|| begin(edited)).transpose()?;
                States {
                    original: begin(self.original)?,
                    edited: apart,
                    ahead: None,
                    last_input: None,
                }
            }
        };
        let known = states
            .last_input
            .take()
            .zip(last)
            .map(|(input, site)| KnownInput { site: site.clone(), input: Some(input) });
        self.advance(edited, input, &mut states, (stages, known))?;
        Ok(states)
    }

    #[track_caller]
    fn slots_of(&self, wanted: &[Wanted<'_>]) -> Vec<&'a LinearSlot> {
        let slot = |wanted: &Wanted<'_>| {
            let slot = self.original.slot(wanted.site);
            slot.unwrap_or_else(|| panic!("{} is not a slot of the network", wanted.site))
        };
        let slots: Vec<&LinearSlot> = wanted.iter().map(slot).collect();
        let first = slots.first().expect("a site to capture");
        let other = slots.iter().find(|slot| slot.reads() != first.reads());
        assert!(other.is_none(), "{} and {other:?} read several inputs", first.id());
        slots
    }

    /// Bytes for this member's batches, from those for the first.
    fn bytes_of_all(&self, first: usize) -> usize {
        let rows = self.examples.rows(self.team.rank()).max(1);
        first.saturating_mul(self.examples.all_rows().div_ceil(self.team.size())) / rows
    }

    /// Storage for the states of all batches, chosen from the size of the first, and for inputs
    /// of this width beside them.
    fn place_of(&self, first: &mut N::State, inputs: usize) -> Place {
        let rows = self.examples.rows(self.team.rank()).max(1);
        // Of three states, as `keep_states` counts them.
        let inputs = (size_of::<f32>() * inputs * rows).div_ceil(3);
        if self.bounds.keep_states(self.bytes_of_all(N::state_bytes(first) + inputs)) {
            return Place::Memory;
        }
        match tempfile::tempfile_in(&self.bounds.scratch) {
            Ok(file) if !N::state_matrices(first).is_empty() => Place::File(Shelf::of(file)),
            _ => Place::Nowhere,
        }
    }

    /// Keeps the states of a batch; false if the disk is full, which only costs time.
    fn keep(states: &States<N::State>, place: &Place, kept: &mut Vec<States<N::State>>) -> bool {
        let mut copy = match place {
            Place::Nowhere => return true,
            Place::Memory | Place::File(_) => states.clone(),
        };
        copy.last_input = None;
        let States { original, edited, ahead, .. } = &mut copy;
        let ahead = ahead.as_mut().map(|(_, state)| state);
        let all = [Some(original), edited.as_mut(), ahead];
        let is_kept = all.into_iter().flatten().all(|state| Self::put_away(state, place));
        if is_kept {
            kept.push(copy);
        }
        is_kept
    }

    /// Moves a state to a file, if states go there; false if the disk is full.
    fn put_away(state: &mut N::State, place: &Place) -> bool {
        N::state_matrices(state).into_iter().all(|matrix| place.takes(matrix))
    }

    /// Records the inputs of sites in the edited network, and their outputs in the original one if
    /// a site needs them, or there as well their inputs if these are enough. If the networks are
    /// equal up to these stages, one pass gives both. Outputs come with the state of the original
    /// network after the stages, unless it is known already or no states are kept.
    fn record<'b>(
        &self,
        edited: &N,
        input: &N::Input,
        mut states: States<N::State>,
        (stages, keeps): (&Range<usize>, bool),
        (wanted, from_inputs): (&'b [Wanted<'b>], bool),
    ) -> Result<(Recording<'b>, Option<N::State>), CaptureError> {
        let mut state = match states.edited.take() {
            None if self.has_targets && self.edited.iter().any(|stage| stages.contains(stage)) => {
                Some(states.original.clone())
            }
            state => state,
        };
        let run = |network: &N, state: &mut N::State, mut recording: Recording<'b>| {
            let outcome = network.run_stages(state, input, stages.clone(), &mut recording);
            outcome.map(|()| recording).map_err(network_error)
        };
        if !wanted.iter().any(|wanted| wanted.needs.has_targets()) {
            let network = if self.has_targets && state.is_none() { self.original } else { edited };
            let state = state.as_mut().unwrap_or(&mut states.original);
            return Ok((run(network, state, Recording::of_inputs(wanted))?, None));
        }
        if from_inputs {
            let own = run(self.original, &mut states.original, Recording::of_inputs(wanted))?;
            let Some(mut state) = state else { return Ok((own, None)) };
            let inputs = run(edited, &mut state, Recording::of_inputs(wanted))?;
            return Ok((Recording { original_input: own.input, ..inputs }, None));
        }
        let to_the_end = keeps && states.ahead.is_none();
        let recording = Recording { to_the_end, ..Recording::new(wanted) };
        let mut recording = run(self.original, &mut states.original, recording)?;
        if let Some(mut state) = state {
            recording.input = run(edited, &mut state, Recording::of_inputs(wanted))?.input;
        }
        Ok((recording, to_the_end.then_some(states.original)))
    }

    /// Advances states through stages; those shared by both networks run once. The input of the
    /// site that ends the first stage of the edited network may be known.
    fn advance(
        &self,
        edited: &N,
        input: &N::Input,
        states: &mut States<N::State>,
        (stages, known): (Range<usize>, Option<KnownInput>),
    ) -> Result<(), CaptureError> {
        let first_edit = self.edited.iter().copied().min().unwrap_or(usize::MAX);
        let shared = if states.edited.is_some() {
            stages.start
        } else {
            first_edit.clamp(stages.start, stages.end)
        };
        let run = |network: &N, state: &mut N::State, stages: Range<usize>| {
            network.run_stages(state, input, stages, &mut NoProbe).map_err(network_error)
        };
        let run_edited = |state: &mut N::State, mut stages: Range<usize>| {
            if let (Some(mut known), false) = (known, stages.is_empty()) {
                let first = stages.start..stages.start + 1;
                let done = edited.run_stages(state, input, first, &mut known);
                done.map_err(network_error)?;
                stages.start += 1;
            }
            run(edited, state, stages)
        };
        if !self.has_targets {
            return run_edited(&mut states.original, stages);
        }
        let run_original = |states: &mut States<N::State>, mut stages: Range<usize>| {
            let is_on_the_way = |at: usize| stages.start < at && at <= stages.end;
            if let Some((at, state)) = states.ahead.take_if(|(at, _)| is_on_the_way(*at)) {
                (states.original, stages.start) = (state, at);
            }
            run(self.original, &mut states.original, stages)
        };
        run_original(states, stages.start..shared)?;
        if shared < stages.end {
            let state = states.edited.get_or_insert_with(|| states.original.clone());
            run_edited(state, shared..stages.end)?;
            run_original(states, shared..stages.end)?;
        }
        Ok(())
    }
}

/// The stages that compute some slots.
#[track_caller]
fn stages_of(slots: &[&LinearSlot]) -> Range<usize> {
    let stage = |slot: &&LinearSlot| slot.stage().expect("a slot of a stage");
    let stages = || slots.iter().map(stage);
    stages().min().unwrap_or(0)..stages().max().map_or(0, |last| last + 1)
}

/// Whether the targets of sites that read one input follow from sums over it in both networks for
/// less work than from outputs: where those with targets have more outputs together than inputs, or
/// these do not `differ` between the networks, and no site needs samples.
#[must_use]
pub fn targets_from_inputs(slots: &[&LinearSlot], needs: &[Needs], differ: bool) -> bool {
    let with_targets = || slots.iter().zip(needs).filter(|(_, needs)| **needs == Needs::Stats);
    let outputs: usize = with_targets().map(|(slot, _)| slot.shape().out).sum();
    let are_linear = with_targets().all(|(slot, _)| matches!(slot.op(), Op::Linear(_)));
    let inputs = slots.first().map_or(0, |slot| slot.shape().inp);
    let takes_less = if differ { outputs > inputs } else { outputs > 0 };
    !needs.contains(&Needs::Samples) && are_linear && takes_less
}

fn network_error(error: impl Error + Send + Sync + 'static) -> CaptureError {
    CaptureError::Network(Box::new(error))
}

/// Records the common input of sites, and their outputs if they are wanted, in one batch.
struct Recording<'a> {
    wanted: &'a [Wanted<'a>],
    input: Option<Mat<f32>>,
    /// Empty without outputs.
    outputs: Vec<Option<Mat<f32>>>,
    /// The same input in the original network, where outputs are not needed.
    original_input: Option<Mat<f32>>,
    /// Whether the pass runs to the end of its stages when everything is recorded.
    to_the_end: bool,
}

impl<'a> Recording<'a> {
    fn new(wanted: &'a [Wanted<'a>]) -> Self {
        Self { outputs: vec![None; wanted.len()], ..Self::of_inputs(wanted) }
    }

    fn of_inputs(wanted: &'a [Wanted<'a>]) -> Self {
        let (input, outputs) = (None, Vec::new());
        Self { wanted, input, outputs, original_input: None, to_the_end: false }
    }
}

impl Probe for Recording<'_> {
    fn wants(&self, site: &SiteId) -> bool {
        let seen = if self.outputs.is_empty() { &self.wanted[..1] } else { self.wanted };
        seen.iter().any(|wanted| wanted.site == site)
    }

    fn needs_inputs_alone(&self) -> bool {
        self.outputs.is_empty()
    }

    fn on_forward(&mut self, site: &SiteId, Seen { x, y, .. }: Seen<'_>) {
        for (index, wanted) in self.wanted.iter().enumerate() {
            if wanted.site == site {
                if index == 0 {
                    append(&mut self.input, x);
                }
                self.outputs.get_mut(index).iter_mut().for_each(|output| append(output, y));
            }
        }
    }

    fn satisfied(&self) -> bool {
        !self.to_the_end && self.input.is_some() && self.outputs.iter().all(Option::is_some)
    }
}

/// Appends rows: a slot may be shown several times in one pass.
fn append(all: &mut Option<Mat<f32>>, rows: MatRef<'_, f32>) {
    *all = Some(match all.take() {
        None => rows.to_mat(),
        Some(before) => {
            let (count, cols) = (before.rows() + rows.rows(), before.cols());
            let mut numbers = before.into_vec();
            (0..rows.rows()).for_each(|i| numbers.extend_from_slice(rows.row(i)));
            Mat::from_vec(count, cols, numbers)
        }
    });
}

fn check_finite(what: &'static str, site: &SiteId, mat: &Mat<f32>) -> Result<(), CaptureError> {
    match mat.data().iter().all(|v| v.is_finite()) {
        true => Ok(()),
        false => Err(CaptureError::NonFinite { what, site: site.clone() }),
    }
}

fn samples_error(source: std::io::Error) -> CaptureError {
    CaptureError::Io { path: PathBuf::from("activation samples"), source }
}
