//! One target fitted by many kinds of operators: error against parameters.

use super::{FitOptions, OperatorFit, Procedure, Target, fit_operator};
use crate::operator_size::operator_for;
use crate::{FitError, Size};
use linwright_ops::{Op, OpSpec, Shape, parameter_count};
use linwright_tensor::linalg;
use linwright_train::{Control, TrainError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Largest side of an operator whose singular values are computed.
const MOST_SINGULAR: usize = 1024;

/// A kind that was fitted.
#[derive(Clone, Debug)]
pub struct FamilyFit {
    /// The share of parameters that was asked for, of a kind with several sizes.
    pub keep: Option<f64>,
    /// Number of parameters.
    pub parameters: usize,
    /// Relative to those of a dense weight.
    pub share: f64,
    /// `√(E|y - op(x)|² / E|y|²)`; for a weight, relative Frobenius norm.
    pub error: f64,
    /// Largest singular value, and the ratio of largest to smallest; none for large operators.
    pub singular: Option<SingularRange>,
    /// The operator with its procedure.
    pub fit: OperatorFit,
}

/// Extreme singular values of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SingularRange {
    /// The largest.
    pub norm: f64,
    /// The largest over the smallest; none if that is zero.
    pub condition: Option<f64>,
}

/// A kind that has no operator of this shape or size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyRefusal {
    /// The kind.
    pub kind: String,
    /// Why not.
    pub reason: String,
}

/// Fits of many kinds, in the order of kinds and shares, and kinds that do not fit.
#[derive(Clone, Debug, Default)]
pub struct FamilyFits {
    /// The fits.
    pub fits: Vec<FamilyFit>,
    /// The others.
    pub refused: Vec<FamilyRefusal>,
}

/// What is fitted: a kind at every share, or an operator with all of its options.
#[derive(Clone, Debug, PartialEq)]
pub enum Family {
    /// A kind, whose size is chosen by a share of parameters.
    Kind(OpSpec),
    /// An operator as it is.
    Exact(OpSpec),
}

