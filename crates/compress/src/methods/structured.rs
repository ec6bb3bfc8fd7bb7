//! Any linear operator, fitted to the moments of a site by the procedure of its kind.
//!
//! Closed form if the kind has one, otherwise alternating least squares or training with several
//! starts: see [`crate::fit`].

use super::{Fit, FitProblem, Method, MethodTraits, SampleRows};
use crate::fit::kind::{self, Timing};
use crate::fit::{FitOptions, Ridge, Target, fit_operator};
use crate::operator_size::{operator_for, units_of};
use crate::{FitError, Size};
use linwright_measure::capture::Needs;
use linwright_ops::{Op, OpSpec, Shape};
use linwright_tensor::Scalar;
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replaces a weight by an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StructuredMethod {
    /// The operator with its options; a size replaces that in them.
    pub operator: OpSpec,
    /// Number of starts of a fit that is not closed; the best is kept.
    #[serde(default = "StructuredMethod::default_starts")]
    #[schemars(range(min = 1, max = 10_000))]
    pub starts: u32,
    /// Largest number of iterations of a start.
    #[serde(default = "StructuredMethod::default_iterations")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub iterations: u32,
    /// Ridge of the regression towards the weight.
    #[serde(default)]
    pub ridge: Ridge,
}

impl StructuredMethod {
    /// The method for an operator with default options.
    #[must_use]
    pub fn new(operator: OpSpec) -> Self {
        let (starts, iterations) = (Self::default_starts(), Self::default_iterations());
        Self { operator, starts, iterations, ridge: Ridge::default() }
    }

    fn spec(
        &self,
        size: Option<Size>,
        shape: Shape,
        values: Option<&[f64]>,
    ) -> Result<OpSpec, FitError> {
        match size {
            Some(size) => operator_for(&self.operator, size, shape, values),
            None => Ok(self.operator.clone()),
        }
    }

    fn default_starts() -> u32 {
        2
    }

    fn default_iterations() -> u32 {
        200
    }
}

impl Method for StructuredMethod {
    const ID: &'static str = "structured";
    const SUMMARY: &'static str = "any linear operator, in closed form, by alternating least squares or by L-BFGS, as its kind is fitted";

    fn label(&self, size: Option<Size>) -> String {
        let kind = if let OpSpec::Sum(sum) = &self.operator {
            joined(&sum.terms, "+")
        } else if let OpSpec::Product(product) = &self.operator {
            joined(&product.factors, "*")
        } else {
            self.operator.kind().to_owned()
        };
        super::with_size(kind, size)
    }

    fn traits(&self) -> MethodTraits {
        MethodTraits {
            units_vary: true,
            ridge: Some(self.ridge),
            least_side: kind::of(&self.operator).timing().least_side,
            ..MethodTraits::new(Needs::Stats, units_of(&self.operator))
        }
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        if !self.operator.is_linear() {
            let has_method = matches!(self.operator, OpSpec::RotorNetwork(_));
            let instead = if has_method { "; use method rotor" } else { "" };
            return Err(format!("has a {}, which is not linear{instead}", self.operator.kind()));
        }
        super::check_saves(size)?;
        self.ridge.check()?;
        let least = [("starts", self.starts), ("iterations", self.iterations)];
        match least.into_iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(format!("has {name} 0, at least 1 is needed")),
            None => Ok(()),
        }
    }

    fn parameters(&self, size: Option<Size>, shape: Shape) -> Result<usize, FitError> {
        Ok(self.spec(size, shape, None)?.cost(shape)?.parameters)
    }

    fn work(&self, size: Option<Size>, shape: Shape, _rows: SampleRows) -> Result<f64, FitError> {
        kind::work_of(&self.spec(size, shape, None)?, shape, self.starts, self.iterations)
    }

    fn shrunk(&self, by: usize) -> Self {
        // The times of a start and of an iteration are measured and multiplied: the number of
        // iterations until convergence depends on the target, so a fit of random numbers would not
        // predict it.
        let Timing { iterations, parallel_starts, .. } = kind::of(&self.operator).timing();
        let starts = if parallel_starts { self.starts } else { 1 };
        let iterations = self.iterations.min(iterations);
        Self { operator: self.operator.shrunk(by), starts, iterations, ..*self }
    }

    fn brief(&self) -> Option<Self> {
        let even = kind::of(&self.operator).timing().even;
        (!even).then(|| Self { iterations: 1, ..self.clone() })
    }

    fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError> {
        let target = problem.target(self.ridge)?;
        let stats = target.stats();
        let moments = Target::Moments {
            second: stats.inputs.sxx.view(),
            cross: stats.syx.view(),
            power: stats.syy,
        };
        let Self { starts, iterations, .. } = *self;
        let options = FitOptions { starts, iterations, key: problem.key, ..FitOptions::default() };
        let components = problem.components_of_size()?;
        let values = components.as_ref().map(|all| all.values.as_slice());
        let spec = self.spec(problem.size, problem.shape, values)?;
        let fit = fit_operator(&spec, &moments, &options, control)?;
        let op = cast(&fit.op)?;
        let dense = op.to_dense()?.cast();
        let mut found = problem.closed(op, &dense, &target.pulled)?;
        found.report.dropped_directions = fit.dropped_directions;
        Ok(found)
    }
}

