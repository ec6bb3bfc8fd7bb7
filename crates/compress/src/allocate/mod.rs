//! Allocation: which method and size each site gets, so that a budget of parameters costs the least
//! loss.
//!
//! Every site offers [`Choice`]s, each with its parameters and the loss that it costs; [`allocate`]
//! picks one per site. The losses come from spectra alone ([`by_spectrum`]) or from the model
//! (`sensitivity` of `linwright_lm`). A site may also stay dense, which costs nothing and saves
//! nothing.

mod knapsack;
mod spectrum;

use crate::methods::{DenseMethod, MethodSpec};
use crate::plan::{Edit, Plan, SlotSet};
use crate::{FitError, Size};
use linwright_ops::{Shape, SiteId};
use serde::{Deserialize, Serialize};

pub use knapsack::{allocate, uniform};
pub use spectrum::{SiteSpectrum, by_spectrum};

/// How a budget is divided over sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocator {
    /// The same share of parameters for every site.
    #[default]
    Uniform,
    /// From singular values of the weights: [`by_spectrum`].
    Spectrum,
    /// From the loss that an edit of each site costs: `sensitivity` of `linwright_lm`.
    Sensitivity,
}

impl Allocator {
    /// All allocators.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Spectrum, Self::Sensitivity];

    /// Its name in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Spectrum => "spectrum",
            Self::Sensitivity => "sensitivity",
        }
    }
}

/// Largest side of a layer whose ranks need no alignment.
const SMALL_SIDE: usize = 512;

/// The multiple of ranks that suits a shape if none is given: products of factors are as fast at
/// any rank in small layers, in larger ones at multiples of 8.
#[must_use]
pub fn standard_alignment(shapes: impl IntoIterator<Item = Shape>) -> usize {
    let least = shapes.into_iter().map(|shape| shape.out.min(shape.inp)).min();
    if least.is_some_and(|least| least > SMALL_SIDE) { 8 } else { 1 }
}

/// A method and size that a site may get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The method; none if the site stays as it is.
    pub method: Option<MethodSpec>,
    /// Its size.
    pub size: Option<Size>,
    /// Parameters of the operator.
    pub parameters: u64,
    /// Relative squared error of the fit.
    pub error: f64,
    /// The loss that it costs, in any unit that all sites share.
    pub loss: f64,
}

impl Choice {
    /// The site as it is.
    #[must_use]
    pub fn dense(shape: Shape) -> Self {
        let parameters = shape.dense_parameters() as u64;
        Self { method: None, size: None, parameters, error: 0.0, loss: 0.0 }
    }
}

/// What a site may get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteChoices {
    /// The site.
    pub site: SiteId,
    /// Parameters of its dense weight.
    pub dense_parameters: u64,
    /// The choices, at least one.
    pub choices: Vec<Choice>,
}

/// One choice for each site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Index of the choice of each site.
    pub chosen: Vec<usize>,
    /// Parameters of all sites together.
    pub parameters: u64,
    /// Those of the dense weights.
    pub dense_parameters: u64,
    /// Loss of all sites together.
    pub loss: f64,
    /// No allocation within the budget has a smaller loss than this.
    pub bound: f64,
}

impl Allocation {
    /// Parameters kept over original parameters.
    #[must_use]
    pub fn keep(&self) -> f64 {
        self.parameters as f64 / self.dense_parameters.max(1) as f64
    }

    /// The plan that gives each site its choice. A site that stays dense is refitted in closed form
    /// to the outputs of the original model if `heals`, which makes up for edits before it; it
    /// still counts as one of the sites that share the budget.
    #[must_use]
    pub fn plan(&self, sites: &[SiteChoices], seed: u64, heals: bool) -> Plan {
        let edit = |(site, chosen): (&SiteChoices, &usize)| {
            let choice = &site.choices[*chosen];
            let refit = || heals.then(|| MethodSpec::Dense(DenseMethod::default()));
            let method = choice.method.clone().or_else(refit)?;
            let sites = SlotSet { patterns: vec![site.site.0.clone()], ..SlotSet::default() };
            Some(Edit { sites, method, size: choice.size, heals: false })
        };
        Plan { seed, edits: sites.iter().zip(&self.chosen).filter_map(edit).collect() }
    }
}