impl Family {
    /// All linear kinds of the registry that approximate a matrix by themselves: not the dense
    /// matrix, and not sums and products, whose parts must be named.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let kinds = OpSpec::KINDS.iter().filter(|kind| **kind != "dense");
        kinds
            .filter_map(|kind| Self::named(kind))
            .filter(|family| family.spec().is_linear())
            .collect()
    }

    /// The kind of this name, with its default options.
    #[must_use]
    pub fn named(kind: &str) -> Option<Self> {
        // Ranks are chosen by the share, so they need no default; parts of operators do.
        let ranked =
            || OpSpec::standard(kind).filter(|spec| spec.nested().is_empty())?.with_rank(1);
        OpSpec::default_of(kind).ok().or_else(ranked).map(Self::Kind)
    }

    fn spec(&self) -> &OpSpec {
        match self {
            Self::Kind(spec) | Self::Exact(spec) => spec,
        }
    }

    /// The operators of some shares, each once, and why there are none.
    fn operators(&self, keeps: &[f64], shape: Shape) -> (Vec<(Option<f64>, OpSpec)>, Vec<String>) {
        let Self::Kind(spec) = self else {
            return (vec![(None, self.spec().clone())], Vec::new());
        };
        let (mut found, mut reasons) = (Vec::<(Option<f64>, OpSpec)>::new(), Vec::new());
        for keep in keeps {
            match operator_for(spec, Size::Keep(*keep), shape, None) {
                Ok(spec) if found.iter().any(|(_, other)| *other == spec) => {}
                Ok(spec) => found.push((Some(*keep), spec)),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        (found, reasons)
    }
}

/// Fits a target by kinds of operators, each at several shares of the parameters of a dense weight.
///
/// # Errors
/// [`FitError`] if parts of the target do not match, a number is not finite, or the user cancels;
/// kinds without such an operator are listed instead.
pub fn fit_families(
    families: &[Family],
    keeps: &[f64],
    target: &Target<'_>,
    options: &FitOptions,
    control: &mut dyn Control,
) -> Result<FamilyFits, FitError> {
    target.check()?;
    let (shape, mut found) = (target.shape(), FamilyFits::default());
    for family in families {
        let kind = family.spec().kind();
        let (operators, reasons) = family.operators(keeps, shape);
        let mut reasons: BTreeSet<String> = reasons.into_iter().collect();
        for (keep, spec) in operators {
            match fit_operator(&spec, target, options, control) {
                Ok(fit) => found.fits.push(FamilyFit::of(fit, keep, shape)?),
                Err(FitError::Train(error @ TrainError::Interrupted { .. })) => {
                    return Err(FitError::Train(error));
                }
                Err(error) => drop(reasons.insert(error.to_string())),
            }
        }
        // What fits at one share only is no refusal.
        if !found.fits.iter().any(|fit| fit.kind() == kind)
            && let Some(reason) = reasons.pop_first()
        {
            found.refused.push(FamilyRefusal { kind: kind.to_owned(), reason });
        }
    }
    Ok(found)
}

impl FamilyFit {
    fn of(fit: OperatorFit, keep: Option<f64>, shape: Shape) -> Result<Self, FitError> {
        let parameters = parameter_count(&fit.op.map().params());
        let small = shape.out.max(shape.inp) <= MOST_SINGULAR;
        let singular = match (&fit.op, small && shape.out.min(shape.inp) > 0) {
            (Op::Linear(op), true) => {
                let svd =
                    linalg::svd(op.to_dense().view()).map_err(|error| FitError::Numerics {
                        what: "singular values of a fitted operator",
                        reason: error.to_string(),
                    })?;
                let (most, least) = (svd.s[0], svd.s[svd.s.len() - 1]);
                let rounding = shape.out.max(shape.inp) as f64 * f64::EPSILON * most;
                let condition = (least > rounding).then_some(most / least);
                Some(SingularRange { norm: most, condition })
            }
            _ => None,
        };
        Ok(Self {
            keep,
            parameters,
            share: parameters as f64 / shape.dense_parameters().max(1) as f64,
            error: fit.relative_error.max(0.0).sqrt(),
            singular,
            fit,
        })
    }

    /// Kind of the operator.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.fit.op.map().spec().kind()
    }

    /// Its options.
    #[must_use]
    pub fn spec(&self) -> OpSpec {
        self.fit.op.map().spec()
    }

    /// How it was fitted.
    #[must_use]
    pub fn procedure(&self) -> Procedure {
        self.fit.procedure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::planted::{Losses, random};
    use linwright_ops::{CirculantDiagonal, CirculantFactors, CirculantParameterisation, LinearOp};
    use linwright_tensor::{Mat, RngKey};

    fn fitted(families: &[Family], target: &Target<'_>) -> FamilyFits {
        let options = FitOptions { starts: 2, iterations: 40, ..FitOptions::default() };
        let keeps = [0.25, 0.5];
        fit_families(families, &keeps, target, &options, &mut Losses::default()).unwrap()
    }

    #[test]
    fn all_kinds_that_fit_are_tried_and_the_others_say_why() {
        let weight = random(12, 12, 3);
        let found = fitted(&Family::all(), &Target::Weight(weight.view()));
        let kinds: BTreeSet<&str> = found.fits.iter().map(FamilyFit::kind).collect();
        for kind in ["low_rank", "circulant_diagonal", "block_hadamard", "monarch", "kronecker"] {
            assert!(kinds.contains(kind), "{kind} in {kinds:?}, refused: {:?}", found.refused);
        }
        for fit in &found.fits {
            assert!(
                fit.error <= 1.0 + 1e-9 && fit.parameters > 0,
                "{:?}: {}",
                fit.spec(),
                fit.error
            );
            assert!(fit.singular.is_some_and(|range| range.norm > 0.0), "{:?}", fit.spec());
        }
        let refused = found.refused.iter().find(|refusal| refusal.kind == "butterfly").unwrap();
        assert!(refused.reason.contains("power of two"), "{refused:?}");
        // More parameters, no larger error.
        let errors: Vec<f64> =
            found.fits.iter().filter(|fit| fit.kind() == "low_rank").map(|fit| fit.error).collect();
        assert!(errors.len() == 2 && errors[1] <= errors[0], "{errors:?}");
    }

    #[test]
    fn a_product_of_diagonals_and_a_circulant_is_recovered_exactly() {
        let mut stream = RngKey::new(3).stream();
        let mut row = || stream.normals::<f64>(9, 1.0);
        let factors = CirculantFactors { diagonals: vec![row(), row()], columns: vec![row()] };
        let planted =
            CirculantDiagonal::<f64>::new(CirculantParameterisation::Time, &factors).unwrap();
        let weight: Mat<f64> = planted.to_dense();
        let found = fitted(
            &[Family::Exact(OpSpec::default_of("circulant_diagonal").unwrap())],
            &Target::Weight(weight.view()),
        );
        assert_eq!((found.fits.len(), found.fits[0].parameters), (1, 27));
        assert!(found.fits[0].error < 1e-12, "{}", found.fits[0].error);
    }

    #[test]
    fn samples_are_fitted_in_their_own_metric() {
        let (x, w) = (random(200, 6, 1), random(6, 6, 2));
        let y = Mat::from_fn(200, 6, |i, j| (0..6).map(|k| x.at(i, k) * w.at(j, k)).sum());
        let target = Target::Samples { x: x.view(), y: y.view() };
        let found = fitted(&[Family::Exact(OpSpec::default_of("dense").unwrap())], &target);
        assert!(found.fits[0].error < 1e-6, "{}", found.fits[0].error);
        let bad = Mat::from_fn(200, 6, |_, _| f64::NAN);
        let target = Target::Samples { x: x.view(), y: bad.view() };
        let options = FitOptions::default();
        let error = fit_families(&[], &[], &target, &options, &mut Losses::default()).unwrap_err();
        assert!(error.to_string().contains("not finite"), "{error}");
    }
}
