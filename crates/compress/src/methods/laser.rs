//! LASER's cut of a weight, which reads no text.
//!
//! The replacement depends on the weight alone ([`crate::intervention`]). With calibration text,
//! its error is reported on the text, as for every method, so that table rows are comparable.
//!
//! Source: Sharma, Ash and Misra 2023, The Truth is in There (arXiv:2312.13558), and its code. Rank
//! reduction here is the exact truncation, stored as two factors; the code's is an unseeded random
//! sketch, multiplied out.

use super::{ComponentUse, Fit, FitProblem, FitReport, Method, MethodTraits, SampleRows, Shift};
use crate::fit::work;
use crate::intervention::{
    Decomposition, Done, FusedPart, Intervention, Storage, VendiOptions, cut,
};
use crate::{FitError, Size, Unit};
use linwright_measure::capture::Needs;
use linwright_ops::Shape;
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cut of a weight: an intervention with its options. Its size is the part that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LaserMethod {
    /// The removed part.
    pub intervention: Intervention,
    /// Computation of components: `exact`, or `randomised`, which computes only the leading ones;
    /// `{randomised: {oversample: 8, power: 2}}` has numbers of its own.
    pub decomposition: Decomposition,
    /// Storage of the result.
    pub storage: Storage,
    /// As in the paper's code where it differs: `rank-reduction` by a sketch of exactly the rank,
    /// `dropout` of one entry more and of ties, `vendi` with a kernel of width 1.
    pub compat: bool,
    /// Options of `vendi`.
    pub vendi: VendiOptions,
    /// Part of a fused weight that is cut; the rest stays, and the weight is stored dense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<FusedPart>,
}

impl LaserMethod {
    /// An intervention with default options.
    #[must_use]
    pub fn new(intervention: Intervention) -> Self {
        Self { intervention, ..Self::default() }
    }

    /// Checks options and size independently of a weight.
    ///
    /// # Errors
    /// What is wrong, for a message.
    pub(crate) fn check_with(&self, size: Size) -> Result<(), String> {
        size.check().map_err(|error| error.to_string())?;
        self.decomposition.check()?;
        let name = self.intervention.name();
        if !self.units().contains(&size.unit()) {
            return Err(format!("{name} has no rank; give rate, rho or keep, not {size}"));
        }
        let by_rank =
            self.intervention.reads_components() || self.intervention == Intervention::Vendi;
        if self.storage == Storage::Factored && !by_rank {
            return Err(format!("{name} has no factors to store"));
        }
        if self.storage == Storage::Factored && self.part.is_some() {
            return Err("a fused weight with one part cut has no factors to store".to_owned());
        }
        if self.vendi != VendiOptions::default() && self.intervention != Intervention::Vendi {
            return Err(format!(
                "{name} selects no rows: quality, minimise and gamma are for vendi"
            ));
        }
        let is_in_code = matches!(
            self.intervention,
            Intervention::RankReduction | Intervention::Dropout | Intervention::Vendi
        );
        if self.compat && !is_in_code {
            return Err(format!("{name} already equals the paper's code; leave compat out"));
        }
        if self.decomposition != Decomposition::Exact && !self.intervention.reads_components() {
            return Err(format!("{name} needs no decomposition; leave randomised out"));
        }
        let is_exact = self.decomposition == Decomposition::Exact;
        let needs_all = matches!(self.intervention, Intervention::BottomK | Intervention::RandomK);
        if needs_all && !is_exact {
            return Err(format!(
                "{name} needs all components; a randomised decomposition computes only the largest"
            ));
        }
        if size.needs_values() && (!is_exact || self.compat) {
            return Err(format!("{size} needs all singular values; decompose exactly"));
        }
        Ok(())
    }

    /// Whether a cut of this size needs all components of a weight.
    pub fn reads_components(&self, size: Size) -> bool {
        self.component_use().reads(Some(size))
    }

    fn component_use(&self) -> ComponentUse {
        let chooses =
            self.intervention.reads_components() && self.decomposition == Decomposition::Exact;
        if chooses && !self.compat {
            ComponentUse::Always
        } else if self.intervention == Intervention::Zero {
            ComponentUse::Never
        } else {
            ComponentUse::OfSize
        }
    }

    fn units(&self) -> &'static [Unit] {
        match self.intervention {
            Intervention::Dropout => &[Unit::Rate, Unit::Rho, Unit::Keep],
            Intervention::RankReduction
            | Intervention::BottomK
            | Intervention::RandomK
            | Intervention::Zero
            | Intervention::Vendi => &Unit::ALL,
        }
    }

    /// The intervention, and the part that it cuts.
    fn name(&self) -> String {
        let name = self.intervention.name();
        self.part.map_or_else(|| name.to_owned(), |part| format!("{}: {name}", part.name()))
    }

    /// The size, which `zero` does not read.
    fn size(&self, size: Option<Size>) -> Size {
        size.unwrap_or(Size::Rate(10.0))
    }
}

impl Method for LaserMethod {
    const ID: &'static str = "laser";
    const SUMMARY: &'static str =
        "a LASER cut of the weight by rank, magnitude or rows, which needs no calibration text";

    fn label(&self, size: Option<Size>) -> String {
        let name = self.name();
        size.map_or_else(|| name.clone(), |size| format!("{name} at {size}"))
    }

