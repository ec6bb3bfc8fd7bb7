//! Collects what captures record, batch by batch.

use super::exchange::{BatchRows, merged};
use super::originals::{OriginalStats, Originals, of_equal};
use super::{
    Bounds, CaptureError, Evidence, Needs, Recording, SiteCapture, Wanted, check_finite,
    samples_error,
};
use crate::samples::{RowWriter, Rows, Samples};
use crate::stats::{InputStats, InputSums, TargetSums};
use linwright_ops::{Examples, LinearSlot, Workspace};
use linwright_run::team::Team;
use linwright_tensor::Mat;
use std::sync::Arc;

/// Collects the data of sites that read one input.
pub(super) struct Collector<'a> {
    sites: Vec<SiteCollector<'a>>,
    bounds: Bounds,
    /// Training and validation sums over the inputs, if a site needs sums.
    sums: Option<[InputSums; 2]>,
    /// Where targets come from.
    targets: Targets,
    /// The inputs, if a site needs samples.
    inputs: Option<RowWriter>,
    /// Rows of all batches before the first stage, and those of the first batch.
    rows: [usize; 2],
    train_rows: usize,
    workspace: Workspace<f32>,
}

/// Where the targets of sums come from.
pub(super) enum Targets {
    /// Outputs of the original network.
    Outputs,
    /// Its inputs, which are those of the edited one.
    Inputs,
    /// Its inputs, which differ from those of the edited one.
    Originals(Box<Originals>),
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
    pub(super) fn new(
        slots: Vec<&'a LinearSlot>,
        wanted: &[Wanted<'_>],
        targets: Targets,
        bounds: &Bounds,
    ) -> Self {
        let of_outputs = matches!(targets, Targets::Outputs);
        let site = |(slot, wanted): (&'a LinearSlot, &Wanted<'_>)| {
            let empty = || TargetSums::new(slot.shape().out, slot.shape().inp);
            let has_sums = of_outputs && wanted.needs == Needs::Stats;
            let sums = has_sums.then(|| [empty(), empty()]);
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
            targets,
            inputs: None,
            rows: [0; 2],
            train_rows: 0,
            workspace: Workspace::default(),
        }
    }

    /// Sets the expected numbers of rows.
    pub(super) fn expect_rows<I>(&mut self, examples: &dyn Examples<I>) {
        self.rows = [examples.all_rows(), examples.rows(0).max(1)];
    }

    /// Adds a batch to the sums; returns its rows.
    pub(super) fn add(
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
        if let Targets::Originals(originals) = &mut self.targets {
            let Some(original) = &recording.original_input else {
                unreachable!("the original network ran to its input")
            };
            originals.add(part, original, &x, self.sites[0].slot)?;
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
    pub(super) fn keep_samples(
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
    pub(super) fn finish(
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
        let any = |member: usize| (0..self.sites.len()).any(|site| owns(member, site));
        let targets = match self.targets {
            Targets::Outputs => CommonTargets::Outputs,
            Targets::Inputs => CommonTargets::Inputs,
            Targets::Originals(originals) => CommonTargets::Originals(
                originals.finish(team, &any, inputs.as_ref())?.map(Box::new),
            ),
        };
        let x = self.inputs.map(RowWriter::finish).transpose().map_err(samples_error)?;
        let common = Common { inputs, targets, x, train: self.train_rows };
        let sites = self.sites.into_iter().enumerate();
        sites.map(|(index, site)| site.finish(team, &|m| owns(m, index), &common)).collect()
    }
}

/// Data shared by sites with one input: sums over it, or its samples.
struct Common {
    inputs: Option<[Arc<InputStats>; 2]>,
    targets: CommonTargets,
    x: Option<Rows>,
    /// Training samples.
    train: usize,
}

/// As [`Targets`], finished: on the members that own a site.
enum CommonTargets {
    Outputs,
    Inputs,
    Originals(Option<Box<[OriginalStats; 2]>>),
}

impl Common {
    /// Training and validation sums over inputs and targets of a site whose targets come from
    /// inputs.
    fn stats(&self, slot: &LinearSlot) -> Result<Option<Evidence>, CaptureError> {
        let both = match (&self.targets, &self.inputs) {
            (CommonTargets::Inputs, Some(inputs)) => inputs.each_ref().map(|i| of_equal(i, slot)),
            (CommonTargets::Originals(Some(both)), _) => both.each_ref().map(|b| b.of_site(slot)),
            (CommonTargets::Outputs | CommonTargets::Originals(None), _)
            | (CommonTargets::Inputs, None) => return Ok(None),
        };
        let [train, validation] = both;
        Ok(Some(Evidence::Stats { train: train?, validation: validation? }))
    }
}

impl SiteCollector<'_> {
    /// Data of the site, on the members that own it.
    fn finish(
        self,
        team: &dyn Team,
        owns: &dyn Fn(usize) -> bool,
        common: &Common,
    ) -> Result<Option<SiteCapture>, CaptureError> {
        let Self { slot, needs, sums, outputs, targets } = self;
        let from_inputs = needs == Needs::Stats && sums.is_none();
        let evidence = match (outputs, sums, targets) {
            _ if from_inputs && owns(team.rank()) => common.stats(slot)?,
            _ if from_inputs => None,
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
