//! Layers that follow each other: their check and their steps.

use super::LayerSpec;
use crate::build::Builder;
use crate::chain::Chain;
use crate::{Extent, NetError};
use linwright_tensor::Scalar;

/// Largest depth of nested residual branches.
const MOST_DEPTH: usize = 32;

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
}

impl<T: Scalar> Builder<'_, T> {
    /// Builds layers that follow each other; their names have this prefix.
    pub(crate) fn all(&mut self, layers: &[LayerSpec], prefix: &str) -> Result<(), NetError> {
        for (index, layer) in layers.iter().enumerate() {
            self.label = label(layer, prefix, index);
            let output = layer.output(self.extent, &mut Chain::default())?;
            layer.build(self)?;
            self.extent = output;
        }
        Ok(())
    }

    /// Builds the layers inside a residual layer.
    pub(crate) fn inside(&mut self, layers: &[LayerSpec]) -> Result<(), NetError> {
        let label = std::mem::take(&mut self.label);
        self.all(layers, &format!("{label}."))?;
        self.label = label;
        Ok(())
    }
}

/// Number and name of a layer.
fn label(layer: &LayerSpec, prefix: &str, index: usize) -> String {
    match layer.name() {
        Some(name) => format!("{prefix}{index} ({name})"),
        None => format!("{prefix}{index}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::Residual;
    use crate::{InputSpec, NetSpec};
    use std::collections::BTreeMap;

    #[test]
    fn residual_layers_are_bounded_in_depth() {
        let mut layers = vec![LayerSpec::Relu];
        for _ in 0..=MOST_DEPTH {
            layers = vec![LayerSpec::Residual(Residual { layers })];
        }
        let input = InputSpec { channels: 1, height: 1, width: 1, mean: vec![], std: vec![] };
        let error = NetSpec { input, layers, operators: BTreeMap::new() }.check().unwrap_err();
        assert!(error.to_string().contains("at most 32"), "{error}");
    }
}
