//! Paired capture: inputs of a site in the edited network, and its outputs in the original one.
//!
//! Both networks run in lockstep on the same examples. Below the first edited stage they are equal,
//! and run once. States between stages are kept from one capture to the next, in memory within a
//! bound or else in an unnamed file, so that captures at rising stages cost one pass in all. The
//! results do not depend on the bound.
//!
//! Each member of a [`Team`] runs a part of the batches. Sums are exact, and samples are put in the
//! order of batches, so that the results do not depend on the team either.

mod exchange;

use crate::samples::{RowWriter, Rows, Samples};
use crate::stats::{InputStats, InputSums, SiteStats, TargetSums};
use exchange::{BatchRows, merged};
use linwright_ops::{
    Examples, LinearSlot, Network, NoProbe, Probe, Seen, Shape, SiteId, Workspace,
};
use linwright_run::Monitor;
use linwright_run::team::{Alone, Team, TeamError};
use linwright_tensor::{Mat, MatRef, Shelf};
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
    /// Whether the states of both networks fit the bound, given `bytes` for one.
    #[must_use]
    pub fn keep_states(&self, bytes: usize) -> bool {
        bytes.saturating_mul(2) <= self.state_bytes
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
}

/// Storage of states until the next capture.
enum Place {
    Memory,
    File(Shelf),
    /// They are recomputed.
    Nowhere,
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
        let stages = stages_of(&slots);
        let (from, mut old) = match self.cache.take() {
            Some((at, states)) if at <= stages.start => (at, Some(states.into_iter())),
            _ => (0, None),
        };
        let mut collector = Collector::new(slots, wanted, &self.bounds);
        collector.expect_rows(self.examples);
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
                let mut states = self.states_before(edited, &input, states, from..stages.start)?;
                let known = place.get_or_insert_with(|| self.place_of(&mut states.original));
                if !Self::keep(&states, known, &mut kept) {
                    (*known, kept) = (Place::Nowhere, Vec::new());
                }
                let recording = self.record(edited, &input, states, &stages, wanted)?;
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
        stages: Range<usize>,
    ) -> Result<States<N::State>, CaptureError> {
        let mut states = match kept {
            Some(states) => states,
            None => {
                let begin = |network: &N| network.begin(input).map_err(network_error);
                let apart = self.begins_apart.then(|| begin(edited)).transpose()?;
                States { original: begin(self.original)?, edited: apart }
            }
        };
        self.advance(edited, input, &mut states, stages)?;
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

    /// Bytes of the states of this member's batches, estimated from the first.
    fn bytes_of_all(&self, first: &N::State) -> usize {
        let (bytes, rows) = (N::state_bytes(first), self.examples.rows(self.team.rank()).max(1));
        bytes.saturating_mul(self.examples.all_rows().div_ceil(self.team.size())) / rows
    }

    /// Storage for the states of all batches, chosen from the size of the first.
    fn place_of(&self, first: &mut N::State) -> Place {
        if self.bounds.keep_states(self.bytes_of_all(first)) {
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
        if let Place::File(shelf) = place {
            let both = [Some(&mut copy.original), copy.edited.as_mut()];
            let mut all = both.into_iter().flatten().flat_map(N::state_matrices);
            if all.any(|matrix| matrix.shelve(shelf).is_err()) {
                return false;
            }
        }
        kept.push(copy);
        true
    }

    /// Records the inputs of sites in the edited network, and their outputs in the original one if
    /// a site needs them. If the networks are equal up to these stages, one pass gives both.
    fn record<'b>(
        &self,
        edited: &N,
        input: &N::Input,
        mut states: States<N::State>,
        stages: &Range<usize>,
        wanted: &'b [Wanted<'b>],
    ) -> Result<Recording<'b>, CaptureError> {
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
            return run(network, state, Recording::of_inputs(wanted));
        }
        let recording = run(self.original, &mut states.original, Recording::new(wanted))?;
        let Some(mut state) = state else { return Ok(recording) };
        let inputs = run(edited, &mut state, Recording::of_inputs(wanted))?;
        Ok(Recording { input: inputs.input, ..recording })
    }

    /// Advances states through stages; those shared by both networks run once.
    fn advance(
        &self,
        edited: &N,
        input: &N::Input,
        states: &mut States<N::State>,
        stages: Range<usize>,
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
        if !self.has_targets {
            return run(edited, &mut states.original, stages);
        }
        run(self.original, &mut states.original, stages.start..shared)?;
        if shared < stages.end {
            let state = states.edited.get_or_insert_with(|| states.original.clone());
            run(edited, state, shared..stages.end)?;
            run(self.original, &mut states.original, shared..stages.end)?;
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

fn network_error(error: impl Error + Send + Sync + 'static) -> CaptureError {
    CaptureError::Network(Box::new(error))
}

/// Records the common input of sites, and their outputs if they are wanted, in one batch.
struct Recording<'a> {
    wanted: &'a [Wanted<'a>],
    input: Option<Mat<f32>>,
    /// Empty without outputs.
    outputs: Vec<Option<Mat<f32>>>,
}

