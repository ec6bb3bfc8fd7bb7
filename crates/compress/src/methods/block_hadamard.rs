//! Block-diagonal maps with Hadamard transforms between them, trained.
//!
//! Source: the BH-m baseline of arXiv 2507.11688: Adam, rate 0.01, batch 256.

use super::{Fit, FitProblem, Method, Needs, Training};
use crate::FitError;
use linwright_ops::{BlockHadamardSpec, OpSpec, Shape, parameter_count};
use linwright_tensor::RngKey;
use linwright_train::Control;
use serde::{Deserialize, Serialize};

/// Replaces a weight by BH-m.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockHadamardMethod {
    /// Number m of block-diagonal maps.
    pub depth: usize,
    /// Side of the blocks of the inner maps.
    pub block: usize,
    /// Number of blocks of the final map; by the operator's rule where absent.
    pub blocks: Option<usize>,
    /// How it is trained.
    pub training: Training,
}

impl Default for BlockHadamardMethod {
    fn default() -> Self {
        let BlockHadamardSpec { depth, block, blocks } = BlockHadamardSpec::default();
        Self { depth, block, blocks, training: Training { rate: 0.01, ..Training::default() } }
    }
}

impl BlockHadamardMethod {
    fn spec(&self) -> OpSpec {
        let Self { depth, block, blocks, .. } = *self;
        OpSpec::BlockHadamard(BlockHadamardSpec { depth, block, blocks })
    }
}

impl Method for BlockHadamardMethod {
    const ID: &'static str = "block_hadamard";

    fn label(&self) -> String {
        format!("BH{}", self.depth)
    }

    fn check(&self) -> Result<(), String> {
        self.training.check()
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