    /// Cuts of all sizes draw the same components.
    fn stream(&self, _size: Option<Size>) -> String {
        self.name()
    }

    fn traits(&self) -> MethodTraits {
        let is_zero = self.intervention == Intervention::Zero;
        MethodTraits {
            needs_size: !is_zero,
            units_vary: true,
            needs_text: false,
            components: self.component_use(),
            part: self.part,
            ..MethodTraits::new(Needs::Stats, self.units())
        }
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        self.check_with(self.size(size))
    }

    /// Upper bound: sizes that depend on singular values are known only after the decomposition.
    fn parameters(&self, size: Option<Size>, shape: Shape) -> Result<usize, FitError> {
        let (Shape { out, inp }, size) = (shape, self.size(size));
        let dense = shape.dense_parameters();
        let by_rank = !matches!(self.intervention, Intervention::Dropout | Intervention::Zero);
        let rank = match by_rank && !size.needs_values() {
            true => size.rank(shape, None)?,
            false => out.min(inp),
        };
        if self.part.is_some() || !by_rank || rank == 0 {
            return Ok(dense);
        }
        let factors = rank * (out + inp);
        Ok(match self.storage {
            Storage::Factored => factors,
            Storage::Auto => factors.min(dense),
            Storage::Dense => dense,
        })
    }

    fn work(&self, size: Option<Size>, shape: Shape, _rows: SampleRows) -> Result<f64, FitError> {
        let (out, inp) = work::sides(shape);
        let needed = self.component_use().reads(size);
        let decomposed = if needed { work::singular(out, inp) } else { 0.0 };
        Ok(decomposed + out * inp * out.min(inp) + work::report(shape))
    }

    /// Of the whole weight: the rows of a part are those of one shape.
    fn shrunk(&self, _by: usize) -> Self {
        Self { part: None, ..*self }
    }

    fn fit(&self, problem: &FitProblem<'_>, _control: &mut dyn Control) -> Result<Fit, FitError> {
        let cuttable = self.cuttable(problem.original.to_dense()?, problem.part_rows)?;
        let needed = self.component_use().reads(problem.size);
        let components = needed.then(|| problem.components()).transpose()?;
        let size = self.size(problem.size);
        let Done { op, report: cut } = cuttable.finish(cut(
            &cuttable.weight,
            self,
            size,
            components.as_deref(),
            problem.key,
        )?)?;
        // The bias stays: a cut depends on the weight alone.
        let report = match problem.evidence {
            Some(_) => problem.judged(&op.to_dense()?.cast(), Shift::Nothing)?.0,
            None => FitReport::without_text(cut.relative_error),
        };
        Ok(Fit { op, bias_shift: None, report: FitReport { cut: Some(cut), ..report } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{Losses, noisy};
    use linwright_measure::capture::Evidence;
    use linwright_measure::stats::SiteStats;
    use linwright_ops::{Dense, Op, SiteId};
    use linwright_tensor::{Mat, RngKey};

    #[test]
    fn the_weight_is_cut_and_judged_by_the_text() {
        let shape = Shape { out: 8, inp: 8 };
        let (x, _) = noisy(shape, 2);
        let x: Mat<f32> = x.cast();
        let weight: Mat<f32> = Mat::from_vec(8, 8, RngKey::new(3).stream().normals(64, 1.0));
        let y =
            Mat::from_fn(x.rows(), 8, |i, o| (0..8).map(|j| weight.at(o, j) * x.at(i, j)).sum());
        let train = SiteStats::of(x.view(), y.view());
        let evidence = Evidence::Stats { validation: train.clone(), train: train.clone() };
        let (site, original) = (SiteId("a site".into()), Op::Linear(Box::new(Dense::new(weight))));
        let problem = FitProblem {
            site: &site,
            shape,
            original: &original,
            size: None,
            evidence: Some(&evidence),
            components: None,
            bias: None,
            key: RngKey::new(1),
            ridge: None,
            checkpoint: None,
            part_rows: None,
        };
        let mut last = f64::INFINITY;
        for rank in [1, 3, 8] {
            let (method, size) = (LaserMethod::default(), Some(Size::Rank(rank)));
            method.check(size).expect("makes sense");
            let problem = FitProblem { size, ..problem };
            let fit = method.fit(&problem, &mut Losses::default()).expect("fits");
            let dense = fit.op.to_dense().expect("is linear").cast();
            let error = train.squared_error(&dense) / train.target_power();
            assert!((fit.report.train_relative_error - error).abs() < 1e-9, "rank {rank}");
            assert!(error < last, "rank {rank}: {error}");
            assert_eq!(
                method.parameters(size, shape).expect("exists"),
                if rank < 4 { 16 * rank } else { 64 }
            );
            last = error;
        }
        assert!(last < 1e-6, "all components are the weight");
        let text = FitProblem { size: Some(Size::Rank(3)), evidence: None, ..problem };
        let fit = LaserMethod::default().fit(&text, &mut Losses::default()).expect("fits");
        let cut = fit.report.cut.expect("is a cut");
        assert_eq!((cut.kept.rank, fit.report.relative_error), (Some(3), cut.relative_error));
        let wrong = LaserMethod::default().check(Some(Size::Rate(11.0))).expect_err("too much");
        assert!(wrong.contains("rate is 11"), "{wrong}");
    }
}
