//! Random weights of a new TensorNet.

use super::config::{RadialKind, TensorNetConfig};
use super::weights::TensorNet;
use crate::MoleculeError;
use linwright_tensor::{RngKey, Scalar};

impl<T: Scalar> TensorNet<T> {
    /// A model with random weights, distributed as in torchmd-net: uniform up to one over the root
    /// of the fan-in, normal embeddings, a head by Xavier without bias.
    ///
    /// # Errors
    /// [`MoleculeError::Architecture`] for hyper-parameters out of range.
    pub fn random(config: TensorNetConfig, key: RngKey) -> Result<Self, MoleculeError> {
        let constants = config.clone();
        let mut fan_in = 1;
        Self::from_tensors(config, |name, shape| {
            let numbers = shape.iter().product();
            if let [_, inp] = shape {
                fan_in = *inp;
            }
            let mut stream = key.fold(name).stream();
            let mut uniform = |limit: f64| {
                let draw = |value: f64| T::from_f64(limit * (2.0 * value - 1.0));
                (0..numbers).map(|_| draw(stream.uniform())).collect::<Vec<T>>()
            };
            Ok(match shape {
                _ if name == "mean" => vec![T::ZERO],
                _ if name == "std" => vec![T::ONE],
                _ if name.contains("distance_expansion.") => basis(&constants, name),
                _ if name.ends_with(".qweights") => stage_weights(&constants, numbers),
                [out, inp] if name.starts_with("output_model") => {
                    uniform((6.0 / (out + inp) as f64).sqrt())
                }
                _ if name.starts_with("output_model") => vec![T::ZERO; numbers],
                _ if name.ends_with("norm.weight") => vec![T::ONE; numbers],
                _ if name.ends_with("norm.bias") => vec![T::ZERO; numbers],
                _ if name.ends_with(".emb.weight") => stream.normals(numbers, 1.0),
                // The bias of a layer follows its weight.
                _ => uniform(1.0 / (fan_in as f64).sqrt()),
            })
        })
    }
}

/// Weights of the latent charges: of each stage, for all of its channels.
fn stage_weights<T: Scalar>(config: &TensorNetConfig, numbers: usize) -> Vec<T> {
    let stages = config.charges.iter().flat_map(|charges| &charges.q_weights);
    let channels = numbers / (config.layers + 1);
    stages.flat_map(|weight| vec![T::from_f64(*weight); channels]).collect()
}

/// Centres and widths of the radial functions, evenly spaced.
fn basis<T: Scalar>(config: &TensorNetConfig, name: &str) -> Vec<T> {
    let TensorNetConfig { radial, cutoff_lower: lower, cutoff_upper: upper, .. } = *config;
    let (first, last) = match config.radial_kind {
        RadialKind::Expnorm => ((lower - upper).exp(), 1.0),
        RadialKind::Gauss => (lower, upper),
    };
    let spacing = (last - first) / (radial - 1) as f64;
    if name.ends_with("means") || name.ends_with("offset") {
        return (0..radial).map(|k| T::from_f64(first + spacing * k as f64)).collect();
    }
    match config.radial_kind {
        RadialKind::Expnorm => {
            let width = 2.0 / radial as f64 * (1.0 - first);
            vec![T::from_f64(1.0 / (width * width)); radial]
        }
        RadialKind::Gauss => vec![T::from_f64(-0.5 / (spacing * spacing))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensornet::config::{ChargeConfig, Family};
    use crate::tensornet::heads::Head;
    use crate::tensornet::weights::TensorUse;

    fn small() -> TensorNetConfig {
        TensorNetConfig { species: 20, ..TensorNetConfig::new(16, 2, 8, 4.5) }
    }

    #[test]
    fn a_model_has_as_many_parameters_as_its_formula_says() {
        let charges = Some(ChargeConfig { q_dim: 4, q_weights: vec![], coulomb_cutoff: None });
        let second = TensorNetConfig { model: Family::Tensornet2, charges, ..small() };
        for config in [small(), second] {
            let want = config.parameters();
            let mut model = TensorNet::<f64>::random(config, RngKey::new(1)).expect("a model");
            let tensors = model.tensors_mut().into_iter();
            let trained = tensors.filter(|tensor| tensor.purpose != TensorUse::Constant);
            assert_eq!(trained.map(|tensor| tensor.values.len() as u64).sum::<u64>(), want);
        }
    }

    #[test]
    fn tensors_give_the_same_model_again() {
        for kind in [RadialKind::Expnorm, RadialKind::Gauss] {
            let config = TensorNetConfig { radial_kind: kind, ..small() };
            let model = TensorNet::<f64>::random(config.clone(), RngKey::new(1)).expect("a model");
            let tensors = model.to_tensors();
            let again = TensorNet::from_tensors(config, |name, shape| {
                let found = tensors.iter().find(|(own, _, _)| own == name).expect(name);
                assert_eq!(found.1, shape, "{name}");
                Ok(found.2.clone())
            });
            assert_eq!(again.expect("a model").to_tensors(), tensors);
            let cast = model.cast::<f64>().expect("a model");
            assert_eq!(cast.to_tensors(), tensors);
        }
    }

    #[test]
    fn a_tensor_of_another_size_is_refused_by_name() {
        let error = TensorNet::<f32>::from_tensors(small(), |name, shape| {
            let numbers = shape.iter().product::<usize>();
            Ok(vec![1.0; numbers + usize::from(name.contains("layers.1.linears_tensor.4"))])
        });
        let error = error.expect_err("a larger tensor").to_string();
        assert!(error.contains("layers.1.linears_tensor.4.weight"), "{error}");
        assert_eq!(small().head, Head::Scalar);
    }
}
