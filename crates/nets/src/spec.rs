//! Descriptions of networks: plain data, from which shapes follow.

use crate::layers::LayerSpec;
use crate::{Extent, NetError};
use linwright_ops::OpSpec;
use linwright_run::memory::product;
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

pub(crate) fn one() -> usize {
    1
}

pub(crate) fn yes() -> bool {
    true
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

/// Largest depth of nested residual branches.
const MOST_DEPTH: usize = 32;

/// State of the check of a description.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The current layer: its number and name.
    label: String,
    prefix: String,
    depth: usize,
    names: Vec<String>,
    /// Numbers of the dense weight of each slot.
    weights: Vec<(String, u64)>,
    /// Number of activations of an example after all layers.
    activations: u64,
}

impl Chain {
    /// The extent after some layers.
    pub(crate) fn through(
        &mut self,
        layers: &[LayerSpec],
        mut extent: Extent,
    ) -> Result<Extent, NetError> {
        for (index, layer) in layers.iter().enumerate() {
            self.label = label(layer, &self.prefix, index);
            self.name(layer)?;
            extent = layer.output(extent, self)?;
            self.activations = self.activations.saturating_add(extent.numbers() as u64);
        }
        Ok(extent)
    }

    /// The extent after the layers inside a residual layer.
    pub(crate) fn inside(
        &mut self,
        layers: &[LayerSpec],
        extent: Extent,
    ) -> Result<Extent, NetError> {
        if self.depth == MOST_DEPTH {
            let expected = format!("at most {MOST_DEPTH} inside each other");
            return Err(self.refuse("too many residual layers", expected));
        }
        let (prefix, own) = (self.prefix.clone(), self.label.clone());
        self.prefix = format!("{own}.");
        self.depth += 1;
        let inner = self.through(layers, extent)?;
        self.depth -= 1;
        (self.prefix, self.label) = (prefix, own);
        Ok(inner)
    }

    fn name(&mut self, layer: &LayerSpec) -> Result<(), NetError> {
        let Some(name) = layer.name() else { return Ok(()) };
        if name.is_empty() || self.names.iter().any(|other| other == name) {
            let found = format!("the name \"{name}\" is empty or used twice");
            return Err(self.refuse(found, "another name"));
        }
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Counts the dense weight of a slot.
    pub(crate) fn weight(&mut self, slot: &str, [out, inp]: [usize; 2]) {
        self.weights.push((slot.to_owned(), product(&[out as u64, inp as u64])));
    }

    /// The current layer: its number and name.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// An error in the current layer.
    pub(crate) fn refuse(&self, found: impl Into<String>, expected: impl Into<String>) -> NetError {
        NetError::layer(&self.label, found, expected)
    }

    /// Checks that an option is at least zero and below a bound.
    pub(crate) fn below(&self, what: &str, value: f64, bound: f64) -> Result<(), NetError> {
        match value >= 0.0 && value < bound {
            true => Ok(()),
            false => {
                let expected = format!("at least 0 and below {bound}");
                Err(self.refuse(format!("{what} {value}"), expected))
            }
        }
    }
}

/// Number and name of a layer.
pub(crate) fn label(layer: &LayerSpec, prefix: &str, index: usize) -> String {
    match layer.name() {
        Some(name) => format!("{prefix}{index} ({name})"),
        None => format!("{prefix}{index}"),
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

    #[test]
    fn residual_layers_are_bounded_in_depth() {
        let mut layers = vec![LayerSpec::Relu];
        for _ in 0..=MOST_DEPTH {
            layers = vec![LayerSpec::Residual(crate::layers::Residual { layers })];
        }
        let input = InputSpec { channels: 1, height: 1, width: 1, mean: vec![], std: vec![] };
        let error = NetSpec { input, layers, operators: BTreeMap::new() }.check().unwrap_err();
        assert!(error.to_string().contains("at most 32"), "{error}");
    }
}
