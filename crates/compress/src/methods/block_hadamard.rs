//! Block-diagonal maps with Hadamard transforms between them, trained.
//!
//! Source: the BH-m baseline of arXiv:2507.11688: Adam, learning rate 0.01, batch size 256.

use super::{Fit, FitProblem, Method, SampleRows, Training};
use crate::FitError;
use crate::budget::{check_keep, operator_for};
use linwright_measure::capture::Needs;
use linwright_ops::{BlockHadamardSpec, OpSpec, Shape};
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
    /// Number of blocks of the final map; by default as the operator determines it.
    pub blocks: Option<usize>,
    /// Share of the dense parameters kept, as near as block sizes allow; exclusive with `blocks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<f64>,
    /// Training options.
    pub training: Training,
}

impl Default for BlockHadamardMethod {
    fn default() -> Self {
        let BlockHadamardSpec { depth, block, blocks } = BlockHadamardSpec::default();
        Self {
            depth,
            block,
            blocks,
            keep: None,
            training: Training { rate: 0.01, ..Training::default() },
        }
    }
}

impl BlockHadamardMethod {
    fn spec(&self, shape: Shape) -> Result<OpSpec, FitError> {
        let Self { depth, block, blocks, keep, .. } = *self;
        let spec = OpSpec::BlockHadamard(BlockHadamardSpec { depth, block, blocks });
        keep.map_or_else(|| Ok(spec.clone()), |keep| operator_for(&spec, keep, shape))
    }
}

impl Method for BlockHadamardMethod {
    const ID: &'static str = "block_hadamard";
    const SUMMARY: &'static str =
        "block-diagonal maps with Hadamard transforms between them, trained";

    fn label(&self) -> String {
        super::with_keep(format!("BH{}", self.depth), self.keep)
    }

    fn check(&self) -> Result<(), String> {
        if let (Some(keep), Some(blocks)) = (self.keep, self.blocks) {
            return Err(format!("has keep {keep} and blocks {blocks}; give one of them"));
        }
        check_keep(self.keep)?;
        self.training.check()
    }

    fn shrunk(&self, by: usize) -> Self {
        let blocks = self.blocks.map(|blocks| (blocks / by).max(1));
        Self { blocks, training: self.training.shrunk(), ..*self }
    }

    trains_its_spec!();
}