fn joined(parts: &[OpSpec], by: &str) -> String {
    parts.iter().map(OpSpec::kind).collect::<Vec<_>>().join(by)
}

/// Converts an operator to another precision.
fn cast<T: Scalar>(op: &Op<f64>) -> Result<Op<T>, FitError> {
    let (map, key) = (op.map(), linwright_tensor::RngKey::new(0));
    let mut twin = map.spec().random::<T>(map.shape(), key)?;
    for (to, from) in twin.map_mut().params_mut().iter_mut().zip(map.params()) {
        let values = to.values.iter_mut().zip(from.values);
        values.for_each(|(to, from)| *to = T::from_f64(*from));
    }
    for (to, from) in twin.map_mut().buffers_mut().iter_mut().zip(map.buffers()) {
        to.values.copy_from_slice(from.values);
    }
    Ok(twin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{Losses, distance, noisy};
    use linwright_measure::capture::Evidence;
    use linwright_measure::stats::SiteStats;
    use linwright_ops::SiteId;
    use linwright_tensor::{Mat, RngKey};

    /// All operators of the list with an example of the shape; nonlinear ones have no fit.
    fn operators(shape: Shape) -> Vec<OpSpec> {
        let examples = OpSpec::examples().into_iter().map(|(spec, _)| spec);
        let linear =
            |spec: &OpSpec| spec.is_linear() && spec.random::<f32>(shape, RngKey::new(0)).is_ok();
        let mut found: Vec<OpSpec> = Vec::new();
        for spec in examples.filter(linear) {
            if found.iter().all(|other| other.kind() != spec.kind()) {
                found.push(spec);
            }
        }
        found
    }

    #[test]
    fn every_linear_kind_is_fitted_to_the_statistics_of_a_site() {
        let shape = Shape { out: 8, inp: 8 };
        let (x, y) = noisy(shape, 2);
        let train = SiteStats::of(x.cast().view(), y.cast().view());
        let evidence = Evidence::Stats { validation: train.clone(), train: train.clone() };
        let site = SiteId("a site".into());
        let original = Op::Linear(Box::new(linwright_ops::Dense::new(Mat::zeros(8, 8))));
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
        let found = operators(shape);
        let kinds: Vec<&str> = found.iter().map(OpSpec::kind).collect();
        let all = OpSpec::examples().into_iter().map(|(spec, _)| spec).filter(OpSpec::is_linear);
        let mut all: Vec<&str> = all.map(|spec| spec.kind()).collect();
        all.dedup();
        assert_eq!(kinds, all, "a kind has no example that fits {shape:?}");
        for operator in found {
            let method = StructuredMethod::new(operator);
            method.check(None).expect("makes sense");
            let fit = method.fit(&problem, &mut Losses::default()).expect("fits");
            let (report, map) = (&fit.report, fit.op.map());
            assert!(
                report.relative_error < 1.0,
                "{}: {}",
                method.label(None),
                report.relative_error
            );
            assert_eq!(map.shape(), shape);
            let parameters = linwright_ops::parameter_count(&map.params());
            assert_eq!(parameters, method.parameters(None, shape).expect("exists"));
            let dense = fit.op.to_dense().expect("is linear").cast();
            let error = train.squared_error(&dense) / train.target_power();
            assert!((report.train_relative_error - error).abs() < 1e-9);
            let again = method.fit(&problem, &mut Losses::default()).expect("fits");
            assert_eq!(distance(&again.op.to_dense().expect("is linear").cast(), &dense), 0.0);
        }
    }

    #[test]
    fn options_without_sense_are_refused_and_labels_name_the_parts() {
        let network = OpSpec::default_of("rotor_network").expect("has defaults");
        assert!(
            StructuredMethod::new(network).check(None).expect_err("not linear").contains("rotor")
        );
        let json = r#"{"operator":{"kind":"sum","terms":[{"kind":"monarch"},{"kind":"low_rank","rank":2}]},"starts":0}"#;
        let method: StructuredMethod = serde_json::from_str(json).expect("parses");
        assert_eq!(method.label(None), "monarch+low_rank");
        assert_eq!(
            method.check(None).expect_err("no starts"),
            "has starts 0, at least 1 is needed"
        );
    }
}