/// A budget that no allocation meets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "no choice of sizes keeps at most {asked:.4} of the parameters of these layers; the nearest keeps {nearest:.4}"
)]
pub struct Unreachable {
    /// Requested share of parameters.
    pub asked: f64,
    /// Smallest share that exists.
    pub nearest: f64,
}

/// The ranks that are offered for a shape: multiples of `align` that save parameters, at most
/// [`RANKS`] of them, evenly spaced; rank 1 if there is no such multiple.
fn ranks(shape: Shape, align: usize) -> Vec<usize> {
    let largest = shape.largest_rank();
    let align = align.max(1);
    let steps = (largest / align).div_ceil(RANKS).max(1) * align;
    let found: Vec<usize> = (steps..=largest).step_by(steps).collect();
    if found.is_empty() && largest > 0 { vec![1] } else { found }
}

/// Largest number of ranks that are offered for a site.
const RANKS: usize = 64;

/// Low-rank choices of a site from the relative error at every rank, which is their loss.
pub fn of_curve(
    shape: Shape,
    align: usize,
    method: &MethodSpec,
    errors: &[f64],
) -> Result<Vec<Choice>, FitError> {
    let choice = |rank: usize| {
        let (size, error) = (Some(Size::Rank(rank)), errors[rank]);
        let parameters = method.parameters(size, shape)? as u64;
        Ok(Choice { method: Some(method.clone()), size, parameters, error, loss: error })
    };
    ranks(shape, align).into_iter().filter(|rank| *rank < errors.len()).map(choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::LowRankMethod;

    #[test]
    fn ranks_are_multiples_that_save_parameters() {
        assert_eq!(ranks(Shape { out: 64, inp: 64 }, 8), [8, 16, 24]);
        assert_eq!(ranks(Shape { out: 8, inp: 8 }, 8), [1]);
        let many = ranks(Shape { out: 4096, inp: 4096 }, 8);
        assert!(many.len() <= RANKS && many.iter().all(|rank| rank % 8 == 0 && *rank < 2048));
        assert!(many.last().is_some_and(|last| *last > 1900));
    }

    #[test]
    fn a_plan_names_every_site_and_refits_those_that_stay_dense() {
        let shape = Shape { out: 6, inp: 6 };
        let method = MethodSpec::LowRank(LowRankMethod::default());
        let errors = [1.0, 0.5, 0.2];
        let mut choices = of_curve(shape, 1, &method, &errors).expect("exist");
        assert_eq!(
            choices.iter().map(|c| (c.parameters, c.loss)).collect::<Vec<_>>(),
            [(12, 0.5), (24, 0.2)]
        );
        choices.push(Choice::dense(shape));
        let site = |name: &str| SiteChoices {
            site: SiteId(name.into()),
            dense_parameters: 36,
            choices: choices.clone(),
        };
        let sites = [site("a"), site("b")];
        let allocation = Allocation {
            chosen: vec![2, 0],
            parameters: 48,
            dense_parameters: 72,
            loss: 1.0,
            bound: 1.0,
        };
        assert!((allocation.keep() - 2.0 / 3.0).abs() < 1e-12);
        let healed = allocation.plan(&sites, 3, true);
        let told: Vec<_> =
            healed.edits.iter().map(|e| (e.sites.patterns[0].as_str(), e.method.id())).collect();
        assert_eq!((told, healed.seed), (vec![("a", "dense"), ("b", "low_rank")], 3));
        assert_eq!(allocation.plan(&sites, 3, false).edits.len(), 1);
    }
}
