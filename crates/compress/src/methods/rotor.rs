//! Rotor networks, trained.
//!
//! Source: arXiv:2507.11688: Adam, learning rate 0.05, batch size 256, bivectors from N(0, 1). As
//! there, the hidden width is that of the input even if the output is narrower (keys and values),
//! unless given: 895 parameters for 2048 -> 2048, 1,076 for 2048 -> 512.

use super::{Fit, FitProblem, Method, MethodTraits, SampleRows, Training};
use crate::operator_size::operator_for;
use crate::{FitError, Size, Unit};
use linwright_ops::{OpSpec, RotorNetworkSpec, Shape};
use linwright_train::Control;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Replaces a weight by a rotor network. Of a size, it has the nearest numbers of layers and
/// branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RotorMethod {
    /// Shape of the network.
    pub network: RotorNetworkSpec,
    /// Training options.
    pub training: Training,
}

impl RotorMethod {
    fn spec(&self, size: Option<Size>, shape: Shape) -> Result<OpSpec, FitError> {
        let largest_power = 1 << shape.inp.max(1).ilog2();
        let hidden_width = self.network.hidden_width.or(Some(largest_power));
        let spec = OpSpec::RotorNetwork(RotorNetworkSpec { hidden_width, ..self.network });
        size.map_or_else(|| Ok(spec.clone()), |size| operator_for(&spec, size, shape, None))
    }
}

impl Method for RotorMethod {
    const ID: &'static str = "rotor";
    const SUMMARY: &'static str = "a rotor network, trained";

    fn label(&self, size: Option<Size>) -> String {
        super::with_size(Self::ID.to_owned(), size)
    }

    fn traits(&self) -> MethodTraits {
        MethodTraits { is_linear: false, ..self.training.traits(&[Unit::Keep]) }
    }

    fn check(&self, size: Option<Size>) -> Result<(), String> {
        super::check_saves(size)?;
        self.training.check()
    }

    fn shrunk(&self, by: usize) -> Self {
        let hidden_width = self.network.hidden_width.map(|width| (width / by).max(1));
        let network = RotorNetworkSpec { hidden_width, ..self.network };
        Self { network, training: self.training.shrunk() }
    }

    trains_its_spec!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_paper() {
        let method = RotorMethod::default();
        let count = |out, inp| method.parameters(None, Shape { out, inp }).expect("exists");
        assert_eq!((count(2048, 2048), count(512, 2048)), (895, 1076));
    }
}
