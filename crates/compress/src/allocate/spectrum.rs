//! Choices from spectra alone: no text, no pass of the model.
//!
//! The loss of a site at rank r is the share of its squared singular values beyond r: the squared
//! error of the truncated weight, relative to the weight. Layers count equally, whatever their
//! norm, since the model normalises what goes into most of them.

use super::{Choice, SiteChoices, of_curve};
use crate::FitError;
use crate::methods::MethodSpec;
use linwright_ops::{Shape, SiteId};

/// A site with the singular values of its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteSpectrum {
    /// The site.
    pub site: SiteId,
    /// Its shape.
    pub shape: Shape,
    /// Singular values of its weight, descending.
    pub values: Vec<f64>,
}

impl SiteSpectrum {
    /// Relative squared error of the truncated weight at every rank from zero to full.
    #[must_use]
    pub fn errors(&self) -> Vec<f64> {
        let mut errors = vec![0.0];
        // From the smallest, so that small sums keep their digits.
        for value in self.values.iter().rev() {
            errors.push(errors[errors.len() - 1] + value * value);
        }
        errors.reverse();
        let all = errors[0];
        if all > 0.0 {
            errors.iter_mut().for_each(|error| *error /= all);
        }
        errors
    }
}

/// What each site may get by `method`, at ranks that are multiples of `align`, or stay dense.
///
/// # Errors
/// As [`MethodSpec::parameters`].
pub fn by_spectrum(
    sites: &[SiteSpectrum],
    method: &MethodSpec,
    align: usize,
) -> Result<Vec<SiteChoices>, FitError> {
    let of = |site: &SiteSpectrum| {
        let mut choices = of_curve(site.shape, align, method, &site.errors(), 1.0)?;
        choices.push(Choice::dense(site.shape));
        let dense_parameters = site.shape.dense_parameters() as u64;
        Ok(SiteChoices { site: site.site.clone(), dense_parameters, choices })
    };
    sites.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocate::allocate;
    use crate::methods::LowRankMethod;

    #[test]
    fn a_weight_of_low_rank_gives_its_parameters_to_one_of_full_rank() {
        let shape = Shape { out: 64, inp: 64 };
        let flat = vec![1.0; 64];
        let steep: Vec<f64> = (0..64).map(|i| 0.5f64.powi(i)).collect();
        let named = |name: &str, values: Vec<f64>| SiteSpectrum {
            site: SiteId(name.into()),
            shape,
            values,
        };
        let sites = [named("flat", flat), named("steep", steep)];
        let errors = sites[0].errors();
        assert_eq!((errors.len(), errors[0], errors[16], errors[64]), (65, 1.0, 0.75, 0.0));
        let method = MethodSpec::LowRank(LowRankMethod::default());
        let choices = by_spectrum(&sites, &method, 8).expect("exist");
        let found = allocate(&choices, 0.7).expect("fits");
        let of = |site: usize| choices[site].choices[found.chosen[site]].parameters;
        assert!(of(0) == 4096 && of(1) < 2048, "{found:?}");
    }
}
