//! A LASER cut as a method, for comparison with methods that are fitted to text.
//!
//! The replacement depends on the weight alone ([`crate::intervention`]); its error on the
//! calibration text is reported as for every method, so that table rows are comparable. Options are
//! those of a [`Cut`]: `{method: laser, cut: {intervention: rank-reduction, size: {keep: 0.5}}}`.

use super::{Fit, FitProblem, FitReport, Method, SampleRows, work};
use crate::FitError;
use crate::intervention::{Cut, Intervention, Size, Storage, cut};
use linwright_measure::capture::Needs;
use linwright_ops::Shape;
use linwright_tensor::linalg::Components;
use linwright_train::Control;
use serde::{Deserialize, Serialize};

/// Replaces a weight by a cut of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaserMethod {
    /// The cut.
    pub cut: Cut,
}

impl Method for LaserMethod {
    const ID: &'static str = "laser";
    const SUMMARY: &'static str =
        "a LASER cut of the weight by rank, magnitude or rows, which ignores inputs";

    fn label(&self) -> String {
        format!("{} at {}", self.cut.intervention.name(), self.cut.size)
    }

    fn check(&self) -> Result<(), String> {
        self.cut.check().map_err(|reason| format!("has a cut whose {reason}"))
    }

    fn needs(&self) -> Needs {
        Needs::Stats
    }

    /// Upper bound: sizes that depend on singular values are known only after the decomposition.
    fn parameters(&self, shape: Shape) -> Result<usize, FitError> {
        let Shape { out, inp } = shape;
        let dense = shape.dense_parameters();
        let by_rank = !matches!(self.cut.intervention, Intervention::Dropout | Intervention::Zero);
        let rank =
            if self.cut.needs_values() { out.min(inp) } else { self.cut.size.rank(shape, None)? };
        let factors = rank * (out + inp);
        Ok(match self.cut.storage {
            Storage::Factored if by_rank && rank > 0 => factors,
            Storage::Auto if by_rank && rank > 0 => factors.min(dense),
            _ => dense,
        })
    }

    fn work(&self, shape: Shape, _rows: SampleRows) -> Result<f64, FitError> {
        let (out, inp) = work::sides(shape);
        let decomposed = if self.cut.needs_components() { work::singular(out, inp) } else { 0.0 };
        Ok(decomposed + out * inp * out.min(inp) + work::report(shape))
    }

    fn shrunk(&self, by: usize) -> Self {
        let mut shrunk = *self;
        if let Size::Rank(rank) = &mut shrunk.cut.size {
            *rank = rank.div_ceil(by);
        }
        shrunk
    }

    fn fit(&self, problem: &FitProblem<'_>, _control: &mut dyn Control) -> Result<Fit, FitError> {
        let (train, validation) = problem.stats()?;
        let weight = problem.original.to_dense()?;
        let components =
            self.cut.needs_components().then(|| Components::of(weight.view())).transpose();
        let components = components.map_err(|error| FitError::Numerics {
            what: "singular components of the weight",
            reason: error.to_string(),
        })?;
        let done = cut(&weight, &self.cut, components.as_ref(), problem.key)?;
        let dense = done.op.to_dense()?.cast();
        // The bias stays: a cut depends on the weight alone.
        let report = FitReport::of_sums(train, validation, &dense, None);
        Ok(Fit { op: done.op, bias_shift: None, report })
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
        let mut train = SiteStats::new(8, 8);
        train.add(x.view(), y.view());
        let evidence = Evidence::Stats { validation: train.clone(), train: train.clone() };
        let (site, original) = (SiteId("a site".into()), Op::Linear(Box::new(Dense::new(weight))));
        let problem = FitProblem {
            site: &site,
            shape,
            original: &original,
            evidence: &evidence,
            biased: false,
            key: RngKey::new(1),
            checkpoint: None,
        };
        let mut last = f64::INFINITY;
        for rank in [1, 3, 8] {
            let how = Cut::new(Intervention::RankReduction, Size::Rank(rank));
            let method = LaserMethod { cut: how };
            method.check().expect("makes sense");
            let fit = method.fit(&problem, &mut Losses::default()).expect("fits");
            let dense = fit.op.to_dense().expect("is linear").cast();
            let error = train.squared_error(&dense) / train.target_power();
            assert!((fit.report.train_relative_error - error).abs() < 1e-9, "rank {rank}");
            assert!(error < last, "rank {rank}: {error}");
            assert_eq!(
                method.parameters(shape).expect("exists"),
                if rank < 4 { 16 * rank } else { 64 }
            );
            last = error;
        }
        assert!(last < 1e-9, "all components are the weight");
        let json = r#"{"cut":{"intervention":"rank-reduction","size":{"rate":11}}}"#;
        let wrong: LaserMethod = serde_json::from_str(json).expect("parses");
        assert!(wrong.check().expect_err("out of range").contains("rate is 11"));
    }
}