impl<'a> Recording<'a> {
    fn new(wanted: &'a [Wanted<'a>]) -> Self {
        Self { wanted, input: None, outputs: vec![None; wanted.len()] }
    }

    fn of_inputs(wanted: &'a [Wanted<'a>]) -> Self {
        Self { wanted, input: None, outputs: Vec::new() }
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
        self.input.is_some() && self.outputs.iter().all(Option::is_some)
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

/// Collects the data of sites that read one input.
struct Collector<'a> {
    sites: Vec<SiteCollector<'a>>,
    bounds: Bounds,
    /// Training and validation sums over the inputs, if a site needs sums.
    sums: Option<[InputSums; 2]>,
    /// The inputs, if a site needs samples.
    inputs: Option<RowWriter>,
    /// Rows of all batches before the first stage, and those of the first batch.
    rows: [usize; 2],
    train_rows: usize,
    workspace: Workspace<f32>,
}

/// Collects the data of one site.
struct SiteCollector<'a> {
    slot: &'a LinearSlot,
    needs: Needs,
    /// Training and validation sums over the targets.
    sums: Option<[TargetSums; 2]>,
    /// The same over products of the inputs with the weight.
    outputs: Option<[InputSums; 2]>,
    targets: Option<RowWriter>,
}

impl<'a> Collector<'a> {
    fn new(slots: Vec<&'a LinearSlot>, wanted: &[Wanted<'_>], bounds: &Bounds) -> Self {
        let site = |(slot, wanted): (&'a LinearSlot, &Wanted<'_>)| {
            let empty = || TargetSums::new(slot.shape().out, slot.shape().inp);
            let sums = (wanted.needs == Needs::Stats).then(|| [empty(), empty()]);
            let empty = || InputSums::new(slot.shape().out);
            let outputs = (wanted.needs == Needs::Outputs).then(|| [empty(), empty()]);
            SiteCollector { slot, needs: wanted.needs, sums, outputs, targets: None }
        };
        let empty = || InputSums::new(slots[0].shape().inp);
        let of_inputs = |wanted: &Wanted<'_>| matches!(wanted.needs, Needs::Inputs | Needs::Stats);
        let has_sums = wanted.iter().any(of_inputs);
        let sums = has_sums.then(|| [empty(), empty()]);
        let sites = slots.into_iter().zip(wanted).map(site).collect();
        Self {
            sites,
            bounds: bounds.clone(),
            sums,
            inputs: None,
            rows: [0; 2],
            train_rows: 0,
            workspace: Workspace::default(),
        }
    }

    /// Sets the expected numbers of rows.
    fn expect_rows<I>(&mut self, examples: &dyn Examples<I>) {
        self.rows = [examples.all_rows(), examples.rows(0).max(1)];
    }

    /// Adds a batch to the sums; returns its rows.
    fn add(
        &mut self,
        recording: Recording<'_>,
        is_training: bool,
    ) -> Result<BatchRows, CaptureError> {
        let Some(x) = recording.input else {
            unreachable!("the stages ran without passing their sites")
        };
        check_finite("the input", self.sites[0].slot.id(), &x)?;
        let part = usize::from(!is_training);
        if let Some(sums) = &mut self.sums {
            sums[part].add(x.view());
        }
        for site in &mut self.sites {
            if let Some(outputs) = &mut site.outputs {
                let mut y = Mat::zeros(x.rows(), site.slot.shape().out);
                site.slot.op().map().forward(x.view(), y.view_mut(), None, &mut self.workspace);
                check_finite("the output", site.slot.id(), &y)?;
                outputs[part].add(y.view());
            }
        }
        let mut targets = Vec::new();
        // Without targets there are no outputs of the original network.
        for (site, y) in self.sites.iter_mut().zip(recording.outputs) {
            let Some(mut y) = y else { unreachable!("the stages ran without passing their sites") };
            check_finite("the target", site.slot.id(), &y)?;
            if let Some(bias) = site.slot.bias() {
                for i in 0..y.rows() {
                    y.row_mut(i).iter_mut().zip(bias).for_each(|(y, b)| *y -= b);
                }
            }
            if let Some(sums) = &mut site.sums {
                sums[part].add(x.view(), y.view());
            }
            if site.needs == Needs::Samples {
                targets.push(y);
            }
        }
        Ok(BatchRows { x, targets })
    }

    /// Keeps the rows of the next batch, held by one member of the team, if a site needs samples.
    fn keep_samples(
        &mut self,
        own: Option<BatchRows>,
        (team, from): (&dyn Team, usize),
        owns: &dyn Fn(usize, usize) -> bool,
        is_training: bool,
    ) -> Result<(), CaptureError> {
        let outputs = self.sites.iter().filter(|site| site.needs == Needs::Samples);
        let outputs: Vec<usize> = outputs.map(|site| site.slot.shape().out).collect();
        if outputs.is_empty() {
            return Ok(());
        }
        let rows = BatchRows::shared(own, (team, from), self.sites[0].slot.shape().inp, &outputs)?;
        let sites = self.sites.iter().enumerate();
        let mut sampled = sites.filter(|(_, site)| site.needs == Needs::Samples);
        if !sampled.any(|(index, _)| owns(team.rank(), index)) {
            return Ok(());
        }
        self.open_samples(rows.x.rows())?;
        if let Some(inputs) = &mut self.inputs {
            inputs.push(rows.x.view()).map_err(samples_error)?;
        }
        let targets = self.sites.iter_mut().filter_map(|site| site.targets.as_mut());
        for (targets, y) in targets.zip(&rows.targets) {
            targets.push(y.view()).map_err(samples_error)?;
        }
        if is_training {
            self.train_rows += rows.x.rows();
        }
        Ok(())
    }

    /// Opens the samples with the first batch, which determines the number of rows of a slot.
    fn open_samples(&mut self, first: usize) -> Result<(), CaptureError> {
        let with_samples = || self.sites.iter().filter(|site| site.needs == Needs::Samples);
        let count = with_samples().count();
        if self.inputs.is_some() || count == 0 {
            return Ok(());
        }
        let Bounds { sample_bytes, scratch, .. } = &self.bounds;
        let [all, of_first] = self.rows;
        let expected = (first * all).div_ceil(of_first);
        let open = |cols: usize| {
            RowWriter::new(cols, expected, sample_bytes / (1 + count), scratch)
                .map_err(|source| CaptureError::Io { path: scratch.clone(), source })
        };
        self.inputs = Some(open(self.sites[0].slot.shape().inp)?);
        for site in self.sites.iter_mut().filter(|site| site.needs == Needs::Samples) {
            site.targets = Some(open(site.slot.shape().out)?);
        }
        Ok(())
    }

    /// Data of each site, on the members that own it.
    fn finish(
        self,
        team: &dyn Team,
        owns: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Vec<Option<SiteCapture>>, CaptureError> {
        let inputs = match self.sums {
            Some(sums) => {
                let any = |member: usize| (0..self.sites.len()).any(|site| owns(member, site));
                let whole = merged(sums, team, &any)?;
                whole.map(|sums| sums.map(|sums| Arc::new(sums.finish())))
            }
            None => None,
        };
        let x = self.inputs.map(RowWriter::finish).transpose().map_err(samples_error)?;
        let common = Common { inputs, x, train: self.train_rows };
        let sites = self.sites.into_iter().enumerate();
        sites.map(|(index, site)| site.finish(team, &|m| owns(m, index), &common)).collect()
    }
}

