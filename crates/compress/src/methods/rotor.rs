//! Rotor networks, trained.
//!
//! Source: arXiv 2507.11688: Adam, rate 0.05, batch 256, bivectors from N(0, 1). As there, the hidden
//! width is that of the input even where the output is narrower (keys and values), unless one is
//! given: 895 parameters for 2048 -> 2048, 1,076 for 2048 -> 512.

use super::{Fit, FitProblem, Method, Needs, Training};
use crate::FitError;
use linwright_ops::{OpSpec, RotorNetworkSpec, Shape, parameter_count};
use linwright_tensor::RngKey;
use linwright_train::Control;
use serde::{Deserialize, Serialize};

/// Replaces a weight by a rotor network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RotorMethod {
    /// Shape of the network.
    pub network: RotorNetworkSpec,
    /// How it is trained.
    pub training: Training,
}

impl RotorMethod {
    fn spec(&self, shape: Shape) -> OpSpec {
        let largest_power = 1 << shape.inp.max(1).ilog2();
        let hidden_width = self.network.hidden_width.or(Some(largest_power));
        OpSpec::RotorNetwork(RotorNetworkSpec { hidden_width, ..self.network })
    }
}

impl Method for RotorMethod {
    const ID: &'static str = "rotor";

    fn label(&self) -> String {
        Self::ID.to_owned()
    }

    fn check(&self) -> Result<(), String> {
        self.training.check()
    }

    fn needs(&self) -> Needs {
        Needs::Samples
    }

    fn parameters(&self, shape: Shape) -> Result<usize, FitError> {
        let op = self.spec(shape).random::<f32>(shape, RngKey::new(0))?;
        Ok(parameter_count(&op.map().params()))
    }

    fn epochs(&self) -> u32 {
        self.training.epochs
    }

    fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError> {
        self.training.run(&self.spec(problem.shape), problem, control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_paper() {
        let method = RotorMethod::default();
        let count = |out, inp| method.parameters(Shape { out, inp }).expect("exists");
        assert_eq!((count(2048, 2048), count(512, 2048)), (895, 1076));
    }
}
