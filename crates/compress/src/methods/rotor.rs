//! Rotor networks, trained.
//!
//! Source: arXiv 2507.11688: Adam, rate 0.05, batch 256, bivectors from N(0, 1).

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
    fn spec(&self) -> OpSpec {
        OpSpec::RotorNetwork(self.network)
    }
}

impl Method for RotorMethod {
    const ID: &'static str = "rotor";

    fn label(&self) -> String {
        Self::ID.to_owned()
    }

    fn needs(&self) -> Needs {
        Needs::Samples
    }

    fn parameters(&self, shape: Shape) -> Result<usize, FitError> {
        let op = self.spec().random::<f32>(shape, RngKey::new(0))?;
        Ok(parameter_count(&op.map().params()))
    }

    fn epochs(&self) -> u32 {
        self.training.epochs
    }

    fn fit(&self, problem: &FitProblem<'_>, control: &mut dyn Control) -> Result<Fit, FitError> {
        self.training.run(&self.spec(), problem, control)
    }
}