/// Data shared by sites with one input: sums over it, or its samples.
struct Common {
    inputs: Option<[Arc<InputStats>; 2]>,
    x: Option<Rows>,
    /// Training samples.
    train: usize,
}

impl SiteCollector<'_> {
    /// Data of the site, on the members that own it.
    fn finish(
        self,
        team: &dyn Team,
        owns: &dyn Fn(usize) -> bool,
        common: &Common,
    ) -> Result<Option<SiteCapture>, CaptureError> {
        let Self { slot, sums, outputs, targets, .. } = self;
        let evidence = match (outputs, sums, targets) {
            (Some(outputs), ..) => merged(outputs, team, owns)?.map(|outputs| {
                let [train, validation] = outputs.map(InputSums::finish);
                Evidence::Outputs { train, validation }
            }),
            (None, Some(sums), _) => {
                let both = merged(sums, team, owns)?.zip(common.inputs.clone());
                both.map(|([first, second], [train, validation])| Evidence::Stats {
                    train: first.finish(train),
                    validation: second.finish(validation),
                })
            }
            (None, None, Some(targets)) => {
                let y = targets.finish().map_err(samples_error)?;
                let samples = |x: &Rows| Samples { x: x.clone(), y, train: common.train };
                common.x.as_ref().map(samples).map(Evidence::Samples)
            }
            (None, None, None) => common
                .inputs
                .clone()
                .map(|[train, validation]| Evidence::Inputs { train, validation }),
        };
        let (site, shape) = (slot.id().clone(), slot.shape());
        match (owns(team.rank()), evidence) {
            (false, _) => Ok(None),
            (true, Some(evidence)) => Ok(Some(SiteCapture { site, shape, evidence })),
            (true, None) => unreachable!("a site has sums or samples after the first batch"),
        }
    }
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
