//! Descriptions of networks: plain data, from which shapes follow.

use crate::chain::Chain;
use crate::layers::{LayerSpec, one};
use crate::{Extent, NetError};
use linwright_ops::OpSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A network: its input, its layers, and operators in place of dense weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetSpec {
    /// What it reads.
    pub input: InputSpec,
    /// Its layers, the first one first.
    pub layers: Vec<LayerSpec>,
    /// Operators of slots, by name of the slot; the others have dense weights.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operators: BTreeMap<String, OpSpec>,
}

/// The input of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// Numbers per position: colours of a pixel, columns of a table.
    pub channels: usize,
    /// Rows of an image.
    #[serde(default = "one")]
    pub height: usize,
    /// Columns of an image, tokens of a sequence.
    #[serde(default = "one")]
    pub width: usize,
    /// Subtracted from each channel; none if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mean: Vec<f32>,
    /// Divisor of each channel after that; none if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub std: Vec<f32>,
}

impl NetSpec {
    /// Checks that the layers fit together, and returns the extent of the output.
    ///
    /// # Errors
    /// [`NetError::Layer`] naming the first layer that does not fit.
    pub fn check(&self) -> Result<Extent, NetError> {
        let extent = self.input.extent()?;
        Chain::default().through(&self.layers, extent)
    }

    /// Number of activations of an example after all layers, which a training step keeps.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn activations(&self) -> Result<u64, NetError> {
        let mut chain = Chain::default();
        chain.through(&self.layers, self.input.extent()?)?;
        Ok(chain.activations)
    }

    /// Numbers of the dense weights, known from the description alone: a lower bound of those of
    /// the network.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn least_numbers(&self) -> Result<u64, NetError> {
        let mut chain = Chain::default();
        chain.through(&self.layers, self.input.extent()?)?;
        let dense = chain.weights.iter().filter(|(slot, _)| !self.operators.contains_key(slot));
        Ok(dense.fold(0, |all, (_, numbers)| all.saturating_add(*numbers)))
    }
}

impl InputSpec {
    /// The extent of the input.
    ///
    /// # Errors
    /// [`NetError::Layer`] if it is empty or too large, or mean and divisor do not fit.
    pub fn extent(&self) -> Result<Extent, NetError> {
        for (what, values) in [("mean", &self.mean), ("std", &self.std)] {
            if !values.is_empty() && values.len() != self.channels {
                let found = format!("{what} has {} numbers", values.len());
                return Err(NetError::layer("input", found, format!("{} or none", self.channels)));
            }
        }
        if let Some(wrong) = self.std.iter().find(|std| !(std.is_finite() && **std > 0.0)) {
            return Err(NetError::layer("input", format!("std {wrong}"), "a positive number"));
        }
        if self.mean.iter().any(|mean| !mean.is_finite()) {
            return Err(NetError::layer("input", "a mean that is not finite", "a finite number"));
        }
        let Self { height, width, channels, .. } = *self;
        Extent { height, width, channels }.bounded("input")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(layers: &str) -> NetSpec {
        let text = format!("input: {{channels: 2, height: 6, width: 5}}\nlayers: {layers}");
        serde_saphyr::from_str(&text).unwrap()
    }

    #[test]
    fn extents_chain() {
        let layers = "[{conv: {name: a, out: 3, kernel: 3}}, relu, {max_pool: {size: 2}}, flatten]";
        let found = spec(layers).check().unwrap();
        assert_eq!(found, Extent { height: 1, width: 1, channels: 6 });
    }

    #[test]
    fn numbers_are_known_before_a_network_is_built() {
        let layers = "[{conv: {name: a, out: 3, kernel: 3}}, flatten, {linear: {name: b, out: 5}}]";
        let mut spec = spec(layers);
        assert_eq!(spec.activations().unwrap(), 2 * 3 * 4 * 3 + 5);
        let (conv, linear) = (3 * 2 * 9, 5 * 3 * 4 * 3);
        assert_eq!(spec.least_numbers().unwrap(), conv + linear);
        spec.operators.insert("b".into(), OpSpec::default_of("circulant_diagonal").unwrap());
        assert_eq!(spec.least_numbers().unwrap(), conv);
    }

    #[test]
    fn layers_that_do_not_fit_are_named() {
        let table = [
            ("[{conv: {name: a, out: 3, kernel: 9}}]", "0 (a)"),
            ("[relu, {conv: {name: a, out: 3, kernel: 3, stride: 0}}]", "1 (a)"),
            ("[{linear: {name: a, out: 0}}]", "0 (a)"),
            ("[{linear: {name: a, out: 3}}, {linear: {name: a, out: 3}}]", "1 (a)"),
            ("[{residual: {layers: [{linear: {name: a, out: 3}}]}}]", "0"),
            ("[relu, {residual: {layers: [tanh, {linear: {name: a, out: 0}}]}}]", "1.1 (a)"),
            ("[{attention: {name: a, heads: 3}}]", "0 (a)"),
            ("[{dropout: {share: 1.0}}]", "0"),
            ("[{linear: {name: a, out: 18446744073709551615}}]", "0 (a)"),
        ];
        for (layers, name) in table {
            let error = spec(layers).check().unwrap_err();
            assert!(
                matches!(&error, NetError::Layer { layer, .. } if layer == name),
                "{layers}: {error}"
            );
        }
    }
}
